"""Where a group begins; RocketMQ's own rule is in docs/rocketmq-rules.md."""

import pytest

from engine.broker import GroupConfig, StartAt
from engine.errors import Invalid, TopicNotFound
from engine.message import Message
from engine.topic.catalog import TopicConfig

SEGMENT_BYTES = 64 * 1024


def bodies(broker, group, topic="orders"):
    given = broker.receive(group, {topic: "*"}, count_max=100, client="c")
    return [each.message.body.decode() for each in given]


def pulled(broker, group):
    """What a pulling client of the group would read first."""
    offset = broker.start_offset(group, "orders", 0)
    return [each.body.decode() for each in broker.pull("orders", 0, offset).messages]


@pytest.fixture
def aged(engine):
    """A broker whose `orders` lost its first messages to retention: the first kept is not 0."""
    broker = engine.start(segment_bytes=SEGMENT_BYTES)
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    for number in range(40):
        broker.send([Message("orders", b"%d" % number + b" " * 4000)])
    engine.tick(2)  # a checkpoint: what lies behind it may go
    broker._store.expire(broker._store.written - SEGMENT_BYTES)
    assert broker.topic_stats("orders").queues[0].min_offset > 0
    broker.send([Message("orders", body.encode(), queue=0) for body in "xyz"])
    return broker


def test_a_new_group_on_a_young_topic_gets_all_of_it_as_rocketmqs_does(broker, send):
    """Item 8: send 5, start a group with LAST_OFFSET: it must receive 5."""
    send(*"12345")
    broker.create_group(GroupConfig("g", start=StartAt.ROCKETMQ))
    assert broker.committed_offset("g", "orders", 0) is None, "code 22: setZeroIfNotFound=false"
    assert broker.start_offset("g", "orders", 0) == 0
    assert pulled(broker, "g") == bodies(broker, "g") == list("12345")


def test_a_new_group_on_an_old_topic_pulls_only_what_comes(aged):
    """Item 8: with min > 0 LAST_OFFSET is the last offset."""
    aged.create_group(GroupConfig("g", start=StartAt.ROCKETMQ))
    assert pulled(aged, "g") == []
    aged.send([Message("orders", b"new", queue=0)])
    begun = aged.topic_stats("orders").queues[0].max_offset - 1
    assert aged.start_offset("g", "orders", 0) == begun + 1
    assert [each.body for each in aged.pull("orders", 0, begun).messages] == [b"new"]


def test_the_first_receive_of_a_new_group_on_an_old_topic_gets_the_last_message(aged):
    """Item 24: a pop of a MAX-init group starts at max - 1, and that is committed."""
    aged.create_group(GroupConfig("g", start=StartAt.ROCKETMQ))
    assert bodies(aged, "g") == ["z"]
    assert bodies(aged, "g") == []
    aged.send([Message("orders", b"new", queue=0)])
    assert bodies(aged, "g") == ["new"]


def test_a_queue_whose_first_message_is_not_recent_is_old_too(engine):
    broker = engine.start(recent_bytes=1000)
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    broker.send([Message("orders", b"first"), Message("orders", b"last")])
    broker.create_group(GroupConfig("young", start=StartAt.ROCKETMQ))
    assert broker.start_offset("young", "orders", 0) == 0
    broker.send([Message("elsewhere", b" " * 2000)])
    broker.create_group(GroupConfig("old", start=StartAt.ROCKETMQ))
    assert broker.start_offset("old", "orders", 0) == 2
    assert bodies(broker, "old") == ["last"]


def test_an_empty_topic_is_young(broker):
    broker.create_topic(TopicConfig("orders"))
    broker.create_group(GroupConfig("g", start=StartAt.ROCKETMQ))
    assert broker.start_offset("g", "orders", 0) == 0
    assert bodies(broker, "g") == []
    broker.send([Message("orders", b"a")])
    assert bodies(broker, "g") == ["a"]


@pytest.mark.parametrize(
    ("start", "received"), [(StartAt.EARLIEST, list("xyz")), (StartAt.LATEST, [])]
)
def test_earliest_and_latest_are_what_they_say_whatever_the_topics_age(aged, start, received):
    aged.create_group(GroupConfig("g", start=start))
    assert [each.strip() for each in pulled(aged, "g")][-3:] == received
    assert [each.strip() for each in bodies(aged, "g")][-3:] == received


def test_a_group_that_starts_at_a_time_gets_what_was_stored_from_then_on(engine, broker, clock):
    broker.create_topic(TopicConfig("orders", read_queues=2, write_queues=2))
    times = []
    for number in range(6):
        times.append(clock.now_ms())
        broker.send([Message("orders", b"%d" % number, queue=number % 2)])
        clock.advance(10)
    broker.create_group(GroupConfig("g", start=StartAt.TIME, start_at_ms=times[3]))
    assert broker.start_offset("g", "orders", 0) == 2
    assert broker.start_offset("g", "orders", 1) == 1
    assert sorted(bodies(broker, "g")) == list("345")
    broker.create_group(GroupConfig("between", start=StartAt.TIME, start_at_ms=times[3] + 1))
    assert sorted(bodies(broker, "between")) == list("45")


def test_a_time_before_everything_is_the_beginning_and_one_to_come_the_end(aged, clock):
    aged.create_group(GroupConfig("early", start=StartAt.TIME, start_at_ms=1))
    first = aged.topic_stats("orders").queues[0].min_offset
    assert aged.start_offset("early", "orders", 0) == first
    aged.create_group(GroupConfig("late", start=StartAt.TIME, start_at_ms=clock.now_ms() + 1000))
    assert bodies(aged, "late") == []
    aged.send([Message("orders", b"new", queue=0)])
    assert bodies(aged, "late") == ["new"]


@pytest.mark.parametrize("start", [StartAt.LATEST, StartAt.ROCKETMQ, StartAt.TIME])
def test_a_queue_that_is_added_later_is_read_from_its_beginning(engine, broker, clock, start):
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    at_ms = clock.now_ms() + 3_600_000 if start is StartAt.TIME else 0
    broker.create_group(GroupConfig("g", start=start, start_at_ms=at_ms))
    assert bodies(broker, "g") == []
    broker.change_topic("orders", read_queues=2, write_queues=2)
    broker.send([Message("orders", b"a", queue=1)])
    assert broker.start_offset("g", "orders", 1) == 0
    assert bodies(broker, "g") == ["a"]


def test_the_retry_topic_is_pulled_from_its_beginning(engine, broker, send):
    send("a")
    broker.create_group(GroupConfig("g", start=StartAt.LATEST))
    broker.send_back("g", "orders", 0, 0, delay_level=1)
    engine.tick(1)
    assert broker.start_offset("g", "%RETRY%g", 0) == 0


def test_a_time_without_its_start_or_a_start_without_its_time_is_refused(broker):
    for given in (
        {"start": StartAt.TIME},
        {"start_at_ms": 5},
        {"start": StartAt.TIME, "start_at_ms": -1},
        {"start": StartAt.TIME, "start_at_ms": 1 << 70},
    ):
        with pytest.raises(Invalid) as refusal:
            broker.create_group(GroupConfig("g", **given))
        assert refusal.value.field == "start_at_ms"
    broker.create_group(GroupConfig("g", start=StartAt.TIME, start_at_ms=5))
    changed = broker.change_group("g", start=StartAt.LATEST)
    assert changed.start_at_ms == 0, "the time went with the start that it belonged to"
    with pytest.raises(TopicNotFound):
        broker.start_offset("g", "nothing", 0)
