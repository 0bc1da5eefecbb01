"""Lines of a KiteMQ that stands before a RocketMQ cluster: what the way through it costs.

The cluster is one broker of Apache's with its name server; all of them share this machine's
processors.
"""

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.clients.remoting import pulling_frames, sending_frames
from bench.clients.websocket import SocketSend, SocketTake
from bench.figures import Check, Figure
from bench.line import Line, MakeSend, Scale, Work, in_turns, sending, taking
from bench.peers import rocketmq
from bench.server import Server

BODY = b"x" * 256
BATCH = 256
GROUP = "bench"
THROUGH, STRAIGHT = "through KiteMQ", "straight to the broker"


class Gateway(Server):
    """`kitemq serve --rocketmq`, with the broker that it stands before: that is what is weighed."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.cluster = rocketmq.RocketMQServer(
            data.with_name(f"{data.name}-cluster"), has_timers=True
        )

    def command(self) -> Sequence[str]:
        serve = ["serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}"]
        serve += ["--set", "log_level=warning"]
        serve += ["--rocketmq", f"127.0.0.1:{self.cluster.remoting_port}"]
        return [sys.executable, "-m", "kitemq.cli", *serve]

    def start(self) -> float:
        self.cluster.start()
        try:
            return super().start()
        except BaseException:
            self.cluster.kill()
            raise

    def end(self, how: signal.Signals) -> None:
        super().end(how)
        self.cluster.end(how)

    def cpu_s(self) -> float:
        return self.cluster.cpu_s()

    def gateway_cpu_s(self) -> float:
        return super().cpu_s()


def socket_send(batch: int) -> MakeSend:
    return lambda turn: SocketSend(turn.port, turn.topic, BODY, per_request=batch)


class Load(NamedTuple):
    """The same load both ways: by WebSocket, and by the remoting protocol."""

    name: str
    through: Work
    straight: Work


LOADS = (
    Load("one at a time", sending(socket_send(1)), sending_frames(BODY, window=1)),
    Load(
        "64 in flight, one by one",
        sending(socket_send(1), window=64),
        sending_frames(BODY, window=64),
    ),
    Load(
        "1024 in flight, by 256",
        sending(socket_send(BATCH), window=4),
        sending_frames(BODY, window=4, batch=BATCH),
    ),
    Load(
        "take and settle a backlog",
        taking(socket_send(BATCH), lambda turn: SocketTake(turn.port, turn.topic, GROUP), window=4),
        pulling_frames(BODY),
    ),
)


@dataclass(frozen=True)
class GatewayLine:
    """Each load through a gateway and straight to a broker, in turns; both run for all loads."""

    name: str
    title: str
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        with (
            Gateway(folder / "gateway") as gateway,
            rocketmq.RocketMQServer(folder / "straight") as straight,
        ):
            if scale.warm_s:
                gateway.settle()
            return [
                figure
                for number, load in enumerate(LOADS)
                for figure in in_turns(
                    [
                        (f"{load.name}, {THROUGH}", gateway, load.through),
                        (f"{load.name}, {STRAIGHT}", straight, load.straight),
                    ],
                    f"{self.name}-{number}",
                    scale,
                )
            ]


GATEWAY: tuple[Line, ...] = (
    (GatewayLine("gateway", "KiteMQ before Apache's broker, beside the broker alone, 256 B"),)
    if rocketmq.is_installed()
    else ()
)
