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
