"""Whatever was accepted can be finished: each move of the engine, at each limit of producers."""

from typing import Any

import pytest

from engine.broker import Broker, GroupConfig, Nack, NewReplay, ReplayTo, TopicConfig
from engine.errors import Invalid
from engine.message import BODY_BYTES_MAX, SENT_PROPERTIES_BYTES_MAX, Message, StoredMessage
from engine.topic.catalog import TopicType
from engine.topic.names import GROUP_LENGTH_MAX, TOPIC_LENGTH_MAX
from tests.engine.conftest import Engine

TOPIC = "t" * TOPIC_LENGTH_MAX
GROUP = "g" * GROUP_LENGTH_MAX
KEYS = tuple(f"{number:04}" + "k" * 380 for number in range(64))


def filled(**fields: Any) -> dict[str, Any]:
    """The fields with one more property, as long as a producer may make it."""
    own = len(b"UNIQ_KEY\x01\x02fill\x01\x02") + len("KEYS\x01\x02") * bool(fields.get("keys"))
    used = own + len(" ".join(fields.get("keys", ()))) + 32  # an id that the broker makes
    return {**fields, "properties": {"fill": "x" * (SENT_PROPERTIES_BYTES_MAX - used)}}


LIMITS: dict[str, dict[str, Any]] = {
    "body": {"body": b"b" * BODY_BYTES_MAX},
    "properties": filled(body=b"b"),
    "keys": filled(body=b"b", keys=KEYS),
    "names": {"body": b"b", "tag": "a" * 255, "message_id": "M" * 64},
    "all": filled(body=b"b" * BODY_BYTES_MAX, keys=KEYS),
}
limits = pytest.mark.parametrize("fields", LIMITS.values(), ids=LIMITS)


@pytest.fixture
def topic(broker: Broker) -> TopicConfig:
    broker.create_group(GroupConfig(GROUP, retry_max=2))
    return broker.create_topic(
        TopicConfig(TOPIC, TopicType.TRANSACTION, read_queues=1, write_queues=1)
    )


def sent(broker: Broker, fields: dict[str, Any], **more: Any) -> Message:
    (message,) = broker.send([Message(TOPIC, **fields, **more)]).messages
    return message


def check(got: StoredMessage, fields: dict[str, Any]) -> None:
    """The message is whole, whatever was noted on it."""
    assert got.body == fields["body"]
    assert got.keys == fields.get("keys", ())
    assert got.tag == fields.get("tag", "")
    for name, value in fields.get("properties", {}).items():
        assert got.properties[name] == value


@limits
def test_a_half_message_is_committed(broker: Broker, topic: TopicConfig, fields: Any) -> None:
    half = sent(broker, fields, transaction_group=GROUP)
    broker.transactions.commit(half.message_id)
    (got,) = broker.pull(TOPIC, 0, 0).messages
    check(got, fields)
    assert "KITE_SOURCE" in got.properties  # so that a crash cannot commit it twice


@limits
def test_a_half_message_is_given_up_resumed_and_committed(
    engine: Engine, broker: Broker, topic: TopicConfig, fields: Any
) -> None:
    half = sent(broker, fields, transaction_group=GROUP)
    for _ in range(17):
        engine.tick(30)
    broker.transactions.resume(half.message_id)
    broker.transactions.commit(half.message_id)
    (got,) = broker.pull(TOPIC, 0, 0).messages
    check(got, fields)


@limits
def test_a_half_message_is_rolled_back(broker: Broker, topic: TopicConfig, fields: Any) -> None:
    half = sent(broker, fields, transaction_group=GROUP)
    broker.transactions.rollback(half.message_id)
    assert broker.pull(TOPIC, 0, 0).messages == []


@limits
@pytest.mark.parametrize("when", ["level", "time"])
def test_a_delayed_message_is_delivered(
    engine: Engine, broker: Broker, fields: Any, when: str
) -> None:
    broker.create_topic(TopicConfig(TOPIC, read_queues=1, write_queues=1))
    due_ms = engine.clock.now_ms() + 1000
    sent(broker, fields, **({"delay_level": 1} if when == "level" else {"deliver_at_ms": due_ms}))
    engine.tick(1)
    (got,) = broker.pull(TOPIC, 0, 0).messages
    check(got, fields)
    assert "KITE_SOURCE" in got.properties


@limits
def test_a_failing_message_is_retried_dies_and_is_sent_again(
    engine: Engine, broker: Broker, fields: Any
) -> None:
    broker.create_topic(TopicConfig(TOPIC, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig(GROUP, retry_max=2))
    sent(broker, fields)
    for attempt in (1, 2, 3):
        (got,) = broker.receive(GROUP, {TOPIC: "*"}, client="c" * 255)
        assert got.attempt == attempt
        check(got.message, fields)
        broker.nack(GROUP, [Nack(got.receipt, delay_level=1, error="\u20ac" * 5000)], "c" * 255)
        engine.tick(60)
    assert broker.receive(GROUP, {TOPIC: "*"}) == []
    (dead,) = broker.pull(f"%DLQ%{GROUP}", 0, 0).messages
    check(dead, fields)
    for to in (ReplayTo.GROUP, ReplayTo.ORIGIN):
        job = broker.replays.create(NewReplay(source=f"%DLQ%{GROUP}", to=to, rate=0.0))
        engine.tick(1)
        (row,) = broker.replays.outcomes(job.id).items
        assert row.outcome == "sent"
    received = [each for _ in range(2) for each in broker.receive(GROUP, {TOPIC: "*"})]
    for each in received:
        check(each.message, fields)
    assert len(received) == 2


def test_many_large_messages_are_moved_at_once(engine: Engine, broker: Broker) -> None:
    broker.create_topic(TopicConfig(TOPIC, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig(GROUP))
    for _ in range(5):
        sent(broker, LIMITS["all"])
    receipts = []
    while got := broker.receive(GROUP, {TOPIC: "*"}):
        receipts += [each.receipt for each in got]
    broker.nack(GROUP, [Nack(receipt, delay_level=-1, error="e") for receipt in receipts])
    engine.tick(1)
    assert broker.topic_stats(f"%DLQ%{GROUP}").messages == 5


def test_what_is_beyond_a_limit_is_refused_before_anything_is_stored(broker: Broker) -> None:
    one_more = dict(LIMITS["properties"])
    one_more["properties"] = {"fill": one_more["properties"]["fill"] + "x"}
    for fields in (
        {"body": b"b" * (BODY_BYTES_MAX + 1)},
        one_more,
        {"body": b"b", "tag": "a" * 30_000},
    ):
        with pytest.raises(Invalid):
            broker.send([Message("t", message_id="M" * 32, **fields)])
    assert broker.topics() == []
