"""Lines of a KiteMQ that stands before a RocketMQ cluster: what the way through it costs.

The cluster is one broker of Apache's with its name server; all of them share this machine's
processors.
"""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.clients.remoting import pulling_frames, sending_frames
from bench.clients.websocket import SocketSend, SocketTake
from bench.line import Contestant, Line, MakeSend, RateLine, Work, sending, taking
from bench.peers import rocketmq
from bench.process import Process
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


def start_gateway(data: Path) -> Process | None:
    return Gateway(data) if rocketmq.is_installed() else None


def start_cluster(data: Path) -> Process | None:
    return rocketmq.RocketMQServer(data) if rocketmq.is_installed() else None


def socket_send(batch: int) -> MakeSend:
    return lambda turn: SocketSend(turn.port, turn.topic, BODY, per_request=batch)


def gateway_line(name: str, title: str, through: Work, straight: Work) -> RateLine:
    """The same load both ways."""
    ways = (
        Contestant(THROUGH, start_gateway, through),
        Contestant(STRAIGHT, start_cluster, straight),
    )
    return RateLine(name, f"KiteMQ before Apache's broker: {title}, 256 B", ways)


TAKE = taking(socket_send(BATCH), lambda turn: SocketTake(turn.port, turn.topic, GROUP), window=4)
# Sends by WebSocket beside SEND_MESSAGE_V2, and a backlog by push beside one by pulls.
GATEWAY: tuple[Line, ...] = (
    gateway_line(
        "gateway-one",
        "one message at a time, each waited for",
        sending(socket_send(1)),
        sending_frames(BODY, window=1),
    ),
    gateway_line(
        "gateway-64",
        "64 messages in flight, one by one",
        sending(socket_send(1), window=64),
        sending_frames(BODY, window=64),
    ),
    gateway_line(
        "gateway-1024",
        "1024 messages in flight, in batches of 256",
        sending(socket_send(BATCH), window=4),
        sending_frames(BODY, window=4, batch=BATCH),
    ),
    gateway_line("gateway-consume", "take a backlog and settle it", TAKE, pulling_frames(BODY)),
)
