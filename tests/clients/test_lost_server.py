"""A server that is killed under official clients: they come back, and what they were told holds."""

import itertools
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.process import free_port
from tests.clients.conftest import Starter
from tests.clients.official import Client, ClientError, Official, bodies, body_of
from tests.grpc.endpoint import Served, served

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]

KILLS = 4
UP_S = (0.3, 1.5)
INVISIBLE_S = 10  # the least that the server takes: what a crash left in flight comes after it
DRAIN_S = 90.0
ACCEPTED_MIN = 10 * KILLS + 1
RETRY_S = 0.1
FORGETS = 0.05


class Mortal:
    """A server that is killed and started again on the same ports and data."""

    def __init__(self, data: Path, *options: str) -> None:
        self._data = data
        self._running: AbstractContextManager[Served] | None = None
        self.address = f"127.0.0.1:{free_port()}"
        self.url = f"http://127.0.0.1:{free_port()}"
        self._options = ["--disk-free-min-bytes=0", "--retry-max=1000", *options]
        self._options += [f"--grpc-listen={self.address}", f"--port={self.url.rpartition(':')[2]}"]

    def copies(self, message_id: str) -> int:
        """How often a message was stored as it was sent: twice if the client itself repeated it."""
        answer = httpx.get(f"{self.url}/api/v1/messages/{message_id}", timeout=30)
        return sum(each["topic"] == "orders" for each in answer.json()["items"])

    def wait_settled(self, group: str) -> None:
        """Return once a group has nothing left to do; AssertionError after half a minute."""
        until_s = time.monotonic() + 30
        while httpx.get(f"{self.url}/api/v1/groups/{group}/lag", timeout=30).json()["count"]:
            assert time.monotonic() < until_s, "not all of it is settled"
            time.sleep(RETRY_S)

    def start(self) -> None:
        self._running = served(self._data, self._options)
        found = self._running.__enter__()
        assert (found.address, found.url) == (self.address, self.url)

    def kill(self) -> None:
        """SIGKILL, which `served` ends with."""
        if self._running is not None:
            self._running.__exit__(None, None, None)
            self._running = None


# An undecided transaction is asked about soon, and for as long as a slow machine takes.
ASKING = (
    "--transaction-timeout-s=2",
    "--transaction-check-interval-s=1",
    "--transaction-check-max=1000",
)


@pytest.fixture
def mortal(tmp_path: Path) -> Any:
    server = Mortal(tmp_path / "data", *ASKING)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.mark.needs("push")
def test_clients_go_on_when_a_killed_server_is_back(mortal: Mortal, start: Starter, client: str):
    official = start(client, mortal.address, timeout_s=3)
    producer = official.producer("orders")
    pushed = official.push("pushed", {"orders": "*"})
    simple = official.simple("simple", {"orders": "*"})
    producer.send("orders", "before")
    assert bodies(pushed.heard(1)) == ["before"]
    assert bodies(simple.take(1)) == ["before"]
    mortal.wait_settled("pushed")
    mortal.kill()
    with pytest.raises(ClientError):
        producer.send("orders", "nobody is there")
    mortal.start()
    until_s = time.monotonic() + 60
    insist(lambda: producer.send("orders", "after"), until_s)
    # What was sent while nobody was there may have been stored by a later try of the client's own.
    assert body_of(pushed.heard(2, limit_s=90)[1]) != "before"
    taken: list[dict[str, Any]] = []
    while "after" not in bodies(taken):
        found: list[dict[str, Any]] = insist(simple.receive, until_s)
        for message in found:
            insist(partial(simple.ack, message), until_s)
        taken += found
    assert "before" not in bodies(taken)
    assert "after" in bodies(insist(partial(heard_all, pushed, taken), until_s))


def test_what_was_undecided_when_the_server_was_killed_is_asked_about_and_delivered(
    mortal: Mortal, start: Starter, client: str
):
    official = start(client, mortal.address, timeout_s=3)
    producer = official.producer("orders", name="first", checks={})  # it does not know
    sent = producer.send("orders", "half", transaction="leave")
    mortal.kill()
    seen = len(official.events("first", "check"))
    mortal.start()
    if client == "node":  # Python opens its stream again within five minutes only
        asked = official.wait_events("first", seen + 1, "check")[-1]
        assert asked.message["message_id"] == sent["message_id"]
    official.producer("orders", name="second", checks={"half": "commit"})
    asked = official.wait_events("second", 1, "check")[0]
    assert (body_of(asked.message), asked.message["message_id"]) == ("half", sent["message_id"])
    (message,) = official.simple("audit", {"orders": "*"}).take(1)
    assert (body_of(message), message["message_id"]) == ("half", sent["message_id"])
    answer = httpx.get(f"{mortal.url}/api/v1/transactions/{sent['transaction_id']}", timeout=30)
    assert answer.json()["state"] == "committed"


