"""Apache's own Java client while the server is killed, and while one of three members is."""

import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.remoting.server_process import served
from tests.remoting.test_java import VERSIONS, Driver, driver_of

pytestmark = pytest.mark.slow

LOAD_S = 2.0
LIMIT_S = 60.0


class Watched:
    """A running driver, and the words it has printed by now."""

    def __init__(self, driver: Driver, *words: object, program: str = "Drive") -> None:
        self.process: subprocess.Popen[str] = driver.begin(*words, program=program)
        self.lines: list[list[str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def said(self, word: str) -> list[str]:
        return [line[1] for line in tuple(self.lines) if line[0] == word and len(line) > 1]

    def assert_runs(self) -> None:
        """AssertionError with what it printed last, where it has ended."""
        status = self.process.poll()
        assert status is None, f"the driver ended with {status}: {self.lines[-20:]}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.split())


def until(what: str, is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end_s, f"never {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_killed_server_loses_nothing_and_returns_nothing_committed(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = (f"--remoting-listen={address}", "--disk-free-min-bytes=0")
    driver = driver_of(VERSIONS[-1], address, tmp_path)
    running: list[Watched] = []
    try:
        with served(tmp_path / "data", options) as server:
            producer = Watched(driver, "flood", "orders")
            running.append(producer)
            until("sent", lambda: bool(producer.said("SENT")))
            consumer = Watched(driver, "member", "billing", "orders")
            running.append(consumer)
            until("consumed", lambda: len(consumer.said("GOT")) > 50)
            time.sleep(LOAD_S)
            before = server.get("/groups/billing/lag")["queues"]
            server.process.kill()
            server.process.wait()
        sent = len(producer.said("SENT"))
        committed = {
            each["queue"]: int(each["committed"]) for each in before if each["topic"] == "orders"
        }
        with served(tmp_path / "data", options) as server:
            until("sent again", lambda: len(producer.said("SENT")) > sent + 50)
            producer.kill()
            accepted = set(producer.said("SENT"))
            until("all consumed", lambda: accepted <= set(consumer.said("GOT")))
            until("all committed", lambda: server.get("/groups/billing/lag")["count"] == 0)
            after = server.get("/groups/billing/lag")["queues"]
            consumer.kill()
            rest = Watched(driver, "member", "billing", "orders")  # a new member starts after them
            running.append(rest)
            until("started", lambda: ["STARTED"] in rest.lines)
            time.sleep(1)
    finally:
        for each in running:
            each.kill()
    assert committed, before
    for each in after:
        if each["topic"] == "orders":
            assert int(each["committed"]) >= committed[each["queue"]]
    assert not [body for body, place in repeated(consumer) if place.offset < committed[place.queue]]
    assert not rest.said("GOT")


class Place(NamedTuple):
    """Where a message lies: one producer sent one message after the other."""

    queue: int
    offset: int


def repeated(consumer: Watched) -> list[tuple[str, Place]]:
    """The messages that came more than once, with their places."""
    got = [(line[1], int(line[2])) for line in consumer.lines if line[0] == "GOT"]
    queues: dict[int, list[str]] = {}
    for body, queue in sorted(set(got), key=lambda each: int(each[0][1:])):
        queues.setdefault(queue, []).append(body)
    places = {
        body: Place(queue, offset)
        for queue, bodies in queues.items()
        for offset, body in enumerate(bodies)
    }
    counts = Counter(body for body, _ in got)
    return [(body, places[body]) for body, times in counts.items() if times > 1]


def test_three_members_share_and_one_is_killed(tmp_path: Path) -> None:
    with served(tmp_path / "data", ("--default-queues=6",)) as server:
        driver = driver_of(VERSIONS[-1], server.address, tmp_path)
        producer = Watched(driver, "flood", "orders")
        running = [producer]
        try:
            until("sent", lambda: bool(producer.said("SENT")))
            members = [Watched(driver, "member", "billing", "orders") for _ in range(3)]
            running += members
            until("shared", lambda: all(len(each.said("GOT")) > 20 for each in members))
            members[0].kill()
            heard = [len(each.lines) for each in members]
            until(
                "rebalanced",
                lambda: (
                    set(producer.said("SENT")[:200])
                    <= {body for each in members for body in each.said("GOT")}
                ),
            )
            until(
                "had a message of each queue",
                lambda: queues_of(members[1:], heard[1:]) == set(map(str, range(6))),
            )
            producer.kill()
            accepted = set(producer.said("SENT"))
            until(
                "all consumed",
                lambda: accepted <= {body for each in members for body in each.said("GOT")},
            )
        finally:
            for each in running:
                each.kill()


def queues_of(members: Sequence[Watched], begins: Sequence[int]) -> set[str]:
    """The queues that members had messages of, each from a line on."""
    return {
        line[2]
        for each, begin in zip(members, begins, strict=True)
        for line in tuple(each.lines)[begin:]
        if line[0] == "GOT" and len(line) > 2
    }
