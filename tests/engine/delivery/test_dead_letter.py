from engine.delivery.group import GroupConfig
from engine.delivery.values import Nack


def give_up(broker, group="g", **how):
    (delivery,) = broker.receive(group, {"orders": "*"})
    broker.nack(group, [Nack(delivery.receipt, **how)], "worker-1")
    return delivery.message


def test_a_dead_letter_keeps_the_message_its_origin_and_the_cause(broker, send):
    broker.create_group(GroupConfig("g", retry_max=0))
    sent = send("a", tag="t", keys=("k",), properties={"colour": "red"})
    original = give_up(broker, error="cannot parse")
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert (dead.topic, dead.queue, dead.body) == ("%DLQ%g", 0, b"a")
    assert (dead.tag, dead.keys, dead.properties["colour"]) == ("t", ("k",), "red")
    assert dead.message_id == sent.stored[0].message_id
    assert dead.origin_topic == dead.properties["DLQ_ORIGIN_TOPIC"] == "orders"
    assert dead.properties["DLQ_ORIGIN_MESSAGE_ID"] == original.offset_id
    assert dead.properties["KITE_ERROR"] == "cannot parse"
    assert dead.properties["KITE_REASON"] == "attempts_exhausted"
    assert dead.properties["KITE_CLIENT"] == "worker-1"
    assert dead.attempt == 2
    assert "DELAY" not in dead.properties


def test_a_rejected_message_dies_at_once(broker, send):
    send("a")
    give_up(broker, delay_level=-1, error="malformed")
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert dead.properties["KITE_REASON"] == "rejected"
    assert broker.lag("g").dead == 1
    assert broker.lag("g").count == 0


def test_after_retries_the_first_record_is_still_named_as_the_origin(engine, broker, send):
    broker.create_group(GroupConfig("g", retry_max=1))
    send("a")
    original = give_up(broker)
    engine.tick(10)
    give_up(broker)
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert dead.properties["DLQ_ORIGIN_MESSAGE_ID"] == original.offset_id
    assert dead.properties["DLQ_ORIGIN_TOPIC"] == "orders"
    assert "REAL_TOPIC" not in dead.properties, "that was its way through the delay levels"


def test_a_message_that_nobody_acknowledges_in_time_dies_too(engine, broker, send):
    broker.create_group(GroupConfig("g", retry_max=0))
    send("a")
    broker.receive("g", {"orders": "*"}, invisible_s=1, client="slow")
    engine.tick(1)
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert dead.properties["KITE_CLIENT"] == "slow"
    assert "invisible time ran out" in dead.properties["KITE_ERROR"]


def test_a_group_without_dead_letters_drops_them(broker, send):
    broker.create_group(GroupConfig("g", retry_max=0, dead_letters=False))
    send("a")
    give_up(broker)
    assert broker.lag("g").dead == 0
    assert broker.lag("g").count == 0


def test_a_dead_letter_can_be_consumed_like_any_message(broker, send):
    broker.create_group(GroupConfig("g", retry_max=0))
    send("a")
    give_up(broker)
    (delivery,) = broker.receive("undertaker", {"%DLQ%g": "*"})
    assert broker.ack("undertaker", [delivery.receipt]) == ["done"]