def heard_all(pushed: Client, taken: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a listener heard once it was called as often as another group got messages."""
    return pushed.heard(1 + len(taken), limit_s=90)


def insist(do: Callable[[], Any], until_s: float) -> Any:
    """Try until the client goes through; its ClientError when the time is over."""
    while True:
        try:
            return do()
        except ClientError:
            if time.monotonic() > until_s:
                raise
            time.sleep(RETRY_S)


class Book:
    """What the client was told, by body."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.done_s: dict[str, float] = {}
        self.ids: dict[str, str] = {}
        self.unsure: set[str] = set()  # acknowledged, and the answer was lost with the server
        self.came_back: list[str] = []
        self.errors: list[BaseException] = []

    @property
    def missing(self) -> set[str]:
        return self.accepted - self.done_s.keys() - self.unsure


class Load:
    """A producer and two consumers of the official client that go on through every crash."""

    def __init__(self, official: Official, seed: int) -> None:
        self.book = Book()
        self._is_sending = True
        self._is_ended = False
        producer = official.producer("orders")
        consumers = [
            official.simple("crash", {"orders": "*"}, name=f"c{number}") for number in range(2)
        ]
        duties: list[Callable[[], None]] = [lambda: self._produce(producer)]
        for number, consumer in enumerate(consumers):
            duties.append(self._consumer(consumer, random.Random(seed + number)))
        self._threads = [
            threading.Thread(target=self._guard, args=(duty,), daemon=True) for duty in duties
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Send until enough is accepted; consume until nothing is missing or the time is over."""
        until_s = time.monotonic() + DRAIN_S
        while len(self.book.accepted) < ACCEPTED_MIN and time.monotonic() < until_s:
            time.sleep(RETRY_S)
        self._is_sending = False
        while self.book.missing and time.monotonic() < until_s:
            time.sleep(RETRY_S)
        self._is_ended = True
        for thread in self._threads:
            thread.join(60)

    def _guard(self, duty: Callable[[], None]) -> None:
        try:
            duty()
        except BaseException as error:
            self.book.errors.append(error)
            raise

    def _produce(self, producer: Client) -> None:
        for number in itertools.count():
            if not self._is_sending:
                return
            try:
                producer.send("orders", f"{number}")
            except ClientError:
                time.sleep(RETRY_S)  # whether it was stored is not known
            else:
                self.book.accepted.add(f"{number}")

    def _consumer(self, consumer: Client, chance: random.Random) -> Callable[[], None]:
        def consume() -> None:
            while not self._is_ended:
                asked_s = time.monotonic()
                try:
                    found = consumer.receive(invisible_s=INVISIBLE_S)
                except ClientError:
                    time.sleep(RETRY_S)
                    continue
                for message in found:
                    self._take(consumer, message, asked_s, is_kept=chance.random() < FORGETS)

        return consume

    def _take(
        self, consumer: Client, message: dict[str, Any], asked_s: float, *, is_kept: bool
    ) -> None:
        body = body_of(message)
        self.book.ids[body] = message["message_id"]
        if self.book.done_s.get(body, asked_s) < asked_s:
            self.book.came_back.append(body)
        if is_kept:
            return  # forgotten: it comes again when its time is over
        try:
            consumer.ack(message)
        except ClientError as error:
            if error.code is None:
                self.book.unsure.add(body)
        else:
            self.book.done_s.setdefault(body, time.monotonic())


def test_kills_lose_nothing_accepted_and_bring_nothing_acknowledged_back(
    mortal: Mortal, start: Starter
):
    seed = time.time_ns() % 1_000_000
    chance = random.Random(seed)
    load = Load(start("python", mortal.address, timeout_s=3), seed)
    for _ in range(KILLS):
        time.sleep(chance.uniform(*UP_S))  # the moment of death is what this is about
        mortal.kill()
        mortal.start()
    load.finish()
    book = load.book
    said = f"seed {seed}, {len(book.accepted)} accepted, {len(book.done_s)} acknowledged"
    came_back = [body for body in book.came_back if mortal.copies(book.ids[body]) == 1]
    assert not book.errors, f"{said}: {book.errors}"
    assert not book.missing, f"{said}: {len(book.missing)} lost, {sorted(book.missing)[:5]}"
    assert not came_back, f"{said}: {came_back[:5]} after their acknowledgement"
    assert len(book.accepted) >= ACCEPTED_MIN, f"{said}: too few to prove anything"
