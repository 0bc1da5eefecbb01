"""A standby of an Apache master: its log as it lies there, and what its tables say.

Against RocketMQ's own broker: `tests/rocketmq/test_master.py`.
"""

import random
from contextlib import suppress
from typing import Any

import pytest

from engine.broker import Broker
from engine.clock import ManualClock
from engine.errors import Corrupt, OnStandby
from engine.handover.master_tables import parse
from engine.message import Message
from engine.replication.pieces import LogPiece
from engine.replication.rocketmq_standby import RocketmqStandby
from engine.store.checkpoint import load_checkpoint
from engine.store.pool import InlinePool
from tests.engine.replication.master_log import (
    BORN_V6,
    MAGIC_V2,
    STORE_V6,
    MasterLog,
    tables,
)
from tests.simulation.boot import boot, settings
from tests.simulation.disk import Crash, Disk, FakeFiles

INNER_BATCH, COMPRESSED = 1 << 7, 1
SEGMENT_BYTES, DATA = settings().segment_bytes, settings().data


class Follower:
    """A master's log, and a standby of it on a simulated disk."""

    def __init__(self, rest: bytes = b"\0") -> None:
        self.clock = ManualClock()
        self.log = MasterLog(SEGMENT_BYTES, rest)
        self.disk = Disk(random.Random(3))
        self.standby = self.open()

    def open(self) -> RocketmqStandby:
        return RocketmqStandby(
            settings(), clock=self.clock, pool=InlinePool(), files=self.disk.boot()
        )

    def feed(self, size: int = 1000) -> None:
        """Give the standby what it lacks, as a new connection does."""
        self.standby.begin_again()
        for piece in self.log.pieces(self.standby.overlap, size):
            self.take(piece)

    def take(self, piece: LogPiece) -> None:
        self.standby.take(piece)
        self.show()

    def show(self) -> None:
        while self.standby.is_busy:
            self.standby.show()

    def apply(self, **sections: Any) -> None:
        """Take over tables that were given just now."""
        given = tables(len(self.log.data), **sections)
        for _ in self.standby.apply(parse(given)):
            pass
        self.show()
        self.standby.table_files.write(given)

    def checkpoint(self) -> None:
        """Bring all to the disk, so that a start as a standby's reads nothing of it again."""
        store = self.standby.parts.store
        store.begin_checkpoint(lambda: None)
        for _ in range(3):
            self.standby.tick()
        assert load_checkpoint(FakeFiles(self.disk), DATA / "checkpoint").confirmed == store.written

    def restart(self) -> None:
        self.disk.kill()
        self.standby = self.open()

    def promote(self) -> Broker:
        """Start the directory as a leader's."""
        self.standby.close()
        return boot(self.disk, self.clock)

    def bodies(self, topic: str = "orders", queue: int = 0) -> list[bytes]:
        """What can be read of a queue."""
        store = self.standby.parts.store
        messages = store.read_entries(store.entries(topic, queue, 0, 1000))
        return [message.body for message in messages if message is not None]

    @property
    def names(self) -> list[str]:
        return [topic.name for topic in self.standby.parts.catalog.all()]

    def bytes_of(self) -> bytes:
        """The copy, up to where it ends."""
        store = self.standby.parts.store
        return b"".join(
            store.read_log(base, SEGMENT_BYTES) for base in range(0, store.written, SEGMENT_BYTES)
        )


@pytest.fixture
def follower() -> Follower:
    return Follower()


def topic(queues: int = 4, **more: Any) -> dict[str, Any]:
    return {"readQueueNums": queues, "writeQueueNums": queues, "perm": 6, **more}


@pytest.mark.parametrize("rest", [b"\0", b"x"])
@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_the_log_is_equal_byte_for_byte_over_segments(rest: bytes, size: int) -> None:
    """RocketMQ 4 leaves other bytes than zeros behind the head of a blank record."""
    follower = Follower(rest)
    bodies = [b"%d" % number * 2500 for number in range(20)]
    for body in bodies[:10]:
        follower.log.put("orders", body)
    follower.feed(size)
    follower.restart()
    for body in bodies[10:]:
        follower.log.put("orders", body)
    follower.feed(size)
    assert len(follower.log.data) > 2 * SEGMENT_BYTES
    assert follower.bytes_of() == bytes(follower.log.data)
    assert follower.bodies() == bodies


