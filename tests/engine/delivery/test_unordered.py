"""Whether a group is ordered is its own setting: what changes for one that is not, and when.

The directories in `fixtures` were made by the last version in which every group was ordered: "g"
has "a1" in flight, "a2" of the same message group waits behind it; "idle" has consumed nothing.
"""

import tarfile
from pathlib import Path

import msgspec
import pytest

from engine.delivery.changes import OrderEnded
from engine.delivery.group import GroupConfig, GroupSet, Mode
from engine.delivery.values import Nack
from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType

FIXTURES = Path(__file__).parent / "fixtures"
SMALL = {
    "segment_bytes": 16384,
    "queue_file_entries": 26,
    "index_slots": 13,
    "index_items": 40,
    "default_queues": 1,
}


@pytest.fixture
def fifo(broker):
    broker.create_topic(TopicConfig("steps", TopicType.FIFO, read_queues=1, write_queues=1))

    def send(*texts):
        """Each text's first letter is its message group."""
        broker.send([Message("steps", text.encode(), message_group=text[0]) for text in texts])

    return send


def take(broker, group="g", **arguments):
    return broker.receive(group, {"steps": "*"}, count_max=10, **arguments)


def texts(deliveries):
    return [delivery.message.body.decode() for delivery in deliveries]


def test_a_group_that_creates_itself_is_not_ordered(broker, fifo):
    fifo("a1", "a2", "b1", "a3")
    assert texts(take(broker)) == ["a1", "a2", "b1", "a3"]
    assert not broker.group("g").ordered


def test_a_failed_message_of_an_unordered_group_is_retried_beside_the_others(engine, broker, fifo):
    broker.create_group(GroupConfig("g", retry_max=1))
    fifo("a1", "a2")
    failing, second = take(broker)
    broker.nack("g", [Nack(failing.receipt, delay_s=1)])
    broker.ack("g", [second.receipt])
    fifo("a3")
    assert texts(take(broker)) == ["a3"]
    engine.tick(1)
    (again,) = take(broker)
    assert (again.message.body, again.attempt, again.message.message_group) == (b"a1", 2, "a")
    assert again.receipt.topic == "%RETRY%g"
    broker.nack("g", [Nack(again.receipt)])
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert (dead.body, dead.message_group) == (b"a1", "a")


def test_each_group_of_a_topic_has_its_own_order(broker, fifo):
    broker.create_group(GroupConfig("one-by-one", ordered=True))
    fifo("a1", "a2")
    assert texts(take(broker, "one-by-one")) == ["a1"]
    assert texts(take(broker, "side-by-side")) == ["a1", "a2"]


def test_an_ordered_group_gets_other_topics_side_by_side(broker, fifo):
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))
    fifo("a1", "a2")
    broker.send([Message("orders", text, message_group="m") for text in (b"1", b"2")])
    found = broker.receive("g", {"steps": "*", "orders": "*"}, count_max=10)
    assert sorted(texts(found)) == ["1", "2", "a1"]


def test_what_waits_in_order_is_set_free_when_the_group_is_ordered_no_more(engine, broker, fifo):
    broker.create_group(GroupConfig("g", ordered=True))
    fifo("a1", "b1", "a2", "b2", "a3")
    first, failing = take(broker)
    broker.nack("g", [Nack(failing.receipt, delay_s=60)])
    woken = []
    broker.wait_to_receive("g", {"steps": "*"}, lambda: woken.append("c"))
    broker.change_group("g", ordered=False)
    assert woken == ["c"]
    assert texts(take(broker, invisible_s=600)) == ["a2", "b2", "a3"]
    assert broker.ack("g", [first.receipt]) == ["done"]
    engine.tick(60)
    (again,) = take(broker)
    assert (again.message.body, again.attempt) == (b"b1", 2)
    broker.nack("g", [Nack(again.receipt, delay_s=0)])
    (moved,) = take(broker)
    assert (moved.receipt.topic, moved.attempt) == ("%RETRY%g", 3)


def test_what_was_set_free_stays_so_over_a_crash_and_a_snapshot(engine, broker, fifo):
    broker.create_group(GroupConfig("g", ordered=True))
    fifo("a1", "a2", "a3")
    take(broker, invisible_s=600)
    broker.change_group("g", ordered=False)
    broker = engine.crash()
    broker._store.journal.compact()
    broker = engine.crash()
    assert not broker.group("g").ordered
    assert texts(take(broker)) == ["a2", "a3"]


def test_each_client_of_a_broadcast_group_is_set_free(broker, fifo):
    broker.create_group(GroupConfig("g", ordered=True, mode=Mode.BROADCAST))
    fifo("a1", "a2")
    for client in "xy":
        assert texts(take(broker, client=client)) == ["a1"]
    broker.change_group("g", ordered=False)
    for client in "xy":
        assert texts(take(broker, client=client)) == ["a2"]


def test_order_begins_with_what_is_handed_out_after_the_change(broker, fifo):
    fifo("a1", "a2")
    first, second = take(broker)
    broker.change_group("g", ordered=True)
    fifo("a3", "a4")
    assert texts(take(broker)) == ["a3"]
    broker.release("g", [first.receipt, second.receipt])
    assert texts(take(broker)) == ["a1", "a2"]


def test_another_change_of_the_group_leaves_its_order_alone(broker, fifo):
    broker.create_group(GroupConfig("g", ordered=True))
    fifo("a1", "a2")
    take(broker)
    broker.pause_group("g")
    broker.resume_group("g")
    assert broker.change_group("g", retry_max=3).ordered
    assert take(broker) == []


@pytest.mark.parametrize("name", ["killed", "stopped"])
def test_groups_of_a_version_without_the_setting_stay_ordered(engine, name):
    engine.root.mkdir()
    with tarfile.open(FIXTURES / f"always-ordered-{name}.tar.gz") as archive:
        archive.extractall(engine.root, filter="data")
    broker = engine.start(**SMALL)
    assert not broker.health().damages
    assert {group.name: group.ordered for group in broker.groups()} == {"g": True, "idle": True}
    assert take(broker) == [], "a2 waits for a1"
    assert texts(take(broker, "idle")) == ["a1", "b1"]
    assert texts(take(broker, "new")) == ["a1", "a2", "b1"]
    broker.change_group("idle", ordered=False)
    broker = engine.crash(**SMALL)
    broker._store.journal.compact()
    broker = engine.crash(**SMALL)
    assert {group.name: group.ordered for group in broker.groups()} == {
        "g": True, "idle": False, "new": False,
    }  # fmt: skip
    assert take(broker) == []


def test_an_entry_says_whether_its_group_is_ordered_unless_it_is_an_old_one(broker):
    broker.create_group(GroupConfig("g"))
    entries = [
        entry
        for part in broker._store.journal._parts
        for entry in part.snapshot()
        if isinstance(entry, GroupSet)
    ]
    assert entries == [GroupSet(GroupConfig("g"), has_ordered=True)]
    old = msgspec.msgpack.encode(["group_set", {"name": "g"}])
    assert msgspec.msgpack.decode(old, type=GroupSet) == GroupSet(GroupConfig("g"))


def test_ending_the_order_of_an_unknown_group_does_nothing(broker):
    broker._delivery.progress_store.write(OrderEnded("nobody"))
    assert broker.groups() == []
