"""A send that is turned down leaves nothing behind."""

import pytest

from engine.broker import Broker
from engine.errors import Invalid, TopicNotFound
from engine.message import Message


def test_a_refused_first_send_creates_no_topic(broker: Broker) -> None:
    with pytest.raises(Invalid) as caught:
        broker.send([Message("orders", b"good"), Message("orders", b"bad", tag="a|b")])
    assert caught.value.field == "messages[1].tag"
    assert broker.topics() == []
    with pytest.raises(TopicNotFound):
        broker.topic("orders")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Message("orders", b"x", flag=1 << 31), "flag"),
        (Message("orders", b"x", born_ms=-1), "born_ms"),
        (Message("orders", b"x", born_ms=1 << 63), "born_ms"),
        (Message("orders", b"x", keys=("a b",)), "keys"),
        (Message("orders", b"x", message_id="not hex, not anything"), "message_id"),
        (Message("orders", b"x", queue=4), "queue"),
        (Message("orders", b"x", properties={"TAGS": "a"}), "properties.TAGS"),
    ],
)
def test_a_value_that_no_record_can_hold_is_named(
    broker: Broker, message: Message, field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        broker.send([Message("orders", b"good"), message])
    assert caught.value.field == f"messages[1].{field}"
    assert broker.health().log_bytes == 0


def test_a_delayed_message_whose_send_was_refused_may_be_sent_again(broker: Broker) -> None:
    delayed = [
        Message("orders", b"x", delay_level=3),
        Message("orders", b"y", deliver_at_ms=1 << 50),
    ]
    with pytest.raises(Invalid):
        broker.send(delayed)
    assert [(message.topic, message.properties) for message in delayed] == [("orders", {})] * 2
    delayed[1].deliver_at_ms = 0
    assert broker.send(delayed).stored[0].topic == "SCHEDULE_TOPIC_XXXX"
    assert broker.topic_stats("orders").messages == 1