def test_records_of_all_kinds_are_read_or_passed_over(follower: Follower) -> None:
    put = follower.log.put
    put("orders", b"v6", sys_flag=BORN_V6 | STORE_V6)
    put("%RETRY%" + "g" * 130, b"v2", magic=MAGIC_V2)
    put("orders", b"batch", sys_flag=INNER_BATCH, properties={"INNER_NUM": "3"})
    put("orders", b"no gzip", sys_flag=COMPRESSED)
    put("orders", b"beyond", queue=9)
    put("SCHEDULE_TOPIC_XXXX", b"delayed", queue=17, properties={"DELAY": "no level"})
    put("RMQ_SYS_TRANS_HALF_TOPIC", b"half")
    put("rmq_sys_wheel_timer", b"timer", properties={"TIMER_OUT_MS": "no number"})
    put("rmq_sys_REVIVE_LOG_test", b"{}", queue=7, properties={"KEYS": "a b"})
    put("%RETRY%g+orders", b"retry of pop")
    put("a" * 130, b"too long", magic=MAGIC_V2)
    put("orders", b"below", queue=-1)
    put("orders", b"")
    put("orders", b"last")
    follower.feed()
    assert follower.bytes_of() == bytes(follower.log.data)
    assert follower.bodies() == [b"v6", b"batch", b"no gzip", b"", b"last"]
    assert follower.bodies("orders", 9) == [b"beyond"]
    assert follower.bodies("%RETRY%" + "g" * 130) == [b"v2"]
    assert follower.bodies("rmq_sys_REVIVE_LOG_test", 7) == [b"{}"]
    assert follower.names == ["orders"]
    follower.restart()
    follower.feed()
    assert follower.bytes_of() == bytes(follower.log.data)
    follower.promote()


def test_garbage_is_refused_and_nothing_of_it_stays(follower: Follower) -> None:
    follower.log.put("orders", b"whole")
    end = follower.log.put("orders", b"damaged" * 100)
    follower.log.put("orders", b"behind")
    bad = bytearray(follower.log.data)
    bad[end + 150] ^= 1
    with pytest.raises(Corrupt, match=f"at {end}"):
        follower.take(LogPiece(0, bytes(bad), 0))
    assert follower.standby.end[0] == end
    follower.feed()
    assert follower.bytes_of() == bytes(follower.log.data)
    assert follower.bodies() == [b"whole", b"damaged" * 100, b"behind"]


def test_a_record_that_cannot_be_read_is_passed_over_once_it_came_twice(
    follower: Follower,
) -> None:
    """RocketMQ takes a byte 0 in a property; a sector that a power loss took reads as such."""
    for number in range(3):
        end = follower.log.put("orders", b"%d" % number, properties={"name": "\0" * (number == 1)})
        if number == 1:
            doubtful = end
    for is_again in (False, True):
        with pytest.raises(Corrupt, match=f"no record lies at {doubtful}: part of the properties"):
            follower.feed()
        assert follower.standby.end[0] == doubtful
        follower.feed()
        assert follower.bytes_of() == bytes(follower.log.data)
        assert follower.bodies() == [b"0", b"2"]
        assert [each.start for each in follower.standby.parts.store.damages] == [doubtful]
        if not is_again:
            follower.restart()
    assert follower.promote().topic_stats("orders").queues[0].max_offset == 3


def test_a_gap_and_other_bytes_are_refused(follower: Follower) -> None:
    follower.log.put("orders", b"one")
    follower.feed()
    end = follower.standby.end[0]
    with pytest.raises(Corrupt, match=f"ends at {end}, what comes begins at {end + 8}"):
        follower.take(LogPiece(end + 8, b"x" * 100, 0))
    follower.standby.begin_again()
    other = bytearray(follower.log.data)
    other[-1] ^= 1
    with pytest.raises(Corrupt, match="other bytes"):
        follower.take(LogPiece(0, bytes(other), 0))


