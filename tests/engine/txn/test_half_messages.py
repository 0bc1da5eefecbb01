import pytest

from engine.errors import Busy, Invalid, Refused
from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


def refusal(broker, *, body=b"x", topic="t", **fields):
    message = Message(topic, body, **{"transaction_group": "g", **fields})
    with pytest.raises((Invalid, Refused, Busy)) as refused:
        broker.send([message])
    return refused.value


@pytest.mark.parametrize("field", ["delay_level", "deliver_at_ms"])
def test_a_delay_is_refused_and_named(broker, txn, clock, field):
    value = 1 if field == "delay_level" else clock.now_ms() + 1000
    error = refusal(broker, **{field: value})
    assert error.field == f"messages[0].{field}"
    assert "cannot be delayed" in error.detail


@pytest.mark.parametrize("kind", [TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY])
def test_a_topic_of_another_type_refuses_and_says_what_it_is(broker, txn, kind):
    broker.create_topic(TopicConfig("other", kind))
    error = refusal(broker, topic="other", message_group="m")
    assert (error.code, error.field) == ("wrong_message_type", "transaction_group")
    assert kind.value in error.detail


def test_a_topic_made_at_its_first_message_takes_transactions(engine, broker, txn, half, bodies):
    name = half("a", topic="new", queue=0)
    txn.commit(name)
    assert bodies("new") == ["a"]


def test_a_refused_half_message_creates_no_topic(broker, txn):
    refusal(broker, topic="new", delay_level=1)
    assert [config.name for config in broker.topics()] == ["t"]


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g"])
def test_system_topics_take_no_transactions(broker, txn, topic):
    assert refusal(broker, topic=topic).code == "wrong_message_type"


@pytest.mark.parametrize("topic", [HALF, "RMQ_SYS_TRANS_OP_HALF_TOPIC"])
def test_nobody_sends_to_the_topics_of_transactions(broker, txn, half, topic):
    half("a")
    assert refusal(broker, topic=topic).code == "forbidden"


def test_group_and_immunity_are_checked(broker, txn):
    assert refusal(broker, transaction_group="no spaces").field == "messages[0].transaction_group"
    assert refusal(broker, check_immunity_s=-1).field == "messages[0].check_immunity_s"
    assert refusal(broker, check_immunity_s=86_401).field == "messages[0].check_immunity_s"


def test_properties_leave_room_for_what_is_noted_later(engine, broker, txn, half, bodies):
    long = {f"p{number}": "x" * 4000 for number in range(7)}
    error = refusal(broker, properties=long | {"last": "x" * 640})
    assert error.field == "messages[0].properties"
    name = half("a", properties=long | {"last": "x" * 540})
    for _ in range(17):
        engine.tick(30)
    txn.resume(name)
    txn.commit(name)
    assert bodies() == ["a"]
    assert "KITE_SOURCE" in broker.pull("t", 0, 0).messages[0].properties


def test_more_undecided_ones_than_allowed_are_refused_until_one_is_decided(engine, clock):
    broker = engine.start(transactions_max=2)
    send = [Message("t", b"x", transaction_group="g")]
    ids = [broker.send(send).messages[0].message_id for _ in range(2)]
    with pytest.raises(Busy):
        broker.send(send)
    broker.transactions.rollback(ids[0])
    broker.send(send)


def test_ids_made_for_half_messages_are_never_the_same_twice(engine, broker, txn, half):
    found = set()
    for _ in range(5):
        found |= {*half("a", "b"), half("c")}
        engine.crash()
    assert len(found) == 15
    assert all(len(name) == 32 and int(name, 16) for name in found)


def test_a_message_as_its_sender_holds_it_stays_as_it_was(broker, txn):
    message = Message("t", b"x", transaction_group="g")
    sent = broker.send([message])
    assert (message.topic, message.properties) == ("t", {})
    assert sent.messages[0].topic == HALF
