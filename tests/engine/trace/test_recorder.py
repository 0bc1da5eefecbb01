"""The recorder costs no send its success; it is bounded, samples, and says what it lost."""

import errno
import random

import pytest

from engine.broker import Broker, Nack, TopicConfig
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.errors import DiskFull, Invalid
from engine.events import Acked, MessagesDelivered
from engine.message import Message
from engine.store.pool import InlinePool
from engine.topic.names import TRACE_TOPIC
from engine.trace import recorder
from engine.trace.record import decode
from engine.trace.rows import ALL, RowKind
from tests.simulation.disk import ROOM_UNLIMITED, Disk


def rows_of(broker):
    """Every row in the trace topic, oldest first."""
    result = broker.pull(TRACE_TOPIC, 0, 0, count_max=160)
    return [row for message in result.messages for row in decode(message.body)]


def send(broker, count=1, topic="orders"):
    broker.send([Message(topic, b"x", queue=0) for _ in range(count)])


def consume(broker, group="g", topic="orders", count=100):
    deliveries = broker.receive(group, {topic: "*"}, count_max=count, client="c")
    broker.ack(group, [each.receipt for each in deliveries])
    return len(deliveries)


def test_neighbours_share_a_row_and_a_batch_a_record(engine, broker):
    send(broker, 100)
    assert consume(broker) == 100
    engine.tick(0.2)
    delivered, acked = rows_of(broker)
    assert (delivered.kind, delivered.first, delivered.message_count) == (RowKind.DELIVERED, 0, 100)
    assert (acked.kind, acked.first, acked.message_count) == (RowKind.ACKED, 0, 100)
    assert delivered.born_ms == delivered.stored_ms == engine.clock.now_ms() - 200
    assert broker.traces.status().kept_records == 1


def test_nothing_is_written_before_a_batch_is_due_nor_while_nothing_happens(engine, broker):
    send(broker)
    written = broker._store.written
    consume(broker)
    assert broker.tick() <= 0.2
    engine.tick(0.1)
    assert broker._store.written == written
    engine.tick(0.1)
    assert broker._store.written > written
    written = broker._store.written
    for _ in range(5):
        engine.tick(60)
    assert broker._store.written == written


def test_sends_alone_write_no_trace(engine, broker):
    send(broker, 100)
    engine.tick(5)
    assert broker.traces.status().records == 0


def test_reading_the_traces_as_a_group_is_not_traced(engine, broker):
    send(broker)
    consume(broker)
    engine.tick(0.2)
    before = broker.traces.status().records
    for _ in range(5):
        consume(broker, "reader", TRACE_TOPIC)
        engine.tick(0.2)
    assert broker.traces.status().records == before == 1


