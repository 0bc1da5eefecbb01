"""A standby is promoted as its leader is dead; the old leader comes back, stops, and follows."""

import itertools
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from bench.process import free_port
from kitemq import Client, Consumer, KiteError, Message, NotFound, Producer, Refused, TimedOut
from kitemq.model.server import Replication
from tests.crash.carriers import Carrier, ClassicCarrier, GrpcCarrier, SdkCarrier
from tests.crash.process import ServerProcess
from tests.crash.test_standby import differences
from tests.patience import until

PROMOTIONS = int(os.environ.get("PROMOTIONS", "3"))
pytestmark = [pytest.mark.crash, pytest.mark.timeout(300 + 60 * PROMOTIONS)]

LIMIT_S = 60.0
MOVE_S = 90.0  # until each client has found the new leader
DRAIN_S = 180.0  # what a dead leader had handed out comes when its time is over
TOPIC = "orders"


class Couple:
    """Two servers; `first` leads, until the other is promoted."""

    def __init__(self, path: Path) -> None:
        ports = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        secret = {"ha_secret": "what both of them know"}
        self.ports = ports
        self.first = ServerProcess(path / "first", ha_listen=ports[0], **secret)
        self.second = ServerProcess(path / "second", ha_listen=ports[1], follow=ports[0], **secret)

    def state(self, server: ServerProcess) -> Replication:
        with server.client() as client:
            return client.server.replication()

    def caught_up(self, standby: ServerProcess, bodies: set[str]) -> None:
        def look() -> bool:
            with suppress(NotFound):  # the topic is not there yet
                return self.bodies(standby) == bodies
            return False

        until(look, "the standby lacks something", LIMIT_S)

    def send(self, server: ServerProcess, *bodies: str) -> None:
        with server.client() as client:
            client.messages.send(TOPIC, [Message(body=body) for body in bodies])

    def bodies(self, server: ServerProcess) -> set[str]:
        return set(self.copies(server))

    def copies(self, server: ServerProcess) -> "Counter[str]":
        """The bodies, and how often each is there."""
        with server.client() as client:
            return Counter(body for queue in range(4) for body in self._bodies(client, queue))

    def _bodies(self, client: Client, queue: int) -> Iterator[str]:
        page = client.messages.pull(TOPIC, queue, 0)
        while page.messages:
            yield from (str(each.body) for each in page.messages)
            page = client.messages.pull(TOPIC, queue, int(page.next_offset))


@pytest.fixture
def couple(tmp_path: Path) -> Iterator[Couple]:
    couple = Couple(tmp_path)
    try:
        yield couple
    finally:
        couple.first.kill()
        couple.second.kill()