def test_a_record_without_an_end_is_not_held_for_good(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.replication.rocketmq_standby.PART_BYTES_MAX", 1000)
    follower.log.put("orders", b"x" * 5000)
    with pytest.raises(Corrupt, match="no record ends"):
        follower.feed(300)


def test_nothing_but_the_log_changes_the_log(follower: Follower) -> None:
    with pytest.raises(OnStandby):
        follower.standby.parts.store.append([Message("orders", b"own")])


@pytest.mark.parametrize("first", [0, 200_000])
def test_a_queue_begins_with_the_first_message_that_the_master_still_has(
    follower: Follower, first: int
) -> None:
    follower.log.offsets["orders", 0] = first
    for number in range(5):
        follower.log.put("orders", b"%d" % number * 25_000)
    assert len(follower.log.data) > 2 * SEGMENT_BYTES
    follower.standby.begin_again()
    for piece in follower.log.pieces(2 * SEGMENT_BYTES):
        follower.take(piece)
    for _ in range(2):
        assert follower.standby.parts.store.bounds("orders", 0) == (first + 2, first + 5)
        follower.restart()
    broker = follower.promote()
    assert broker.topic_stats("orders").queues[0].min_offset == first + 2


# -- tables -----------------------------------------------------------------------------------


def test_tables_are_in_force_and_stay_over_a_restart(follower: Follower) -> None:
    for number in range(5):
        follower.log.put("orders", b"%d" % number)
    follower.feed()
    follower.apply(
        topics={"orders": topic(8, attributes={"message.type": "FIFO"}), "empty": topic(2)},
        groups={"g": {"retryMaxTimes": 3, "consumeMessageOrderly": True}},
        offsets={"orders@g": {0: 3, 1: 0}, "orders@alone": {0: 9}, "orders@CID_RMQ_SYS_X": {0: 1}},
    )
    for _ in range(2):
        parts = follower.standby.parts
        orders = parts.catalog.get("orders")
        assert (orders.read_queues, orders.type.value) == (8, "FIFO")
        assert follower.names == ["empty", "orders"]
        groups = {each.name: (each.retry_max, each.ordered) for each in parts.groups.all()}
        assert groups == {"g": (3, True), "alone": (16, False)}
        floors = {
            (each.group, each.queue): each.floor for each in parts.delivery.progress_store.every()
        }
        assert floors == {("g", 0): 3, ("g", 1): 0, ("alone", 0): 5}
        parts.store.journal.renew()  # its own journal begins anew with a snapshot
        follower.standby.tick()
        follower.standby.tick()
        assert parts.store.journal.place.number > 0
        follower.restart()


def test_what_the_master_changes_and_takes_away_is_changed(follower: Follower) -> None:
    follower.log.put("orders", b"1")
    follower.log.put("gone", b"2")
    follower.feed()
    both = {"orders": topic(), "gone": topic()}
    follower.apply(topics=both, groups={"g": {}, "h": {}}, offsets={"orders@g": {0: 1}})
    follower.apply(topics={"orders": topic(2)}, groups={"g": {}}, offsets={"orders@g": {0: 0}})
    parts = follower.standby.parts
    assert follower.names == ["orders"]
    assert parts.catalog.get("orders").write_queues == 2
    assert [each.name for each in parts.groups.all()] == ["g"]
    progress = parts.delivery.progress_store.find("g", "orders", 0)
    assert progress is not None
    assert progress.floor == 0
    follower.restart()
    assert follower.names == ["orders"]


def test_a_topic_that_the_tables_do_not_have_yet_stays(follower: Follower) -> None:
    follower.feed()
    given = tables(0, topics={})
    follower.log.put("new", b"1")
    follower.feed()
    for _ in follower.standby.apply(parse(given)):
        pass
    assert follower.names == ["new"]


@pytest.mark.parametrize("is_told", [True, False])
def test_a_topic_that_was_made_anew_has_its_new_messages(follower: Follower, is_told: bool) -> None:
    for number in range(3):
        follower.log.put("orders", b"old %d" % number)
    follower.log.put("other", b"stays")
    follower.feed()
    follower.apply(topics={"orders": topic(), "other": topic()})
    if is_told:
        follower.apply(topics={"other": topic()})
    follower.log.forget("orders")
    follower.log.put("orders", b"new 0")
    follower.log.put("orders", b"new 1")
    follower.feed()
    follower.apply(topics={"orders": topic(), "other": topic()})
    for _ in range(2):
        assert follower.bodies() == [b"new 0", b"new 1"]
        assert follower.bodies("other") == [b"stays"]
        follower.restart()


# -- promotion --------------------------------------------------------------------------------


def waiting(number: int) -> dict[str, str]:
    return {"DELAY": "3", "REAL_TOPIC": "later", "REAL_QID": "0", "UNIQ_KEY": f"D{number}"}


def test_a_promoted_standby_goes_on_as_a_leader(follower: Follower) -> None:
    log = follower.log
    for number in range(4):
        log.put(
            "orders", b"%d" % number, properties={"KEYS": f"k{number}", "UNIQ_KEY": f"I{number}"}
        )
    for number in range(3):
        log.put("SCHEDULE_TOPIC_XXXX", b"d%d" % number, 2, waiting(number))
    log.put("later", b"d0", properties=waiting(0))
    follower.feed()
    follower.apply(
        topics={"orders": topic(), "later": topic()},
        groups={"g": {}},
        offsets={"orders@g": {0: 2}},
        delays={3: 1},
    )
    follower.checkpoint()
    broker = follower.promote()
    deliveries = broker.receive("g", {"orders": "*"}, count_max=9)
    assert [each.message.body for each in deliveries] == [b"2", b"3"]
    sent = broker.send([Message("orders", b"own", queue=0)])
    assert sent.offsets == [4]
    follower.clock.advance(20)
    for _ in range(10):
        broker.tick()
    later = [each.body for each in broker.pull("later", 0, 0, count_max=10).messages]
    assert later == [b"d0", b"d1", b"d2"]
    assert not FakeFiles(follower.disk).exists(DATA / "rocketmq-copy")
    broker.stop()
    again = boot(follower.disk, follower.clock)
    assert again._store.notes == []
    assert len(again.pull("later", 0, 0, count_max=10).messages) == 3


@pytest.mark.parametrize("step", range(1, 80, 6))
def test_a_first_start_that_dies_is_made_again(follower: Follower, step: int) -> None:
    for number in range(3):
        follower.log.put("SCHEDULE_TOPIC_XXXX", b"d%d" % number, 2, waiting(number))
    follower.log.put("later", b"d0", properties=waiting(0))
    follower.feed()
    follower.apply(topics={"later": topic()}, delays={3: 1})
    follower.standby.close()
    follower.disk.crash_in = step
    with suppress(Crash):
        boot(follower.disk, follower.clock)
    follower.disk.crash_in = None
    follower.disk.kill()
    broker = boot(follower.disk, follower.clock)
    follower.clock.advance(20)
    for _ in range(10):
        broker.tick()
    later = [each.body for each in broker.pull("later", 0, 0, count_max=10).messages]
    assert later == [b"d0", b"d1", b"d2"]
