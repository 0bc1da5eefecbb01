"""Where messages enter: every rule names its field, and a refused call leaves nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.broker import Broker, TopicConfig, TopicType
from engine.errors import EngineError, Forbidden, GroupNotFound, Invalid, TopicNotFound
from engine.events import Appended, EngineEvent, SendRefused
from engine.message import (
    BATCH_BYTES_MAX,
    BATCH_COUNT_MAX,
    BODY_BYTES_MAX,
    RESERVED,
    Durability,
    Message,
    PutResult,
)
from tests.engine.conftest import Engine

REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"body": b""}, "body", "invalid_size"),
    ({"body": bytes(BODY_BYTES_MAX + 1)}, "", "invalid_size"),
    ({"tag": "a||b"}, "tag", "invalid"),
    ({"tag": " a"}, "tag", "invalid"),
    ({"tag": "a\x02"}, "tag", "invalid"),
    ({"keys": ("a b",)}, "keys", "invalid"),
    ({"keys": ("",)}, "keys", "invalid"),
    ({"keys": ("k\n",)}, "keys", "invalid"),
    ({"keys": tuple(f"k{n}" for n in range(65))}, "keys", "invalid"),
    ({"queue": 4}, "queue", "invalid"),
    ({"queue": 1 << 40}, "queue", "invalid"),
    ({"properties": {"UNIQ_KEY": "x"}}, "properties.UNIQ_KEY", "reserved_property"),
    ({"properties": {"KITE_SOURCE": "g@t@0@1"}}, "properties.KITE_SOURCE", "reserved_property"),
    ({"properties": {"": "x"}}, "properties.", "invalid"),
    ({"properties": {"a": ""}}, "properties.a", "invalid"),
    ({"properties": {"a": "\x01"}}, "properties.a", "invalid"),
    ({"properties": {"a": "\x02"}}, "properties.a", "invalid"),
    ({"properties": {"a": "\0"}}, "properties.a", "invalid"),
    ({"properties": {"a": "\ud800"}}, "properties.a", "invalid"),
    ({"properties": {f"n{n}": "v" for n in range(129)}}, "properties", "invalid"),
    ({"properties": {"a": "v" * 32767}}, "properties", "invalid"),
    ({"message_group": "g" * 65}, "message_group", "invalid"),
    ({"message_group": "g\0"}, "message_group", "invalid"),
    ({"message_id": "a-b"}, "message_id", "invalid"),
    ({"message_id": "x" * 65}, "message_id", "invalid"),
    ({"topic": ""}, "topic", "invalid_name"),
    ({"topic": "a b"}, "topic", "invalid_name"),
    ({"topic": "x" * 128}, "topic", "invalid_name"),
    ({"born_ms": 1 << 63}, "born_ms", "invalid"),
    ({"born_ms": -1}, "born_ms", "invalid"),
    ({"flag": 1 << 31}, "flag", "invalid"),
]


@pytest.mark.parametrize(("fields", "field", "code"), REFUSALS)
def test_a_bad_message_is_refused_by_its_field_and_takes_the_whole_call_along(
    broker: Broker, fields: dict[str, Any], field: str, code: str
) -> None:
    broker.create_topic(TopicConfig("orders"))
    bad = Message(**{"topic": "orders", "body": b"x", **fields})
    with pytest.raises(Invalid) as refused:
        broker.send([Message("orders", b"good", queue=0), bad])
    expected = f"messages[1].{field}" if field else "messages"
    if refused.value.field != "properties":  # found out while the record is made, of any of them
        assert refused.value.field == expected
    assert refused.value.code == code
    assert refused.value.remedy
    assert broker.topic_stats("orders").messages == 0
    assert broker.send([Message("orders", b"next", queue=0)]).offsets == [0]


@pytest.mark.parametrize(
    "fields",
    [
        {"body": b"\0"},
        {"body": bytes(BODY_BYTES_MAX)},
        {"tag": "a b-ü漢"},
        {"keys": tuple(f"k{n}" for n in range(64))},
        {"message_group": "g" * 64},
        {"message_id": "x" * 64},
        {"properties": {"WAIT": "false", "a b": "c\nd", "ü": "漢\U0001f600"}},
        {"queue": 3},
        {"born_ms": 1, "born_host": "[::1]:80"},
    ],
)
def test_what_is_just_within_the_rules_is_taken_and_read_back(
    engine: Engine, fields: dict[str, Any]
) -> None:
    broker = engine.start(segment_bytes=8 * 1024 * 1024)
    wanted = Message(**{"topic": "orders", "body": b"x", **fields})
    sent = broker.send([wanted])
    found = broker.message("orders", sent.messages[0].queue, 0)
    assert (found.body, found.tag, found.keys) == (wanted.body, wanted.tag, wanted.keys)
    assert found.message_group == wanted.message_group
    assert wanted.properties.items() <= found.properties.items()


@pytest.mark.parametrize("name", sorted(RESERVED - {"WAIT"}))
def test_no_reserved_property_can_be_set(broker: Broker, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        broker.send([Message("orders", b"x", properties={name: "x"})])
    assert refused.value.code == "reserved_property"


@pytest.mark.parametrize("count", [0, BATCH_COUNT_MAX + 1])
def test_a_call_has_1_to_4096_messages(broker: Broker, count: int) -> None:
    with pytest.raises(Invalid) as refused:
        broker.send([Message("orders", b"x") for _ in range(count)])
    assert (refused.value.field, refused.value.code) == ("messages", "invalid_size")


def test_4096_messages_are_stored_with_one_call(broker: Broker) -> None:
    sent = broker.send([Message("orders", b"x", queue=0) for _ in range(BATCH_COUNT_MAX)])
    assert sent.offsets == list(range(BATCH_COUNT_MAX))


def test_the_bodies_of_a_call_have_4_mib_at_most(engine: Engine) -> None:
    broker = engine.start(segment_bytes=8 * 1024 * 1024)
    half = bytes(BATCH_BYTES_MAX // 2)
    broker.send([Message("orders", half), Message("orders", half)])
    with pytest.raises(Invalid) as refused:
        broker.send([Message("orders", half), Message("orders", half), Message("orders", b"x")])
    assert refused.value.field == "messages"


def test_a_fifo_topic_asks_for_a_message_group(
    broker: Broker, send: Callable[..., PutResult]
) -> None:
    broker.create_topic(TopicConfig("orders", type=TopicType.FIFO))
    with pytest.raises(Invalid) as refused:
        send("x")
    assert refused.value.field == "messages[0].message_group"
    send("x", message_group="g")


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_nobody_sends_to_the_engines_own_topics(broker: Broker, topic: str) -> None:
    with pytest.raises(Forbidden) as refused:
        broker.send([Message(topic, b"x")])
    assert refused.value.field == "topic"


def test_a_retry_topic_needs_its_group(broker: Broker) -> None:
    with pytest.raises(GroupNotFound):
        broker.send([Message("%RETRY%nobody", b"x")])


def test_an_unknown_topic_is_refused_where_none_is_made(engine: Engine) -> None:
    broker = engine.start(auto_create_topics=False)
    with pytest.raises(TopicNotFound) as refused:
        broker.send([Message("nowhere", b"x")])
    assert refused.value.field == "topic"


def test_a_message_gets_an_id_a_queue_and_a_birth_time(engine: Engine, broker: Broker) -> None:
    sent = broker.send([Message("orders", b"x"), Message("orders", b"y", message_id="MINE")])
    made, own = sent.messages
    assert (len(made.message_id), own.message_id) == (32, "MINE")
    assert made.queue == own.queue >= 0
    assert made.born_ms == engine.clock.now_ms()
    assert [stored.message_id for stored in sent.stored] == [made.message_id, "MINE"]


@pytest.mark.parametrize(
    ("broker_default", "topic_default", "asked", "kept"),
    [
        (Durability.STORED, None, None, Durability.STORED),
        (Durability.STORED, None, Durability.FLUSHED, Durability.FLUSHED),
        (Durability.STORED, Durability.FLUSHED, None, Durability.FLUSHED),
        (Durability.STORED, Durability.FLUSHED, Durability.STORED, Durability.FLUSHED),
        (Durability.FLUSHED, None, None, Durability.FLUSHED),
        (Durability.FLUSHED, None, Durability.STORED, Durability.FLUSHED),
        (Durability.FLUSHED, Durability.STORED, None, Durability.STORED),
        (Durability.FLUSHED, Durability.STORED, Durability.FLUSHED, Durability.FLUSHED),
    ],
)
def test_a_send_may_ask_for_more_than_its_topic_never_for_less(
    engine: Engine,
    broker_default: Durability,
    topic_default: Durability | None,
    asked: Durability | None,
    kept: Durability,
) -> None:
    broker = engine.start(durability=broker_default)
    broker.create_topic(TopicConfig("orders", durability=topic_default))
    assert broker.send([Message("orders", b"x")], durability=asked).durability is kept


def test_one_flushed_topic_makes_the_whole_call_flushed(broker: Broker) -> None:
    broker.create_topic(TopicConfig("safe", durability=Durability.FLUSHED))
    assert broker.send([Message("fast", b"x")]).durability is Durability.STORED
    both = broker.send([Message("fast", b"x"), Message("safe", b"x")])
    assert both.durability is Durability.FLUSHED


def test_what_was_accepted_and_refused_is_told(broker: Broker) -> None:
    heard: list[EngineEvent] = []
    broker.events.subscribe(heard.append)
    broker.send([Message("orders", b"123", queue=0), Message("orders", b"4", queue=0)])
    with pytest.raises(EngineError):
        broker.send([Message("orders", b"")])
    appended, refused = heard
    assert isinstance(appended, Appended)
    assert (appended.topic, appended.queue, appended.first_offset) == ("orders", 0, 0)
    assert (appended.count, appended.size_bytes) == (2, broker.health().log_bytes)
    assert isinstance(refused, SendRefused)
    assert (refused.topic, refused.code) == ("orders", "invalid_size")
