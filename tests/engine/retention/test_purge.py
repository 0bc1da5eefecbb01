"""A purge makes messages unreadable for good, by every way of reading."""

from typing import Any

import pytest

from engine.broker import AckResult, Broker, GroupConfig, Nack, PullStatus, TopicConfig, TopicType
from engine.errors import Forbidden, Invalid, MessageNotFound, QueueNotFound, TopicNotFound
from engine.events import EngineEvent, Expired
from engine.message import Durability, Message
from tests.engine.conftest import Engine
from tests.engine.retention.parts import bodies, bounds, start


@pytest.fixture
def broker(engine: Engine) -> Broker:
    """A topic of two queues with five messages in each, one per second."""
    broker = start(engine)
    broker.create_topic(TopicConfig("orders", read_queues=2, write_queues=2))
    for number in range(5):
        for queue in (0, 1):
            broker.send(
                [
                    Message(
                        "orders",
                        f"{queue}.{number}".encode(),
                        queue=queue,
                        keys=(f"k{queue}.{number}",),
                        message_id=f"ID{queue}{number}",
                    )
                ]
            )
        engine.tick(1)
    return broker


def left(broker: Broker) -> list[str]:
    return bodies(broker, queue=0) + bodies(broker, queue=1)


def test_everything_of_a_topic_is_purged_and_counting_goes_on(broker: Broker) -> None:
    done = broker.retention.purge("orders", everything=True)
    assert (done.count, [queue.count for queue in done.queues]) == (10, [5, 5])
    assert left(broker) == []
    assert bounds(broker) == (5, 5)
    assert broker.send([Message("orders", b"new", queue=0)]).offsets == [5]
    assert left(broker) == ["new"]


def test_a_purge_may_stop_before_an_offset_of_some_queues(broker: Broker) -> None:
    done = broker.retention.purge("orders", before_offset={1: 3})
    assert [(each.queue, each.from_offset, each.to_offset) for each in done.queues] == [(1, 0, 3)]
    assert left(broker) == ["0.0", "0.1", "0.2", "0.3", "0.4", "1.3", "1.4"]


def test_a_purge_may_stop_before_a_time(broker: Broker, engine: Engine) -> None:
    at_ms = broker.message("orders", 0, 2).stored_ms
    assert broker.retention.purge("orders", before_ms=at_ms).count == 4
    assert left(broker) == ["0.2", "0.3", "0.4", "1.2", "1.3", "1.4"]


def test_what_was_purged_is_found_by_no_way_of_reading(broker: Broker) -> None:
    stored = broker.message("orders", 0, 1)
    broker.retention.purge("orders", before_offset={0: 2})
    assert broker.pull("orders", 0, 1).status is PullStatus.OFFSET_TOO_SMALL
    assert broker.messages_by_key("orders", "k0.1") == []
    assert broker.messages_by_id("ID01") == []
    assert broker.messages_by_id(stored.offset_id) == []
    for look in (
        lambda: broker.message("orders", 0, 1),
        lambda: broker.message_by_offset_id(stored.offset_id),
    ):
        with pytest.raises(MessageNotFound):
            look()
    received = broker.receive("g", {"orders": "*"}, count_max=20)
    received += broker.receive("g", {"orders": "*"}, count_max=20)
    assert {each.message.body for each in received}.isdisjoint({b"0.0", b"0.1"})
    assert len(received) == 8


@pytest.mark.parametrize("ending", ["crash", "restart"])
def test_what_was_purged_stays_so_after_a_restart(
    broker: Broker, engine: Engine, ending: str
) -> None:
    broker.retention.purge("orders", before_offset={0: 4, 1: 1})
    again: Any = engine.crash if ending == "crash" else engine.restart
    for _ in range(2):
        broker = again(segment_bytes=4096, queue_file_entries=7, index_items=40)
        assert left(broker) == ["0.4", "1.1", "1.2", "1.3", "1.4"]


def test_a_purge_is_kept_by_a_snapshot_of_the_journal(broker: Broker, engine: Engine) -> None:
    broker.retention.purge("orders", before_offset={0: 4})
    broker._store.journal.compact()
    broker = engine.crash(segment_bytes=4096, queue_file_entries=7, index_items=40)
    assert bodies(broker) == ["0.4"]


def test_a_dry_run_counts_and_takes_nothing(broker: Broker) -> None:
    would = broker.retention.purge("orders", everything=True, dry_run=True)
    assert (would.count, would.dry_run) == (10, True)
    assert len(left(broker)) == 10


