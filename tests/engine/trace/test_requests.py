"""A request and its reply tell of each other; what was traced last is where one begins."""

import pytest

from engine.broker import Nack, ReplyMessage
from engine.message import Message


def ask(broker, timeout_ms=5000):
    return broker.requests.request(
        Message("prices", b"tea?", queue=0),
        timeout_ms=timeout_ms,
        client="till",
        on_end=lambda: None,
    )


def reply(broker, request):
    new = ReplyMessage(correlation_id=request.correlation_id, body=b"3.50", born_host="10.0.0.9:5")
    return broker.requests.reply(new)


def ties(broker, message_id):
    """The stages that tie requests to replies."""
    return [
        (stage.name, stage.outcome, stage.client, stage.detail)
        for stage in broker.traces.journey(message_id).stages
        if stage.name in ("request", "reply")
    ]


def test_a_request_and_its_reply_are_in_each_others_journey(engine, broker):
    request = ask(broker)
    engine.tick(1)
    replied = reply(broker, request)
    expected = [
        ("request", "replied", "till", request.message_id),
        ("reply", "replied", "10.0.0.9:5", replied.message_id),
    ]
    assert ties(broker, request.message_id) == expected
    assert ties(broker, replied.message_id) == expected
    waited = next(
        stage
        for stage in broker.traces.journey(request.message_id).stages
        if stage.name == "request"
    )
    assert waited.until_ms - waited.at_ms == 1000


def test_a_request_without_a_reply_expires_and_a_later_one_is_late(engine, broker):
    request = ask(broker)
    assert ties(broker, request.message_id) == [("request", "waiting", "till", request.message_id)]
    engine.tick(6)
    replied = reply(broker, request)
    assert ties(broker, request.message_id) == [
        ("request", "expired", "till", request.message_id),
        ("reply", "late", "10.0.0.9:5", replied.message_id),
    ]


def test_a_request_whose_client_went_away_does_not_wait_for_ever(engine, broker):
    request = ask(broker)
    request.cancel()
    engine.tick(7)
    assert ties(broker, request.message_id) == [("request", "unknown", "till", request.message_id)]


def test_what_was_traced_last_names_failures_and_others_once(engine, broker):
    sent = broker.send([Message("orders", b"x", queue=0) for _ in range(5)])
    deliveries = broker.receive("g", {"orders": "*"}, client="c", count_max=5)
    broker.nack("g", [Nack(deliveries[1].receipt, error="no")], "c")
    broker.ack("g", [deliveries[3].receipt])
    broker.traces.settle()
    found = broker.traces.recent(3)
    assert [(each.outcome, each.offset) for each in found if each.is_failure] == [("failed", 1)]
    others = [(each.outcome, each.offset) for each in found if not each.is_failure]
    assert others == [("acked", 3), ("inflight", 4)]
    assert len(sent.stored) == 5


def test_nothing_was_traced_lately_where_nothing_was_handed_out(engine, broker):
    broker.send([Message("orders", b"x", queue=0)])
    assert broker.traces.recent(3) == []


def test_a_journey_in_steps_is_the_same_journey(engine, broker):
    sent = broker.send([Message("orders", b"x", queue=0)])
    message_id = sent.stored[0].message_id
    deliveries = broker.receive("g", {"orders": "*"}, client="c")
    broker.ack("g", [each.receipt for each in deliveries])
    records = broker.messages_by_id(message_id)
    ends = []

    def told():
        ends.append((yield from broker.traces.journey_steps(message_id, records)))

    count = sum(1 for _ in told())
    assert ends == [broker.traces.journey(message_id)]
    assert count > 4


@pytest.mark.parametrize("asked", ["ask", "C0FFEE"])
def test_a_message_that_is_no_request_has_no_such_stage(engine, broker, asked):
    broker.send([Message("orders", b"x", queue=0)])
    assert ties(broker, asked) == []
