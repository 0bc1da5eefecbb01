"""Old messages go by age, by size and for room; what waits for its time does not."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.broker import Broker, PullAnswer, PullStatus, TopicConfig
from engine.errors import DiskFull, Invalid
from engine.events import EngineEvent, Expired, Overtaken
from engine.message import Message
from tests.engine.conftest import Engine
from tests.engine.retention.parts import (
    HOUR_S,
    SEGMENT_BYTES,
    StatedDisk,
    bodies,
    bounds,
    fill,
    names,
    start,
)


@pytest.fixture
def heard() -> list[EngineEvent]:
    return []


def listen(broker: Broker, heard: list[EngineEvent]) -> Broker:
    broker.events.subscribe(heard.append)
    return broker


# -- by age -----------------------------------------------------------------------------------


def test_messages_older_than_the_setting_go_a_segment_at_a_time(
    engine: Engine, heard: list[EngineEvent]
) -> None:
    broker = listen(start(engine, retention_h=1), heard)
    old = fill(engine, 3)
    engine.tick(1.5 * HOUR_S)
    assert bodies(broker) == old[-1:], "only what lies in the last segment is left"
    assert names(engine, "commitlog") == [f"{3 * SEGMENT_BYTES:020d}"]
    assert broker.send([Message("orders", b"new", queue=0)]).offsets == [len(old)]
    gone = [event for event in heard if isinstance(event, Expired)]
    assert [(event.cause, event.size_bytes) for event in gone] == [("age", 3 * SEGMENT_BYTES)]


def test_messages_that_are_young_enough_stay(engine: Engine) -> None:
    broker = start(engine, retention_h=1)
    sent = fill(engine, 3, step_s=1.0)
    engine.tick(HOUR_S / 2)
    assert bodies(broker) == sent


def test_retention_of_zero_hours_keeps_messages_for_good(engine: Engine) -> None:
    broker = start(engine, retention_h=0)
    sent = fill(engine, 2)
    engine.tick(1000 * HOUR_S)
    assert bodies(broker) == sent


def test_offsets_go_on_where_everything_of_a_queue_has_expired(engine: Engine) -> None:
    broker = start(engine, retention_h=1)
    sent = fill(engine, 1)
    fill(engine, 2, topic="other")
    engine.tick(2 * HOUR_S)
    count = len(sent)
    assert bounds(broker) == (count, count)
    answer = broker.pull("orders", 0, 3)
    assert answer.status is PullStatus.OFFSET_TOO_SMALL
    assert (answer.answer, answer.next_offset) == (PullAnswer.OFFSET_MOVED, count)
    for again in (engine.restart, engine.crash):
        broker = again(segment_bytes=SEGMENT_BYTES, queue_file_entries=7, index_items=40)
        assert bounds(broker) == (count, count)
    assert broker.send([Message("orders", b"next", queue=0)]).offsets == [count]


def test_queue_and_index_files_follow_the_log(engine: Engine) -> None:
    broker = start(engine, retention_h=1)
    sent = fill(engine, 6)
    many = names(engine, "consumequeue", "orders", "0")
    indexes = names(engine, "index")
    engine.tick(2 * HOUR_S)
    engine.tick(70)
    left = names(engine, "consumequeue", "orders", "0")
    assert left == [many[-1]], "the last file stays: offsets are counted by it"
    assert len(names(engine, "index")) < len(indexes)
    assert bodies(broker) == sent[-1:]
    assert broker.messages_by_key("orders", "orders0") == []
    assert names(engine, "trash") == []


def test_an_emptied_queue_keeps_the_file_that_its_offsets_are_counted_by(engine: Engine) -> None:
    broker = start(engine, retention_h=1)
    broker.send([Message("orders", b"%d" % number, queue=0) for number in range(21)])
    fill(engine, 2, topic="other")
    engine.tick(2 * HOUR_S)
    engine.tick(70)
    assert names(engine, "consumequeue", "orders", "0") == [f"{14 * 20:020d}"]
    broker = engine.crash(segment_bytes=SEGMENT_BYTES, queue_file_entries=7, index_items=40)
    assert bounds(broker) == (21, 21)
    assert broker.send([Message("orders", b"x", queue=0)]).offsets == [21]


# -- by size ----------------------------------------------------------------------------------


def test_a_log_over_its_size_loses_its_oldest_segments(
    engine: Engine, heard: list[EngineEvent]
) -> None:
    broker = listen(start(engine, retention_bytes=2 * SEGMENT_BYTES), heard)
    fill(engine, 30, step_s=0.2)
    engine.tick(30)
    status = broker.retention.status()
    assert status.log_bytes <= 2 * SEGMENT_BYTES
    assert {event.cause for event in heard if isinstance(event, Expired)} == {"size"}


def test_many_old_segments_go_ten_at_a_time_without_a_pause(
    engine: Engine, heard: list[EngineEvent]
) -> None:
    broker = listen(start(engine, retention_h=1), heard)
    fill(engine, 25, step_s=0.1)
    engine.tick(2 * HOUR_S)
    sizes = [event.size_bytes for event in heard if isinstance(event, Expired)]
    assert sizes == [10 * SEGMENT_BYTES, 10 * SEGMENT_BYTES, 5 * SEGMENT_BYTES]
    assert broker.retention.status().segments == 1


# -- for room on the disk ---------------------------------------------------------------------


def test_from_85_percent_on_the_oldest_segments_go_though_they_are_young(
    engine: Engine, heard: list[EngineEvent]
) -> None:
    disk = StatedDisk(total=100 * SEGMENT_BYTES)
    broker = listen(start(engine, files=disk), heard)
    sent = fill(engine, 5, step_s=0.1)
    disk.free = 16 * SEGMENT_BYTES
    engine.tick(10)
    assert bodies(broker) == sent, "84 % is not full enough"
    disk.free = 13 * SEGMENT_BYTES  # two segments over the mark
    engine.tick(10)
    gone = [event for event in heard if isinstance(event, Expired)]
    assert gone[0].cause == "disk"
    assert gone[0].size_bytes == 2 * SEGMENT_BYTES, "no more than it takes"


def test_from_90_percent_on_sends_are_refused_and_reads_go_on(engine: Engine) -> None:
    disk = StatedDisk(total=100 * SEGMENT_BYTES)
    broker = start(engine, files=disk)
    broker.send([Message("orders", b"before", queue=0)])
    disk.free = 9 * SEGMENT_BYTES
    engine.tick(2)
    with pytest.raises(DiskFull, match=r"91\.0 % full"):
        broker.send([Message("orders", b"x", queue=0)])
    assert "91.0 % full" in broker.health().failures["store"]
    assert not broker.health().is_ready
    assert bodies(broker) == ["before"]
    disk.free = 50 * SEGMENT_BYTES
    engine.tick(2)
    assert broker.send([Message("orders", b"after", queue=0)]).offsets == [1]


def test_the_engine_still_moves_what_it_has_while_producers_are_refused(engine: Engine) -> None:
    """Retries, due messages and timers on the move are what lets old segments go."""
    disk = StatedDisk(total=100 * SEGMENT_BYTES)
    broker = start(engine, files=disk)
    broker.send([Message("orders", b"late", queue=0, delay_level=1)])
    disk.free = 5 * SEGMENT_BYTES
    engine.tick(0.5)
    engine.tick(2)
    assert bodies(broker) == ["late"]


def test_a_disk_with_room_enough_is_never_too_full(engine: Engine) -> None:
    disk = StatedDisk(total=10_000_000_000_000, free=100_000_000_000)
    broker = start(engine, files=disk)
    sent = fill(engine, 3)
    engine.tick(10)
    assert broker.retention.status().disk_percent == 0
    assert bodies(broker) == sent


def test_a_percentage_over_a_hundred_is_refused(engine: Engine) -> None:
    with pytest.raises(Invalid) as refused:
        engine.start(disk_force_percent=101)
    assert refused.value.field == "disk_force_percent"


# -- what waits ---------------------------------------------------------------------------------


def test_a_message_with_a_time_of_delivery_outlives_its_segment(engine: Engine) -> None:
    broker = start(engine, retention_h=1)
    due_ms = engine.clock.now_ms() + 200 * 3_600_000
    broker.send([Message("orders", b"in a week", queue=0, deliver_at_ms=due_ms)])
    for _ in range(10):
        fill(engine, 2, topic="other")
        engine.tick(2 * HOUR_S)
    assert broker.retention.status().segments < 5, "it was moved, and holds nothing up"
    assert broker.scheduled().items[0].due_ms == due_ms
    engine.tick(200 * HOUR_S)
    assert bodies(broker) == ["in a week"]


def test_a_segment_with_a_message_in_a_delay_level_stays_until_that_is_due(engine: Engine) -> None:
    broker = start(engine, retention_h=1)
    broker.send([Message("orders", b"in two hours", queue=0, delay_level=18)])
    old = fill(engine, 2, topic="other")
    engine.tick(1.5 * HOUR_S)
    status = broker.retention.status()
    assert [held.name for held in status.held_by] == ["messages in a delay level"]
    assert bodies(broker, "other") == old
    engine.tick(HOUR_S)
    engine.tick(11)
    assert bodies(broker) == ["in two hours"]
    assert broker.retention.status().held_by == []
    assert bodies(broker, "other") == old[-1:]


def test_a_full_disk_does_not_take_what_waits_and_health_says_so(engine: Engine) -> None:
    disk = StatedDisk(total=100 * SEGMENT_BYTES)
    broker = start(engine, files=disk)
    broker.send([Message("orders", b"soon", queue=0, delay_level=18)])
    fill(engine, 2, topic="other", step_s=0.1)
    disk.free = 12 * SEGMENT_BYTES
    engine.tick(10)
    assert "messages in a delay level" in broker.health().warnings["retention"]
    assert broker.health().is_ready, "it works, somebody should make room"
    engine.tick(2 * HOUR_S)
    assert "soon" in bodies(broker)
    assert "retention" not in broker.health().warnings


# -- topics with an age of their own --------------------------------------------------------------


def test_a_topic_with_a_shorter_age_begins_later_at_once(
    engine: Engine, heard: list[EngineEvent]
) -> None:
    broker = listen(start(engine), heard)
    broker.create_topic(TopicConfig("short", retention_ms=60_000))
    broker.send([Message("short", b"old", queue=0, keys=("k",)), Message("orders", b"old")])
    engine.tick(50)
    broker.send([Message("short", b"young", queue=0)])
    engine.tick(20)
    assert bodies(broker, "short") == ["young"]
    assert broker.messages_by_key("short", "k") == []
    assert broker.topic_stats("orders").messages == 1, "others keep theirs"
    gone = [event for event in heard if isinstance(event, Expired)]
    assert [(event.cause, event.topic, event.count) for event in gone] == [
        ("topic_age", "short", 1)
    ]


@pytest.mark.parametrize("ending", ["crash", "restart"])
def test_what_was_too_old_for_its_topic_does_not_come_back(engine: Engine, ending: str) -> None:
    broker = start(engine)
    broker.create_topic(TopicConfig("short", retention_ms=60_000))
    broker.send([Message("short", b"old", queue=0)])
    engine.tick(100)
    assert bounds(broker, "short") == (1, 1)
    again = engine.crash if ending == "crash" else engine.restart
    broker = again(segment_bytes=SEGMENT_BYTES, queue_file_entries=7, index_items=40)
    assert bounds(broker, "short") == (1, 1)
    assert broker.send([Message("short", b"new", queue=0)]).offsets == [1]
    assert bodies(broker, "short") == ["new"]


@pytest.mark.parametrize("retention_ms", [0, 10 * 3_600_000])
def test_a_topic_with_a_longer_age_holds_its_segments(engine: Engine, retention_ms: int) -> None:
    broker = start(engine, retention_h=1)
    broker.create_topic(TopicConfig("long", retention_ms=retention_ms))
    broker.send([Message("long", b"kept", queue=0)])
    fill(engine, 3, topic="other")
    engine.tick(5 * HOUR_S)
    assert bodies(broker, "long") == ["kept"]
    assert broker.retention.status().oldest_position == 0
    if retention_ms:
        engine.tick(6 * HOUR_S)
        assert bodies(broker, "long") == []
        assert broker.retention.status().oldest_position > 0


def test_from_75_percent_on_no_topic_holds_what_is_old_for_the_broker(engine: Engine) -> None:
    disk = StatedDisk(total=100 * SEGMENT_BYTES)
    broker = start(engine, files=disk, retention_h=1)
    broker.create_topic(TopicConfig("long", retention_ms=0))
    broker.send([Message("long", b"kept", queue=0)])
    fill(engine, 3, topic="other")
    engine.tick(2 * HOUR_S)
    assert bodies(broker, "long") == ["kept"]
    disk.free = 24 * SEGMENT_BYTES
    engine.tick(11)
    assert bodies(broker, "long") == []


def test_a_topics_age_can_be_changed_and_taken_back(engine: Engine) -> None:
    broker = start(engine)
    broker.create_topic(TopicConfig("short"))
    broker.send([Message("short", b"1", queue=0)])
    broker.change_topic("short", retention_ms=1000)
    engine.tick(20)
    assert bounds(broker, "short") == (1, 1)
    broker.change_topic("short", retention_ms=None)
    broker.send([Message("short", b"2", queue=0)])
    engine.tick(100)
    assert bodies(broker, "short") == ["2"]
    for wrong in (-1, 999, 1 << 60):
        with pytest.raises(Invalid) as refused:
            broker.change_topic("short", retention_ms=wrong)
        assert refused.value.field == "retention_ms"


# -- groups that were overtaken -------------------------------------------------------------------


def test_a_group_that_is_overtaken_goes_on_at_the_begin_and_knows_its_loss(
    engine: Engine, heard: list[EngineEvent]
) -> None:
    broker = listen(start(engine, retention_h=1), heard)
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    broker.send([Message("orders", b"first", queue=0)])
    [delivery] = broker.receive("g", {"orders": "*"})
    broker.ack("g", [delivery.receipt])
    sent = fill(engine, 3)
    engine.tick(2 * HOUR_S)
    engine.tick(1)
    lost = len(sent) - 1
    [lag] = [each for each in broker.lag("g").queues if each.topic == "orders"]
    assert (lag.expired, lag.committed, lag.count) == (lost, lost + 1, 1)
    told = [event for event in heard if isinstance(event, Overtaken)]
    assert [(event.group, event.topic, event.count) for event in told] == [("g", "orders", lost)]
    [delivery] = broker.receive("g", {"orders": "*"}, count_max=10)
    assert delivery.message.body.decode() == sent[-1]
    for _ in range(2):  # from the journal, then from a snapshot
        broker = engine.crash(segment_bytes=SEGMENT_BYTES, queue_file_entries=7, index_items=40)
        [lag] = [each for each in broker.lag("g").queues if each.topic == "orders"]
        assert lag.expired == lost
        broker._store.journal.compact()


def test_a_receive_before_the_groups_turn_counts_the_loss_once(
    engine: Engine, heard: list[EngineEvent]
) -> None:
    broker = listen(start(engine), heard)
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    assert broker.receive("g", {"orders": "*"}) == []
    broker.send([Message("orders", b"%d" % number, queue=0) for number in range(5)])
    broker.retention.purge("orders", before_offset={0: 3})
    got = broker.receive("g", {"orders": "*"}, count_max=10)
    engine.tick(2)
    assert [delivery.message.body for delivery in got] == [b"3", b"4"]
    assert [event.count for event in heard if isinstance(event, Overtaken)] == [3]


# -- what is told ---------------------------------------------------------------------------------


def test_status_says_what_is_in_force_and_what_goes_next(
    engine: Engine, send: Callable[..., Any]
) -> None:
    engine.close()
    broker = start(engine, retention_h=1, files=StatedDisk())
    begin_ms = engine.clock.now_ms()
    fill(engine, 1)
    status = broker.retention.status()
    assert (status.retention_ms, status.segments) == (3_600_000, 2)
    assert status.oldest_ms == begin_ms
    last_ms = broker.message("orders", 0, bounds(broker)[1] - 1).stored_ms
    assert status.next_due_ms == last_ms + 3_600_000
    assert (status.refusal, status.warning, status.held_by) == ("", "", [])