def test_a_purge_of_what_is_gone_already_takes_nothing(broker: Broker) -> None:
    broker.retention.purge("orders", everything=True)
    again = broker.retention.purge("orders", before_offset={0: 3})
    assert (again.count, again.queues) == (0, [])
    assert bounds(broker) == (5, 5)


def test_a_new_topic_of_the_name_knows_nothing_of_the_purge(broker: Broker, engine: Engine) -> None:
    broker.retention.purge("orders", everything=True)
    broker.delete_topic("orders")
    broker.create_topic(TopicConfig("orders"))
    broker.send([Message("orders", b"fresh", queue=0)])
    assert bodies(broker) == ["fresh"]
    broker = engine.crash(segment_bytes=4096, queue_file_entries=7, index_items=40)
    assert bodies(broker) == ["fresh"]


def test_what_waits_for_its_flush_is_not_purged(broker: Broker, engine: Engine) -> None:
    """It is not readable yet, so nobody can mean it."""
    sent = broker.send([Message("orders", b"new", queue=0)], durability=Durability.FLUSHED)
    assert sent.offsets == [5]
    broker.retention.purge("orders", everything=True)
    engine.tick(1)
    assert bodies(broker) == ["new"]


def test_a_message_in_hand_may_be_acknowledged_after_the_purge(broker: Broker) -> None:
    [first] = broker.receive("g", {"orders": "*"})
    broker.retention.purge("orders", everything=True)
    assert broker.ack("g", [first.receipt]) == [AckResult.DONE]


def test_a_purged_message_in_hand_does_not_come_back(broker: Broker, engine: Engine) -> None:
    first, second = broker.receive("g", {"orders": "*"}, count_max=2, invisible_s=30)
    broker.retention.purge("orders", everything=True)
    broker.nack("g", [Nack(first.receipt)])
    engine.tick(40)
    engine.tick(60)
    assert broker.receive("g", {"orders": "*"}, count_max=10) == []
    assert broker.lag("g").inflight == 0
    assert second.attempt == 1


def test_a_fifo_group_goes_on_behind_a_purge(engine: Engine, broker: Broker) -> None:
    broker.create_topic(TopicConfig("fifo", TopicType.FIFO, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))
    for number in range(4):
        broker.send([Message("fifo", b"%d" % number, message_group="a")])
    [first] = broker.receive("g", {"fifo": "*"}, count_max=10)
    broker.retention.purge("fifo", before_offset={0: 3})
    engine.tick(2)
    assert broker.receive("g", {"fifo": "*"}, count_max=10) == [], "the first is still in hand"
    broker.ack("g", [first.receipt])
    [following] = broker.receive("g", {"fifo": "*"}, count_max=10)
    assert following.message.body == b"3"


def test_dead_letters_can_be_purged(engine: Engine, broker: Broker) -> None:
    [first] = broker.receive("g", {"orders": "*"})
    broker.nack("g", [Nack(first.receipt, delay_level=-1)])
    assert broker.lag("g").dead == 1
    broker.retention.purge("%DLQ%g", everything=True)
    assert broker.lag("g").dead == 0


@pytest.mark.parametrize(
    ("asked", "error", "field"),
    [
        ({}, Invalid, "before_offset"),
        ({"everything": True, "before_ms": 5}, Invalid, "before_offset"),
        ({"before_offset": {0: 6}}, Invalid, "before_offset.0"),
        ({"before_offset": {1: -1}}, Invalid, "before_offset.1"),
        ({"before_offset": {0: 1, 2: 1}}, QueueNotFound, "before_offset.2"),
    ],
)
def test_a_purge_that_cannot_be_meant_takes_nothing(
    broker: Broker, asked: dict[str, Any], error: type[Invalid], field: str
) -> None:
    with pytest.raises(error) as refused:
        broker.retention.purge("orders", **asked)
    assert refused.value.field == field
    assert len(left(broker)) == 10


def test_topics_of_the_engines_own_and_unknown_ones_cannot_be_purged(broker: Broker) -> None:
    with pytest.raises(Forbidden):
        broker.retention.purge("SCHEDULE_TOPIC_XXXX", everything=True)
    with pytest.raises(TopicNotFound):
        broker.retention.purge("nowhere", everything=True)


def test_a_purge_is_told_once_and_a_dry_run_is_not(broker: Broker) -> None:
    heard: list[EngineEvent] = []
    broker.events.subscribe(heard.append)
    broker.retention.purge("orders", everything=True, dry_run=True)
    broker.retention.purge("orders", everything=True)
    broker.retention.purge("orders", everything=True)
    told = [event for event in heard if isinstance(event, Expired)]
    assert [(event.cause, event.topic, event.count) for event in told] == [("purge", "orders", 10)]
