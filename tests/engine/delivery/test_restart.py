"""What a killed process leaves behind: nothing acknowledged comes back, nothing is lost."""

import random

import pytest

from engine.delivery.changes import HandedOut
from engine.delivery.group import GroupConfig
from engine.delivery.values import Nack
from engine.errors import GroupNotFound
from engine.message import Message
from engine.store.files import OsFiles
from engine.topic.catalog import TopicConfig, TopicType
from tests.engine.conftest import Engine


def take(broker, count_max=10, **arguments):
    return broker.receive("g", {"orders": "*"}, count_max=count_max, **arguments)


def test_hand_outs_in_flight_keep_deadline_and_receipt(engine, broker, send):
    send("a", "b")
    a, _ = take(broker, invisible_s=30)
    broker = engine.crash()
    engine.tick(20)
    assert take(broker) == []
    assert broker.ack("g", [a.receipt]) == ["done"]
    engine.tick(10)
    (again,) = take(broker)
    assert (again.message.body, again.attempt) == (b"b", 2)


def test_what_ran_out_during_the_stop_is_delivered_at_once(engine, broker, send):
    send("a")
    take(broker, invisible_s=30)
    broker.stop()
    engine.clock.advance(3600)
    broker = engine.start()
    engine.tick()
    assert take(broker)[0].attempt == 2


def test_an_extended_deadline_and_a_release_survive(engine, broker, send):
    send("a", "b")
    a, b = take(broker, invisible_s=5)
    broker.extend("g", [a.receipt], 60)
    broker.release("g", [b.receipt])
    broker = engine.crash()
    engine.tick(10)
    assert [each.message.body for each in take(broker)] == [b"b"]
    assert broker.ack("g", [a.receipt]) == ["done"]


def test_a_renewed_receipt_survives_and_the_old_one_stays_stale(engine, broker, send):
    send("a")
    (a,) = take(broker, invisible_s=5)
    renewed = broker.renew("g", a.receipt, 60)
    broker = engine.crash()
    engine.tick(10)
    assert take(broker) == []
    assert broker.ack("g", [a.receipt]) == ["stale"]
    assert broker.ack("g", [renewed]) == ["done"]


def test_receipts_after_a_restart_are_never_those_of_before(engine, broker, send, clock):
    send("a")
    (old,) = take(broker)
    broker.release("g", [old.receipt])
    clock.set_ms(clock.now_ms() - 3_600_000)
    for _ in range(2):
        broker = engine.crash()
        broker._store.journal.compact()
    (new,) = take(broker)
    assert new.receipt.serial > old.receipt.serial
    assert broker.ack("g", [old.receipt]) == ["stale"]


def test_deleted_topics_and_groups_stay_forgotten(engine, broker, send):
    send("a")
    take(broker)
    broker.delete_topic("orders")
    broker.create_group(GroupConfig("h"))
    broker.delete_group("h")
    broker = engine.crash()
    assert broker.committed_offset("g", "orders", 0) is None
    assert broker.lag("g").queues[0].topic == "%RETRY%g"
    with pytest.raises(GroupNotFound):
        broker.lag("h")


def test_progress_of_a_topic_that_vanished_half_way_is_dropped(engine, broker, send, monkeypatch):
    send("a")
    take(broker)
    monkeypatch.setattr(broker._delivery, "forget_topic", lambda _: None)
    broker.delete_topic("orders")
    assert engine.crash().committed_offset("g", "orders", 0) is None


def test_progress_past_the_end_of_a_log_that_was_cut_is_drawn_back(engine, broker, send):
    """A power loss can take messages while the journal still knows that they were delivered."""
    send("a", "b")
    a, b = take(broker)
    broker.ack("g", [a.receipt])
    unknown = HandedOut("g", "orders", 0, 9, [2, 7], b.receipt.serial + 1, 2**42, "", [], [], [])
    broker._delivery.progress_store.write(unknown)
    broker = engine.crash()
    assert broker.lag("g").count == 1
    send("c")
    assert [each.message.body for each in take(broker)] == [b"c"]


class Killed(BaseException):
    """The process is gone: nothing after this write happened."""


class KillingFiles(OsFiles):
    """Files whose writes come to an end: the last one is cut short."""

    def __init__(self, writes, keep):
        self.left = writes
        self.keep = keep

    def open(self, path, *, create=False):
        return KillingFile(super().open(path, create=create), self)


class KillingFile:
    def __init__(self, file, files):
        self._file = file
        self._files = files

    def pwrite(self, data, position):
        files = self._files
        files.left -= 1
        if files.left == 0:
            self._file.pwrite(bytes(data)[: int(len(data) * files.keep)], position)
        if files.left <= 0:
            raise Killed
        self._file.pwrite(data, position)

    def __getattr__(self, name):
        return getattr(self._file, name)