def kitemq(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kitemq", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_an_old_leader_is_fenced_and_its_tail_is_set_aside(couple: Couple, tmp_path: Path) -> None:
    first, second = couple.first, couple.second
    first.start()
    second.start()
    couple.send(first, "both")
    couple.caught_up(second, {"both"})
    refused = kitemq("promote", "--server", second.url)
    assert refused.returncode == 2
    assert "is connected" in refused.stderr
    second.kill()
    couple.send(first, "tail 1", "tail 2")
    first.kill()
    second.start()
    done = kitemq("promote", "--server", second.url, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"epoch": 2}
    couple.send(second, "new")
    assert couple.state(second).leader == ""

    with (tmp_path / "log").open("wb") as stderr:
        first.stderr = stderr
        first.begin()
        assert first.ended() == 2
        first.begin()
        assert first.ended() == 2
    said = (tmp_path / "log").read_text()
    assert "KiteMQ stops: there is a leader of epoch 2" in said
    assert "may not be used: there is a leader of epoch 2, this server's has 1" in said

    first.stderr = None
    first.settings["follow"] = couple.ports[1]
    first.start()
    couple.caught_up(first, {"both", "new"})
    state = couple.state(first)
    assert state.epoch == 2
    [tail] = state.tails
    assert (tail.epoch, tail.messages) == (1, 2)
    printed = kitemq("store", "tail", str(first.data / tail.file), "--json")
    rows = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [row["body"] for row in rows] == ["tail 1", "tail 2"]

    second.kill()
    second.start()  # with the same words: it follows nobody, it was promoted
    assert couple.state(second).leader == ""
    couple.send(second, "newest")
    couple.caught_up(first, {"both", "new", "newest"})
    second.kill()
    first.kill()
    assert differences(first, second) == ""


def test_a_promoted_standby_has_its_leaders_database_and_the_trail_of_its_promotion(
    couple: Couple,
) -> None:
    first, second = couple.first, couple.second
    first.start()
    second.start()
    with first.client() as client:
        client.topics.create(TOPIC)
    copy = second.data / "leader.db"
    until(lambda: "topic.create" in actions(copy), "no copy of the database", LIMIT_S)
    first.kill()
    assert "topic.create" not in actions(second.data / "kitemq.db")
    done = kitemq("promote", "--server", second.url)
    assert done.returncode == 0, done.stderr
    until(lambda: {"topic.create", "server.promote"} <= told(second), "no audit trail", LIMIT_S)
    assert not copy.exists()
    (kept,) = (second.data / "set-aside").glob("kitemq-*.db")
    assert "server.promote" in actions(kept)


def test_a_promoted_standby_asks_for_its_leaders_users(couple: Couple) -> None:
    first, second = couple.first, couple.second
    first.settings |= {"admin_name": "ada", "admin_password": "a long enough password"}
    first.begin()
    second.start()
    copy = second.data / "leader.db"
    until(lambda: values(copy, "SELECT name FROM users") == {"ada"}, "no copy", LIMIT_S)
    first.kill()
    done = kitemq("promote", "--server", second.url, "--json")
    assert (done.returncode, done.stdout) == (0, '{"epoch":2}\n'), done.stderr
    with second.client() as client, pytest.raises(Refused) as refused:
        client.server.replication()
    assert refused.value.code == "login_needed"


def actions(database: Path) -> set[str]:
    """What the audit trail in a file has."""
    return values(database, "SELECT action FROM audit")


def values(database: Path, question: str) -> set[str]:
    """What a file answers; nothing where there is none yet."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened,
    ):
        return {value for (value,) in opened.execute(question)}
    return set()


def told(server: ServerProcess) -> set[str]:
    """What the audit trail of a server has."""
    with suppress(KiteError), server.client() as client:
        return {each.action for each in client.server.audit()}
    return set()


def test_a_stopped_standby_starts_as_a_leader_only_after_a_promotion(couple: Couple) -> None:
    first, second = couple.first, couple.second
    first.start()
    second.start()
    couple.send(first, "one")
    couple.caught_up(second, {"one"})
    busy = kitemq("promote", "--data", str(second.data))
    assert busy.returncode != 0
    assert "another process uses" in busy.stderr
    first.kill()
    second.kill()
    del second.settings["follow"]
    second.begin()
    assert second.ended() == 2
    assert json.loads(kitemq("promote", "--data", str(second.data), "--json").stdout) == {
        "epoch": 2
    }
    second.start()
    assert couple.bodies(second) == {"one"}
    assert second.verify() == ""
    again = kitemq("promote", "--data", str(first.data))
    assert again.returncode == 2
    assert "is no standby's" in again.stderr


def test_clients_of_both_addresses_go_on_with_the_promoted_standby(couple: Couple) -> None:
    first, second = couple.first, couple.second
    first.start()
    second.start()
    both = f"{second.url},{first.url}"  # the standby's address comes first
    with Client(both) as client:
        client.topics.create(TOPIC)
        assert client.url == first.url
        client.groups.create("billing")
    received: set[str] = set()
    stop = threading.Event()

    def consume() -> None:
        with Consumer("billing", TOPIC, both) as consumer:
            while not stop.is_set():
                with suppress(TimedOut):
                    message = consumer.receive(0.5)
                    assert message is not None
                    received.add(bytes(message.body).decode())
                    message.ack()

    consumer = threading.Thread(target=consume)
    with Producer(both) as producer:
        until(lambda: couple.state(first).standbys, "no standby", LIMIT_S)
        for number in range(40):
            producer.send(TOPIC, f"{number}", durability="replicated")
        sent = set(map(str, range(40)))
        consumer.start()
        try:
            until(lambda: received, "nothing was received", LIMIT_S)
            first.kill()
            lost = producer.submit(TOPIC, "in between")  # waits for a leader
            assert kitemq("promote", "--server", second.url).returncode == 0
            lost.result(LIMIT_S)
            for number in range(40, 60):
                producer.send(TOPIC, f"{number}")
            sent |= {"in between", *map(str, range(40, 60))}
            until(lambda: received == sent, "the consumer lacks something", LIMIT_S)
        finally:
            stop.set()
            consumer.join()
    assert couple.bodies(second) >= sent


class Sender:
    """Sends numbers for as long as it may; `accepted` are those that were answered.

    By default they are on a standby as well then.
    """

    def __init__(self, servers: str, *, durability: str = "replicated", prefix: str = "") -> None:
        self.accepted: list[str] = []
        self._servers, self._durability, self._prefix = servers, durability, prefix
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer(self._servers) as producer:
            for number in itertools.count():
                while not self._stop.is_set():
                    with suppress(KiteError):  # nobody leads, or no standby is in step
                        body = f"{self._prefix}{number}"
                        producer.send(TOPIC, body, durability=self._durability)
                        self.accepted.append(body)
                        break
                    time.sleep(0.02)
                if self._stop.is_set():
                    return


@pytest.fixture
def carriers(couple: Couple, tmp_path: Path) -> Iterator[list[Carrier]]:
    """A producer and a consumer of each door, on a leader with a standby in step."""
    both = (couple.first, couple.second)
    for server in both:
        server.settings["grpc_listen"] = f"127.0.0.1:{free_port()}"
        server.settings["remoting_listen"] = f"127.0.0.1:{free_port()}"
        server.start()
    until(lambda: couple.state(couple.first).standbys, "no standby", LIMIT_S)
    with couple.first.client() as client:
        client.topics.create(TOPIC, durability="replicated")
        for group in ("sdk", "classic", "grpc"):
            client.groups.create(group)
    grpc, classic = (
        [str(server.settings[name]) for server in both]
        for name in ("grpc_listen", "remoting_listen")
    )
    running: list[Carrier] = []
    try:
        running.append(SdkCarrier(",".join(each.url for each in both), TOPIC))
        running.append(ClassicCarrier(classic, TOPIC, tmp_path / "classic"))
        running.append(GrpcCarrier(grpc, TOPIC, tmp_path / "grpc"))
        yield running
    finally:
        for each in running:
            each.close()


def test_what_was_accepted_as_replicated_outlives_each_leader(
    couple: Couple, carriers: list[Carrier]
) -> None:
    seed = time.time_ns() % 1_000_000
    chance = random.Random(seed)
    leader, standby = couple.first, couple.second
    for number in range(PROMOTIONS):
        for each in carriers:
            count, why = len(each.accepted()), f"{each.name}, promotion {number}, seed {seed}"
            each.assert_runs()
            until(lambda each=each, count=count: len(each.accepted()) > count, why, MOVE_S)
        time.sleep(chance.uniform(0.0, 0.5))
        leader.kill()
        words = ("promote", "--server", standby.url)
        until(lambda words=words: kitemq(*words).returncode == 0, f"seed {seed}", LIMIT_S)
        leader.settings["follow"] = couple.ports[0 if standby is couple.first else 1]
        leader.start()
        leader, standby = standby, leader
    for each in carriers:
        each.assert_runs()
        each.end_producer()
    accepted = {body for each in carriers for body in each.accepted()}
    stored = couple.copies(leader)
    lost = sorted(accepted - set(stored))
    assert not lost, f"seed {seed}: {lost[:5]} and {len(lost)} in all"
    for each in carriers:
        missing: set[str] = set()

        def has_all(each: Carrier = each, missing: set[str] = missing) -> bool:
            missing.clear()
            missing |= accepted - set(each.received())
            return not missing

        with suppress(AssertionError):
            until(has_all, limit_s=DRAIN_S)
        assert not missing, f"seed {seed}: {each.name} lacks {len(missing)}: {sorted(missing)[:5]}"
    say(carriers, stored, seed)


def say(carriers: list[Carrier], stored: "Counter[str]", seed: int) -> None:
    """How much was sent, and how much of it came twice, which is permitted."""
    lines = [f"{PROMOTIONS} promotions, seed {seed}"]
    for each in carriers:
        accepted, received = each.accepted(), each.received()
        twice = sum(stored[body] - 1 for body in accepted)
        again = sum(received.values()) - len(received)
        lines.append(
            f"{each.name}: {len(accepted)} accepted, {twice} stored twice, {again} came again"
        )
    print("\n".join(["", *lines]))  # noqa: T201 - this is what it is for