def test_a_sample_is_whole_and_the_same_for_every_group(engine):
    broker = engine.start(trace_sample=0.1)
    send(broker, 1000)
    for group in ("g", "h"):
        while consume(broker, group):
            pass
    engine.tick(0.2)
    rows = rows_of(broker)
    traced = {}
    for row in rows:
        offsets = range(row.first, row.first + row.message_count)
        traced.setdefault((row.group, row.kind), set()).update(offsets)
    one, *others = traced.values()
    assert len(others) == 3
    assert all(each == one for each in others)
    assert 80 <= len(one) <= 120
    assert {row.sample for row in rows} == {ALL // 10}
    status = broker.traces.status()
    assert (status.recorded, status.sampled_out) == (4 * len(one), 4000 - 4 * len(one))


def test_failures_are_kept_of_messages_that_the_sample_leaves_out(engine):
    broker = engine.start(trace_sample=0.0001)
    send(broker, 3)
    deliveries = broker.receive("g", {"orders": "*"}, count_max=3, client="c")
    left_out = deliveries[1]
    broker.nack("g", [Nack(left_out.receipt)], "c")
    engine.tick(10)
    broker.receive("g", {"orders": "*"}, client="c")
    engine.tick(0.2)
    journey = broker.traces.journey(left_out.message.message_id)
    assert [each.outcome for each in journey.stages if each.name == "delivery"] == [
        "failed",
        "inflight",
    ]
    applying = [each.code for each in journey.reasons_checked if each.applies]
    assert applying == ["sampled_out"]


def test_a_topic_has_its_own_rate_which_is_kept(engine):
    broker = engine.start(trace_sample=0.0)
    broker.create_topic(TopicConfig("seen", trace_sample=1.0))
    broker.create_topic(TopicConfig("unseen"))
    for topic in ("seen", "unseen"):
        send(broker, topic=topic)
        consume(broker, topic=topic)
    engine.tick(0.2)
    assert {row.topic for row in rows_of(broker)} == {"seen"}
    broker = engine.crash(trace_sample=0.0)
    assert broker.topic("seen").trace_sample == 1.0
    assert broker.change_topic("seen", trace_sample=None).trace_sample is None
    send(broker, topic="seen")
    consume(broker, topic="seen")
    engine.tick(0.2)
    assert broker.traces.status().records == 0


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_rate_is_a_share(engine, broker, share):
    with pytest.raises(Invalid) as refused:
        broker.create_topic(TopicConfig("t", trace_sample=share))
    assert refused.value.field == "trace_sample"
    with pytest.raises(Invalid) as refused:
        Broker(
            EngineConfig(data=engine.root / "other", trace_sample=share),
            clock=ManualClock(),
            pool=InlinePool(),
        )
    assert refused.value.field == "trace_sample"


def test_a_full_buffer_drops_and_counts_and_sends_go_on(engine, monkeypatch):
    monkeypatch.setattr(recorder, "WAITING_MAX", 50)
    broker = engine.start()
    send(broker, 100)
    assert consume(broker, count=40) == 40
    assert broker.traces.status().waiting == 40, "the acknowledgements found no room"
    assert broker.traces.status().dropped == 40
    assert consume(broker, count=40) == 40
    engine.tick(0.2)
    status = broker.traces.status()
    assert (status.recorded, status.dropped, status.waiting) == (40, 120, 0)
    message = broker.message("orders", 0, 0)
    reasons = broker.traces.journey(message.message_id).reasons_checked
    assert [each.code for each in reasons if each.applies] == ["dropped"]


def test_much_at_once_is_written_in_bounded_ticks_without_waiting(engine, monkeypatch):
    monkeypatch.setattr(recorder, "WAITING_EARLY", 100)
    broker = engine.start()
    place = ("g", "orders", 0)
    for number in range(3000):
        broker.events.emit(Acked(engine.clock.now_ms(), *place, (number * 2,)))
    broker.tick()
    assert broker.traces.status().rows == recorder.TICK_ROWS
    engine.tick()
    assert broker.traces.status().rows == 3000
    assert [row.first for row in rows_of(broker)] == [number * 2 for number in range(3000)]


def test_an_event_without_its_columns_is_recorded_all_the_same(engine, broker):
    broker.events.emit(MessagesDelivered(engine.clock.now_ms(), "g", "orders", 0, (7, 5, 6), "c"))
    engine.tick(0.2)
    rows = [(row.first, row.message_count, row.attempt) for row in rows_of(broker)]
    assert rows == [(7, 1, 1), (5, 2, 1)]


def test_a_full_disk_makes_traces_wait_and_forgets_none(engine):
    disk = Disk(random.Random(1))
    broker = engine.start(files=disk.boot(), disk_free_min_bytes=100_000)
    send(broker)
    disk.room_bytes = 90_000
    engine.tick(1)
    deliveries = broker.receive("g", {"orders": "*"}, client="c")
    engine.tick(0.2)
    status = broker.traces.status()
    assert "bytes are free" in status.refusal
    assert (status.waiting, status.kept_records) == (1, 0)
    assert "traces" not in broker.health().failures, "the recorder waits, it does not fail"
    with pytest.raises(DiskFull):
        send(broker)
    disk.room_bytes = ROOM_UNLIMITED
    engine.tick(2)
    send(broker)
    broker.ack("g", [each.receipt for each in deliveries])
    engine.tick(2)
    status = broker.traces.status()
    assert (status.recorded, status.waiting, status.dropped, status.refusal) == (2, 0, 0, "")


@pytest.mark.parametrize("number", range(1, 6))
def test_no_send_fails_for_a_write_of_the_recorder_that_fails(engine, number):
    disk = Disk(random.Random(number))
    broker = engine.start(files=disk.boot())
    send(broker)
    left = number

    def fault(verb, path):
        nonlocal left
        if verb == "pwrite" and "commitlog" in str(path):
            left -= 1
            if not left:
                raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(3):
        consume(broker)
        disk.fault = fault
        engine.tick(1.2)  # only the recorder writes to the log now
        disk.fault = None
        send(broker)
    engine.tick(2)
    assert broker.traces.status().refusal == ""
    assert broker.traces.status().dropped == 0
    assert broker.topic_stats("orders").messages == 4


def test_a_clean_stop_writes_what_waits(engine, broker):
    send(broker)
    consume(broker)
    broker = engine.restart()
    assert [row.kind for row in rows_of(broker)] == [RowKind.DELIVERED, RowKind.ACKED]


def test_traces_are_no_traffic_of_anybody(engine, broker):
    heard = []
    broker.events.subscribe(heard.append)
    send(broker)
    consume(broker)
    engine.tick(0.2)
    assert broker.traces.status().records == 1
    assert {getattr(event, "topic", "") for event in heard} <= {"orders", ""}
