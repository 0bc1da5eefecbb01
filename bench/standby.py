"""Lines of a leader with a standby: what `replicated` costs, and how long nobody leads.

Both servers run on this machine and share its processors.
"""

import contextlib
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from bench.clients.websocket import SocketSend
from bench.figures import Check, Figure
from bench.line import FULL, Contestant, Line, RateLine, Scale, sending
from bench.load import LoadError
from bench.process import Process, free_port
from bench.server import Server
from kitemq.client import Client
from kitemq.errors import KiteError
from kitemq.producer import Producer
from kitemq.protocol.sends import DurabilityCode

BODY = b"x" * 256
BATCH = 256
TOPIC = "standby"
BEFORE_S, AFTER_S = 1.0, 3.0  # of sending, around the change of leaders
PATIENCE_S = 60.0
LOOK_S = 0.02
STORED, REPLICATED = "KiteMQ, stored", "KiteMQ, replicated"


class Couple(Server):
    """A leader, which the load goes to and which is weighed, and its standby."""

    def __init__(self, data: Path) -> None:
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        super().__init__(data, settings={"ha_listen": addresses[0]})
        settings = {"ha_listen": addresses[1], "follow": addresses[0]}
        self.standby = Server(data.with_name(f"{data.name}-standby"), settings=settings)

    def start(self) -> float:
        ready_s = super().start()
        try:
            self.standby.start()
            with Client(self.url, timeout_s=PATIENCE_S) as client:
                until(lambda: any(each.in_step for each in client.server.replication().standbys))
        except BaseException:
            self.end_both()
            raise
        return ready_s

    def end_both(self) -> None:
        self.standby.stop()
        self.stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end_both()

    def hand_over(self) -> None:
        """Let the standby lead."""
        with Client(self.url, timeout_s=PATIENCE_S) as client:
            client.server.hand_over(timeout_s=PATIENCE_S)

    def kill_and_promote(self) -> None:
        """Kill the leader, and let the standby lead as soon as it can."""
        self.kill()
        with Client(self.standby.url, timeout_s=PATIENCE_S) as client:
            until(lambda: _promoted(client))


def until(look: Callable[[], bool]) -> None:
    """Look again and again; LoadError after a minute."""
    end_s = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > end_s:
            raise LoadError("the standby is not what it was to become")
        time.sleep(LOOK_S)


def _promoted(client: Client) -> bool:
    with contextlib.suppress(KiteError):  # the leader is not known to be lost yet
        client.server.promote()
        return True
    return False


@dataclass(frozen=True)
class GapLine:
    """The longest time without an accepted send, of a producer that knows both addresses."""

    name: str
    title: str
    change: Callable[[Couple], None]
    durabilities: dict[str, str]
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        return [
            Figure(
                name,
                gap_s=statistics.median(
                    self._one(folder / f"{self.name}-{durability}-{number}", durability, scale)
                    for number in range(scale.rounds)
                ),
            )
            for name, durability in self.durabilities.items()
        ]

    def _one(self, data: Path, durability: str, scale: Scale) -> float:
        part = scale.seconds / FULL.seconds
        with Couple(data) as couple, Sends(couple, durability) as sends:
            until(lambda: sends.is_going_on)
            time.sleep(BEFORE_S * part)
            self.change(couple)
            until(lambda: sends.is_going_on)
            time.sleep(AFTER_S * part)
        return max(late - early for early, late in itertools.pairwise(sends.accepted_s))


class Sends:
    """One message after the other; `accepted_s` are the times of the answers."""

    def __init__(self, couple: Couple, durability: str) -> None:
        self.accepted_s: list[float] = []
        self._servers = f"{couple.url},{couple.standby.url}"
        self._durability = durability
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def is_going_on(self) -> bool:
        """Whether something was accepted just now."""
        return bool(self.accepted_s) and time.monotonic() - self.accepted_s[-1] < LOOK_S

    def __enter__(self) -> "Sends":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        with Producer(self._servers) as producer:
            while not self._stop.is_set():
                with contextlib.suppress(KiteError):  # it is over its time: send another one
                    producer.send(TOPIC, BODY, durability=self._durability)
                    self.accepted_s.append(time.monotonic())


def start_couple(data: Path) -> Process | None:
    return Couple(data)


def contestant(name: str, durability: DurabilityCode, *, batch: int, window: int) -> Contestant:
    work = sending(
        lambda turn: SocketSend(
            turn.port, turn.topic, BODY, per_request=batch, durability=durability
        ),
        window=window,
    )
    return Contestant(name, start_couple, work)


def durabilities(batch: int, window: int) -> tuple[Contestant, ...]:
    return tuple(
        contestant(f"KiteMQ, {code.name.lower()}", code, batch=batch, window=window)
        for code in (DurabilityCode.STORED, DurabilityCode.FLUSHED, DurabilityCode.REPLICATED)
    )


STANDBY: tuple[Line, ...] = (
    RateLine(
        "standby-one",
        "A leader with a standby: one message at a time, each waited for, 256 B",
        durabilities(1, 1),
    ),
    RateLine(
        "standby-1024",
        "A leader with a standby: 1024 messages in flight, 256 B",
        durabilities(BATCH, 4),
    ),
    GapLine(
        "standby-handover",
        "Time without an accepted send at a planned hand-over",
        Couple.hand_over,
        {STORED: "stored", REPLICATED: "replicated"},
        (Check(STORED, "gap_s", 1.0),),
    ),
    GapLine(
        "standby-killed",
        "Time without an accepted send after SIGKILL of the leader and a promotion",
        Couple.kill_and_promote,
        {STORED: "stored"},
    ),
)
