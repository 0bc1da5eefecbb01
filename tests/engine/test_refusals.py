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
