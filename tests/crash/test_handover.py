"""A leader hands over to its standby under load, there and back; or one of them is killed then."""

import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kitemq import AckResult, Client, Consumer, KiteError, Message, TimedOut, Unreachable
from kitemq.model.server import Replication
from kitemq.received import Received
from tests.crash.process import ServerProcess
from tests.crash.test_promotion import LIMIT_S, TOPIC, Couple, Sender, kitemq
from tests.crash.test_standby import differences
from tests.patience import until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

GROUP = "billing"
KILLS = int(os.environ.get("HANDOVER_KILLS", "3"))


@pytest.fixture
def couple(tmp_path: Path) -> Iterator[Couple]:
    couple = Couple(tmp_path)
    couple.first.start()
    couple.second.start()
    try:
        yield couple
    finally:
        couple.first.kill()
        couple.second.kill()


class Taker:
    """Consumes and acknowledges; `again` are places that came after they were acknowledged."""

    def __init__(self, servers: str) -> None:
        self.bodies: set[str] = set()
        self.again: list[str] = []
        self.acked: set[int] = set()
        self._servers = servers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Taker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Consumer(GROUP, TOPIC, self._servers) as consumer:
            while not self._stop.is_set():
                with suppress(TimedOut):
                    message = consumer.receive(0.2)
                    assert message is not None
                    self._take(message)

    def _take(self, message: Received) -> None:
        body = bytes(message.body).decode()
        if message.position in self.acked:
            self.again.append(body)
        self.bodies.add(body)

        def settled(result: AckResult) -> None:
            if result is AckResult.DONE:
                self.acked.add(message.position)

        message.ack(settled)


class Caller:
    """Sends by REST for as long as it may; `refusals` are the errors of answers."""

    def __init__(self, servers: str) -> None:
        self.accepted: list[str] = []
        self.refusals: list[KiteError] = []
        self._servers = servers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Caller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Client(self._servers, timeout_s=LIMIT_S) as client:
            for number in itertools.count():
                if self._stop.is_set():
                    return
                try:
                    client.messages.send(TOPIC, [Message(body=f"c{number}")])
                    self.accepted.append(f"c{number}")
                except Unreachable:  # the connection was lost before the answer came
                    continue
                except KiteError as error:
                    self.refusals.append(error)


def in_step(couple: Couple, leader: ServerProcess) -> bool:
    try:
        state = couple.state(leader)
    except KiteError:
        return False
    return not state.leader and [each.in_step for each in state.standbys] == [True]


def test_nothing_is_lost_and_nothing_comes_back_there_and_back(couple: Couple) -> None:
    first, second = couple.first, couple.second
    servers = f"{second.url},{first.url}"
    with first.client() as client:
        client.topics.create(TOPIC)
        client.groups.create(GROUP)
    until(lambda: in_step(couple, first), "no standby", LIMIT_S)
    with (
        Taker(servers) as taker,
        Sender(servers, prefix="r") as replicated,
        Sender(servers, durability="stored", prefix="s") as stored,
        Caller(servers) as caller,
    ):
        for epoch, leader, heir in ((2, first, second), (3, second, first), (4, first, second)):
            counts = len(replicated.accepted), len(stored.accepted)
            until(lambda n=counts[0]: len(replicated.accepted) > n + 20, "r", LIMIT_S)
            until(lambda n=counts[1]: len(stored.accepted) > n + 20, "s", LIMIT_S)
            done = kitemq("handover", "--server", leader.url, "--json")
            assert done.returncode == 0, done.stderr
            assert f'"epoch":{epoch}' in done.stdout
            until(lambda heir=heir: in_step(couple, heir), "no standby", LIMIT_S)
    sent = {*replicated.accepted, *stored.accepted, *caller.accepted}
    with Taker(servers) as last:
        until(lambda: taker.bodies | last.bodies >= sent, "a consumer lacks something", LIMIT_S)
    assert not taker.acked & last.acked
    assert (taker.again, last.again, caller.refusals) == ([], [], [])
    assert couple.bodies(second) >= sent
    for server in (first, second):
        state = couple.state(server)
        assert (state.epoch, state.tails) == (4, [])
    couple.caught_up(first, couple.bodies(second))
    first.stop()
    first.start()  # with the words of its first start: the hand-over counts
    assert couple.state(first).leader == couple.ports[1]
    until(lambda: couple.state(first).is_connected, "it does not follow", LIMIT_S)
    second.kill()
    first.kill()
    assert differences(second, first) == ""


def states(couple: Couple) -> list[Replication]:
    both = []
    for server in (couple.first, couple.second):
        with suppress(KiteError):
            both.append(couple.state(server))
    return both


def has_one_leader(couple: Couple) -> bool:
    both = states(couple)
    if len(both) < 2:
        return False
    leaders = [each for each in both if not each.leader and not each.heir]
    return len(leaders) == 1 and sum(each.is_connected for each in both) == 1


@pytest.mark.parametrize("victim", ["leader", "standby"])
def test_one_leader_is_left_whoever_dies_at_whatever_moment(couple: Couple, victim: str) -> None:
    seed = time.time_ns() % 1_000_000
    chance = random.Random(seed)
    leader, standby = couple.first, couple.second
    servers = f"{leader.url},{standby.url}"
    with (
        Sender(servers, prefix="r") as replicated,
        Sender(servers, durability="stored", prefix="s") as stored,
    ):
        for _ in range(KILLS):
            until(lambda leader=leader: in_step(couple, leader), f"seed {seed}", LIMIT_S)
            count = len(replicated.accepted)
            until(lambda n=count: len(replicated.accepted) > n, f"seed {seed}", LIMIT_S)
            asking = threading.Thread(target=ask, args=(leader,))
            asking.start()
            time.sleep(chance.uniform(0.0, 0.15))
            dead = leader if victim == "leader" else standby
            dead.kill()
            asking.join()
            dead.start()
            until(lambda: has_one_leader(couple), f"seed {seed}", LIMIT_S)
            if couple.state(leader).leader:
                leader, standby = standby, leader
    assert {*replicated.accepted, *stored.accepted} <= couple.bodies(leader), f"seed {seed}"
    # Nobody has ever accepted what the other does not know.
    assert [each.tails for each in states(couple)] == [[], []], f"seed {seed}"


def ask(leader: ServerProcess) -> None:
    with suppress(KiteError), leader.client() as client:
        client.server.hand_over(timeout_s=2.0)