class Story:
    """Sends, receives, acknowledges and fails; remembers what each verb promised."""

    def __init__(self, engine, seed):
        self.engine = engine
        self.random = random.Random(seed)
        self.sent = set()
        self.maybe_sent = set()
        self.acked = set()
        self.maybe_acked = set()
        self.number = 0

    def step(self, broker):
        action = self.random.choice([self.send, self.receive, self.receive, self.sleep])
        action(broker)

    def send(self, broker):
        bodies = {str(self.number + index) for index in range(self.random.randint(1, 4))}
        self.number += len(bodies)
        self.maybe_sent |= bodies
        broker.send(
            [Message("orders", body.encode(), queue=self.random.randint(0, 1)) for body in bodies]
        )
        self.sent |= bodies

    def receive(self, broker):
        given = take(broker, self.random.randint(1, 4), invisible_s=self.random.choice([1, 20]))
        for delivery in given:
            body = delivery.message.body.decode()
            assert body not in self.acked, "what was acknowledged came back"
            self.answer(broker, delivery, body)

    def answer(self, broker, delivery, body):
        match self.random.randint(0, 5):
            case 0 | 1:
                self.maybe_acked.add(body)
                if broker.ack("g", [delivery.receipt]) == ["done"]:
                    self.acked.add(body)
            case 2:
                broker.nack("g", [Nack(delivery.receipt, delay_s=self.random.choice([0, 1]))])
            case 3:
                broker.release("g", [delivery.receipt])
            case 4:
                broker.extend("g", [delivery.receipt], 5)
            case _:
                pass  # the client is gone with it

    def sleep(self, broker):
        self.engine.tick(self.random.choice([0, 0.5, 2]))

    def drain(self, broker):
        """Take everything that is left until nothing comes for a minute."""
        idle = 0
        while idle < 2:
            given = take(broker, 100)
            idle = 0 if given else idle + 1
            for delivery in given:
                body = delivery.message.body.decode()
                assert body not in self.acked, "what was acknowledged came back"
                self.acked.add(body)
                assert broker.ack("g", [delivery.receipt]) == ["done"]
            self.engine.tick(30)

    def check(self, broker):
        self.drain(broker)
        assert self.sent <= self.acked | self.maybe_acked, "a message was lost"
        assert self.acked <= self.maybe_sent
        lag = broker.lag("g")
        assert (lag.count, lag.inflight, lag.retry_waiting, lag.dead) == (0, 0, 0, 0)


def run(engine, seed, writes, keep):
    story = Story(engine, seed)
    files = KillingFiles(writes, keep)
    try:
        broker = engine.start(files=files, retry_max=1000)
        broker.create_topic(TopicConfig("orders"))
        for _ in range(30):
            story.step(broker)
    except Killed:
        pass
    files.left = 1 << 30
    engine.close()
    broker = engine.start(retry_max=1000)
    if broker.topics():
        story.check(broker)
    else:
        assert not story.sent


@pytest.mark.parametrize(("keep", "first"), [(0.0, 1), (0.6, 2)])
def test_a_kill_between_any_two_writes_loses_nothing_and_repeats_nothing(
    tmp_path, clock, keep, first
):
    for writes in range(first, 120, 2):
        engine = Engine(tmp_path / str(writes), clock)
        run(engine, seed=writes % 7, writes=writes, keep=keep)
        engine.close()


@pytest.mark.parametrize("seed", range(20))
def test_long_stories_with_crashes_and_snapshots_lose_nothing(engine, seed):
    broker = engine.start(retry_max=1000)
    broker.create_topic(TopicConfig("orders"))
    story = Story(engine, seed)
    for number in range(400):
        story.step(broker)
        if number % 100 == 50:
            broker = engine.crash(retry_max=1000)
        if number % 100 == 75:
            broker._store.journal.compact()
        if number % 100 == 99:
            broker = engine.restart(retry_max=1000)
    story.check(broker)


@pytest.mark.parametrize("seed", range(5))
def test_a_snapshot_is_the_state_that_the_journal_tells(engine, broker, seed):
    broker.create_topic(TopicConfig("orders", TopicType.FIFO, read_queues=2, write_queues=2))
    broker.create_group(GroupConfig("g", ordered=True))
    chance = random.Random(seed)
    for number in range(60):
        lane = chance.choice("abc")
        broker.send([Message("orders", b"%d" % number, message_group=lane)])
    for _ in range(40):
        for delivery in take(broker, chance.randint(1, 5), client=chance.choice("xy")):
            answer = chance.choice([broker.ack, broker.release, None])
            if answer is None:
                broker.nack("g", [Nack(delivery.receipt, delay_s=chance.randint(0, 9))])
            else:
                answer("g", [delivery.receipt])
        engine.tick(chance.choice([0, 3]))
    before = state(broker)
    broker = engine.crash()
    assert state(broker) == before
    broker._store.journal.compact()
    assert state(broker) == before
    broker = engine.crash()
    assert state(broker) == before


def state(broker):
    return [
        (
            progress.topic,
            progress.queue,
            progress.cursor,
            sorted(progress.ready.get("", ())),
            {
                offset: (
                    slot.phase,
                    slot.serial,
                    slot.until_ms,
                    slot.client,
                    slot.failures,
                    progress.lanes.lane(offset) if progress.lanes else "",
                )
                for offset, slot in sorted(progress.slots.items())
            },
        )
        for progress in broker._delivery.progress_store.of_group("g")
    ]
