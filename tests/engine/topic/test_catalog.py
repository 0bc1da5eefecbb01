"""The catalog: topics are created, changed, deleted, and found again after any restart."""

import json
from collections.abc import Callable

import pytest

from engine.broker import Broker, TopicConfig, TopicType
from engine.errors import Busy, Conflict, Forbidden, Invalid, QueueNotFound, TopicNotFound
from engine.message import Durability, Message, PutResult
from tests.engine.conftest import Engine


def names(broker: Broker) -> list[str]:
    return [topic.name for topic in broker.topics()]


def bodies(broker: Broker, topic: str, queue: int = 0) -> list[bytes]:
    return [message.body for message in broker.pull(topic, queue, 0).messages]


def test_a_topic_is_created_with_what_it_was_given(broker: Broker) -> None:
    wanted = TopicConfig(
        "orders", type=TopicType.FIFO, read_queues=8, write_queues=7, durability=Durability.FLUSHED
    )
    created = broker.create_topic(wanted)
    assert created == broker.topic("orders")
    assert (created.type, created.read_queues, created.write_queues) == (TopicType.FIFO, 8, 7)
    assert created.durability is Durability.FLUSHED
    assert created.created_ms > 0
    assert not created.is_automatic


def test_a_name_is_taken_once(broker: Broker) -> None:
    broker.create_topic(TopicConfig("orders"))
    with pytest.raises(Conflict) as refused:
        broker.create_topic(TopicConfig("orders", read_queues=1))
    assert refused.value.field == "name"
    assert broker.topic("orders").read_queues == 4


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (TopicConfig("a b"), "name"),
        (TopicConfig("t", read_queues=0), "read_queues"),
        (TopicConfig("t", write_queues=1025), "write_queues"),
        (TopicConfig("t", permission=7), "permission"),
    ],
)
def test_a_bad_setting_is_refused_by_its_name(
    broker: Broker, config: TopicConfig, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        broker.create_topic(config)
    assert refused.value.field == field
    assert names(broker) == []


@pytest.mark.parametrize("name", ["SCHEDULE_TOPIC_XXXX", "%RETRY%g", "rmq_sys_x"])
def test_the_systems_own_names_cannot_be_created(broker: Broker, name: str) -> None:
    with pytest.raises(Forbidden):
        broker.create_topic(TopicConfig(name))


def test_a_topic_is_made_at_its_first_message(
    broker: Broker, send: Callable[..., PutResult]
) -> None:
    send("x")
    assert broker.topic("orders").is_automatic
    assert broker.topic("orders").write_queues == 4


def test_where_topics_are_not_made_by_themselves_the_send_is_refused(engine: Engine) -> None:
    broker = engine.start(auto_create_topics=False)
    with pytest.raises(TopicNotFound):
        broker.send([Message("orders", b"x")])
    assert names(broker) == []


def test_there_are_at_most_as_many_topics_as_the_setting_says(engine: Engine) -> None:
    broker = engine.start(topics_max=9)
    room = 9 - len(broker.topics(system=True))
    for number in range(room):
        broker.create_topic(TopicConfig(f"t{number}"))
    with pytest.raises(Busy):
        broker.create_topic(TopicConfig("one-more"))
    broker.delete_topic("t0")
    broker.create_topic(TopicConfig("one-more"))


def test_a_change_changes_what_is_given_and_nothing_else(broker: Broker) -> None:
    broker.create_topic(TopicConfig("orders", durability=Durability.FLUSHED))
    changed = broker.change_topic("orders", write_queues=2)
    assert (changed.write_queues, changed.read_queues) == (2, 4)
    assert changed.durability is Durability.FLUSHED
    assert broker.change_topic("orders", durability=None).durability is None
    with pytest.raises(Invalid):
        broker.change_topic("orders", permission=5)
    with pytest.raises(TopicNotFound):
        broker.change_topic("nowhere", write_queues=1)
    assert broker.topic("orders").permission == 6


def test_permissions_close_a_topic_for_writing_or_reading(
    broker: Broker, send: Callable[..., PutResult]
) -> None:
    send("x")
    broker.change_topic("orders", permission=4)
    with pytest.raises(Forbidden) as refused:
        send("y")
    assert refused.value.field == "topic"
    broker.change_topic("orders", permission=2)
    send("z")
    with pytest.raises(Forbidden):
        broker.pull("orders", 0, 0)


def test_system_topics_are_listed_only_when_asked_for(broker: Broker) -> None:
    broker.create_topic(TopicConfig("b"))
    broker.create_topic(TopicConfig("a"))
    assert names(broker) == ["a", "b"]
    assert "SCHEDULE_TOPIC_XXXX" in [topic.name for topic in broker.topics(system=True)]


@pytest.mark.parametrize("ending", ["crash", "restart"])
def test_topics_are_as_they_were_after_a_restart(engine: Engine, ending: str) -> None:
    broker = engine.start()
    broker.create_topic(TopicConfig("kept", type=TopicType.FIFO))
    broker.create_topic(TopicConfig("changed"))
    broker.change_topic("changed", write_queues=1)
    broker.create_topic(TopicConfig("deleted"))
    broker.delete_topic("deleted")
    before = broker.topics(system=True)
    broker = engine.crash() if ending == "crash" else engine.restart()
    assert broker.topics(system=True) == before


def test_a_deleted_topic_is_gone_with_its_messages(
    broker: Broker, send: Callable[..., PutResult]
) -> None:
    send("x")
    broker.delete_topic("orders")
    with pytest.raises(TopicNotFound):
        broker.topic("orders")
    with pytest.raises(TopicNotFound):
        broker.pull("orders", 0, 0)
    with pytest.raises(TopicNotFound):
        broker.delete_topic("orders")


@pytest.mark.parametrize("ending", ["none", "crash", "restart"])
def test_a_topic_of_the_same_name_does_not_show_the_old_messages(
    engine: Engine, ending: str
) -> None:
    broker = engine.start()
    old = broker.send([Message("orders", b"old", queue=0, keys=("k",))])
    broker.delete_topic("orders")
    broker.create_topic(TopicConfig("orders"))
    new = broker.send([Message("orders", b"new", queue=0, keys=("k",))])
    assert new.offsets == [0]
    if ending != "none":
        broker = engine.crash() if ending == "crash" else engine.restart()
    assert bodies(broker, "orders") == [b"new"]
    assert [found.body for found in broker.messages_by_key("orders", "k")] == [b"new"]
    assert broker.messages_by_id(old.messages[0].message_id) == []
    assert broker.send([Message("orders", b"next", queue=0)]).offsets == [1]


def test_a_deleted_topic_stays_deleted_although_its_records_are_still_there(
    engine: Engine,
) -> None:
    broker = engine.start()
    broker.send([Message("orders", b"old", queue=0)])
    broker.delete_topic("orders")
    broker = engine.crash()
    assert names(broker) == []
    assert broker.send([Message("orders", b"new", queue=0)]).offsets == [0]
    assert bodies(engine.crash(), "orders") == [b"new"]


def test_files_that_a_crash_left_of_a_deleted_topic_do_not_count(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = engine.start()
    broker.send([Message("orders", b"old", queue=0)])
    monkeypatch.setattr(broker._store, "delete_topic", lambda topic: None)
    broker.delete_topic("orders")
    broker = engine.crash()
    broker.create_topic(TopicConfig("orders"))
    assert bodies(broker, "orders") == []
    assert broker.send([Message("orders", b"new", queue=0)]).offsets == [0]


def test_a_system_topic_cannot_be_deleted(broker: Broker) -> None:
    with pytest.raises(Forbidden):
        broker.delete_topic("SCHEDULE_TOPIC_XXXX")


def test_a_queue_beyond_the_topics_own_is_not_found(
    broker: Broker, send: Callable[..., PutResult]
) -> None:
    send("x")
    with pytest.raises((QueueNotFound, Invalid)):
        broker.pull("orders", 99, 0)


def test_a_clean_stop_leaves_the_topics_in_rocketmqs_own_form(engine: Engine) -> None:
    broker = engine.start()
    broker.create_topic(TopicConfig("orders", TopicType.FIFO, read_queues=3, write_queues=2))
    broker.change_topic("orders", permission=4)
    broker.stop()
    table = json.loads((engine.root / "config" / "topics.json").read_bytes())
    assert table["topicConfigTable"]["orders"] == {
        "topicName": "orders",
        "readQueueNums": 3,
        "writeQueueNums": 2,
        "perm": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": {"message.type": "FIFO"},
    }
    assert set(table["dataVersion"]) == {"counter", "timestamp", "stateVersion"}
