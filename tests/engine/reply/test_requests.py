"""Requests and replies in the engine: each answer finds its asker, and late ones are kept."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.broker import Broker, PendingRequest, ReplyMessage, ReplyResult
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.errors import Busy, Conflict, EngineError, Forbidden, Invalid, MessageNotFound
from engine.events import EngineEvent, Replied, Requested, RequestExpired
from engine.message import Durability, Message
from tests.engine.conftest import Engine
from tests.simulation.pool import SeededPool

REPLIES = "DefaultCluster_REPLY_TOPIC"

Ask = Callable[..., PendingRequest]


@pytest.fixture
def ended() -> list[str]:
    """Correlation ids in the order in which requests ended."""
    return []


@pytest.fixture
def ask(engine: Engine, broker: Broker, ended: list[str]) -> Ask:
    def ask(body: str = "q", **given: Any) -> PendingRequest:
        assert engine.broker is not None
        given = {"timeout_ms": 1000, "client": "me", **given}
        properties = given.pop("properties", {})
        message = Message("questions", body.encode(), properties=properties)
        request = engine.broker.requests.request(
            message, on_end=lambda: ended.append(request.correlation_id), **given
        )
        return request

    return ask


def reply(engine: Engine, request: PendingRequest, body: str = "a", **given: Any) -> ReplyResult:
    assert engine.broker is not None
    new = ReplyMessage(correlation_id=request.correlation_id, body=body.encode(), **given)
    return engine.broker.requests.reply(new).result


def test_a_request_is_an_ordinary_message_with_rocketmqs_properties(
    broker: Broker, ask: Ask
) -> None:
    request = ask(client="me", properties={"colour": "red"})
    (delivery,) = broker.receive("g", {"questions": "*"})
    assert delivery.message.message_id == request.message_id
    assert (
        delivery.message.properties.items()
        >= {
            "colour": "red",
            "CORRELATION_ID": request.correlation_id,
            "REPLY_TO_CLIENT": "me",
            "TTL": "1000",
            "CLUSTER": "DefaultCluster",
        }.items()
    )


def test_the_reply_comes_to_the_one_who_asked(engine: Engine, ask: Ask, ended: list[str]) -> None:
    first, second = ask("1"), ask("2")
    assert reply(engine, second, "to 2", tag="t", properties={"x": "y"}) is ReplyResult.DELIVERED
    assert ended == [second.correlation_id]
    assert first.reply is None
    got = second.reply
    assert got is not None
    assert (got.topic, got.body, got.tag) == (REPLIES, b"to 2", "t")
    assert (
        got.properties.items()
        >= {
            "x": "y",
            "MSG_TYPE": "reply",
            "CORRELATION_ID": second.correlation_id,
            "REPLY_TO_CLIENT": "me",
            "TTL": "1000",
            "KEYS": second.correlation_id,
        }.items()
    )
    assert "PUSH_REPLY_TIME" in got.properties


def test_a_request_without_a_reply_ends_at_its_time(
    engine: Engine, ask: Ask, ended: list[str]
) -> None:
    long, short = ask(timeout_ms=2000), ask(timeout_ms=500)
    engine.tick(0.499)
    assert ended == []
    engine.tick(0.001)
    assert ended == [short.correlation_id]
    assert (short.reply, short.is_over) == (None, True)
    engine.tick(1.5)
    assert ended == [short.correlation_id, long.correlation_id]


def test_a_reply_that_comes_too_late_is_kept_and_marked(
    engine: Engine, broker: Broker, ask: Ask, ended: list[str]
) -> None:
    request = ask()
    engine.tick(1)
    assert reply(engine, request, "late") is ReplyResult.LATE
    assert ended == [request.correlation_id]
    found = broker.requests.find(request.correlation_id)
    assert (found.message.body, found.is_late) == (b"late", True)
    assert broker.requests.counts.late == 1


def test_a_reply_in_time_can_be_fetched_again_and_is_not_late(
    engine: Engine, broker: Broker, ask: Ask
) -> None:
    request = ask()
    reply(engine, request)
    assert not broker.requests.find(request.correlation_id).is_late


def test_the_first_reply_wins(engine: Engine, broker: Broker, ask: Ask) -> None:
    in_time, late = ask(), ask()
    reply(engine, in_time, "first")
    assert reply(engine, in_time, "second") is ReplyResult.ALREADY
    engine.tick(1)
    reply(engine, late, "first")
    assert reply(engine, late, "second") is ReplyResult.ALREADY
    for request in (in_time, late):
        assert broker.requests.find(request.correlation_id).message.body == b"first"
    assert broker.topic_stats(REPLIES).messages == 2
    assert broker.requests.counts.duplicates == 2


@pytest.mark.parametrize("begin_anew", [Engine.crash, Engine.restart])
def test_a_reply_after_a_restart_is_late_and_the_next_a_duplicate(
    engine: Engine, ask: Ask, ended: list[str], begin_anew: Callable[[Engine], Broker]
) -> None:
    unanswered, answered = ask(), ask()
    reply(engine, answered, "before")
    broker = begin_anew(engine)
    assert reply(engine, answered, "again") is ReplyResult.ALREADY
    assert broker.requests.find(answered.correlation_id).message.body == b"before"
    assert reply(engine, unanswered, "after") is ReplyResult.LATE
    broker = begin_anew(engine)
    assert reply(engine, unanswered, "again") is ReplyResult.ALREADY
    assert broker.requests.find(unanswered.correlation_id).message.body == b"after"
    assert ended == [answered.correlation_id]


def test_who_cancels_is_not_called_and_gets_a_late_reply(
    engine: Engine, broker: Broker, ask: Ask, ended: list[str]
) -> None:
    request = ask()
    request.cancel()
    request.cancel()
    assert reply(engine, request) is ReplyResult.LATE
    engine.tick(2)
    assert ended == []
    counts = broker.requests.counts
    assert (counts.cancelled, counts.expired, counts.waiting) == (1, 0, 0)


def test_a_thousand_requests_get_each_their_own(engine: Engine, broker: Broker, ask: Ask) -> None:
    requests = [ask(str(number)) for number in range(1000)]
    while deliveries := broker.receive("g", {"questions": "*"}, count_max=100):
        for delivery in reversed(deliveries):
            message = delivery.message
            broker.requests.reply(
                ReplyMessage(
                    correlation_id=message.properties["CORRELATION_ID"], body=b"re " + message.body
                )
            )
    for number, request in enumerate(requests):
        assert request.reply is not None
        assert request.reply.body == b"re %d" % number
    counts = broker.requests.counts
    assert (counts.sent, counts.answered, counts.waiting) == (1000, 1000, 0)


def test_waiting_requests_are_bounded(engine: Engine, ask: Ask) -> None:
    engine.restart(requests_waiting_max=2)
    first = ask()
    ask()
    with pytest.raises(Busy):
        ask()
    reply(engine, first)
    ask()


def test_many_short_requests_leave_nothing_behind(engine: Engine, broker: Broker, ask: Ask) -> None:
    for _ in range(5000):
        reply(engine, ask(timeout_ms=30_000))
    assert len(broker.requests._waiting._deadlines) < 1100


def test_replies_are_kept_for_their_time_only(engine: Engine, ask: Ask) -> None:
    broker = engine.restart(reply_keep_s=60.0)
    request = ask()
    reply(engine, request)
    engine.tick(60)
    assert broker.requests.find(request.correlation_id)
    engine.tick(1)
    with pytest.raises(MessageNotFound):
        broker.requests.find(request.correlation_id)
    assert engine.crash(reply_keep_s=60.0)
    assert reply(engine, request, "much later") is ReplyResult.LATE


def test_a_correlation_id_of_ones_own_is_used_once(engine: Engine, ask: Ask) -> None:
    request = ask(correlation_id="order-7_a")
    assert request.correlation_id == "order-7_a"
    with pytest.raises(Conflict) as refused:
        ask(correlation_id="order-7_a")
    assert refused.value.field == "correlation_id"
    reply(engine, request)
    with pytest.raises(Conflict):
        ask(correlation_id="order-7_a")
    engine.crash()
    with pytest.raises(Conflict):
        ask(correlation_id="order-7_a")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"timeout_ms": 30_001}, "timeout_ms"),
        ({"client": "a\x01b"}, "client"),
        ({"client": "x" * 256}, "client"),
        ({"correlation_id": "a b"}, "correlation_id"),
        ({"correlation_id": "x" * 65}, "correlation_id"),
        ({"properties": {"CORRELATION_ID": "x"}}, "messages[0].properties.CORRELATION_ID"),
        ({"properties": {"MSG_TYPE": "reply"}}, "messages[0].properties.MSG_TYPE"),
        ({"body": ""}, "messages[0].body"),
    ],
)
def test_a_wrong_request_names_its_field_and_leaves_nothing(
    broker: Broker, ask: Ask, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        ask(**given)
    assert refused.value.field == field
    assert broker.topics() == []
    assert broker.requests.counts.waiting == 0


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"body": b""}, "body"),
        ({"properties": {"TTL": "1"}}, "properties.TTL"),
        ({"tag": "a|b"}, "tag"),
        ({"correlation_id": "?"}, "correlation_id"),
        ({"correlation_id": ""}, "correlation_id"),
    ],
)
def test_a_wrong_reply_names_its_field_and_its_requester_waits_on(
    broker: Broker, ask: Ask, given: dict[str, Any], field: str
) -> None:
    request = ask()
    with pytest.raises(Invalid) as refused:
        broker.requests.reply(
            ReplyMessage(**{"correlation_id": request.correlation_id, "body": b"a", **given})
        )
    assert refused.value.field == field
    assert not request.is_over
    assert reply_of(broker, request) is ReplyResult.DELIVERED


def reply_of(broker: Broker, request: PendingRequest) -> ReplyResult:
    new = ReplyMessage(correlation_id=request.correlation_id, body=b"a")
    return broker.requests.reply(new).result


def test_nobody_sends_to_the_reply_topic_or_deletes_it(broker: Broker, ask: Ask) -> None:
    reply_of(broker, ask())
    for forbidden in (
        lambda: broker.send([Message(REPLIES, b"x")]),
        lambda: broker.delete_topic(REPLIES),
    ):
        with pytest.raises(Forbidden):
            forbidden()


def test_a_reply_that_was_promised_to_be_flushed_is_handed_over_after_the_flush(
    tmp_path: Path, clock: ManualClock, ended: list[str]
) -> None:
    pool = SeededPool(random.Random(1))
    config = EngineConfig(data=tmp_path, disk_free_min_bytes=0, durability=Durability.FLUSHED)
    broker = Broker(config, clock=clock, pool=pool)
    broker.start()
    request = broker.requests.request(
        Message("questions", b"q"), timeout_ms=20_000, client="", on_end=lambda: ended.append("x")
    )
    assert reply_of(broker, request) is ReplyResult.DELIVERED
    assert reply_of(broker, request) is ReplyResult.ALREADY
    broker.tick()
    assert ended == []
    with pytest.raises(Busy):
        broker.requests.find(request.correlation_id)
    for _ in range(4):  # the flush of the request, then that of the reply
        pool.drain()
        clock.advance(0.01)
        broker.tick()
    assert ended == ["x"]
    assert request.reply is not None
    assert request.reply.body == b"a"
    assert not broker.requests.find(request.correlation_id).is_late
    broker.stop()


def test_a_stopped_broker_takes_neither(engine: Engine, broker: Broker, ask: Ask) -> None:
    request = ask()
    broker.stop()
    with pytest.raises(EngineError) as refused:
        reply_of(broker, request)
    assert refused.value.code == "stopping"
    with pytest.raises(EngineError):
        ask()
    engine.broker = None


def test_every_stage_is_told(engine: Engine, broker: Broker, ask: Ask, clock: ManualClock) -> None:
    heard: list[EngineEvent] = []
    broker.events.subscribe(heard.append)
    answered, late = ask(), ask()
    reply(engine, answered, born_host="10.0.0.1:5")
    engine.tick(1)
    reply(engine, late)
    kinds = (Requested, Replied, RequestExpired)
    told = [event for event in heard if isinstance(event, kinds)]
    assert [type(event) for event in told] == [
        Requested, Requested, Replied, RequestExpired, Replied,
    ]  # fmt: skip
    assert isinstance(told[2], Replied)
    assert (told[2].topic, told[2].correlation_id) == (REPLIES, answered.correlation_id)
    assert (told[2].client, told[2].is_late) == ("10.0.0.1:5", False)
    assert isinstance(told[4], Replied)
    assert told[4].is_late
