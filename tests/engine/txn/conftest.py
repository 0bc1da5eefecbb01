"""A topic of type TRANSACTION, half messages for it, and what consumers of it see."""

import pytest

from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType


@pytest.fixture
def txn(broker):
    """The broker's transactions, with a topic `t` of one queue for them."""
    broker.create_topic(TopicConfig("t", TopicType.TRANSACTION, read_queues=1, write_queues=1))
    return broker.transactions


@pytest.fixture
def half(engine, txn):
    """Sends half messages; returns their ids, or the one id."""

    def half(*bodies, group="g", topic="t", **fields):
        messages = [
            Message(topic, body.encode(), transaction_group=group, **fields) for body in bodies
        ]
        sent = engine.broker.send(messages)
        ids = [message.message_id for message in sent.messages]
        return ids if len(ids) > 1 else ids[0]

    return half


@pytest.fixture
def bodies(engine):
    """What has been delivered to a topic."""

    def bodies(topic="t"):
        found = engine.broker.pull(topic, 0, 0, count_max=160).messages
        return [message.body.decode() for message in found]

    return bodies


@pytest.fixture
def heard(broker):
    """Every event, from now on."""
    events = []
    broker.events.subscribe(events.append)
    return events
