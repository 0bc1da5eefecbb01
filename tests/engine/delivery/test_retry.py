import pytest

from engine.delivery.group import GroupConfig
from engine.delivery.retry import attempt_of, property_text
from engine.delivery.values import Nack
from engine.errors import GroupNotFound, Invalid, MessageNotFound, TopicNotFound
from engine.events import DeadLettered, Retried
from engine.message import Message


def take(broker, topics=("orders",), count_max=10, **arguments):
    return broker.receive("g", dict.fromkeys(topics, "*"), count_max=count_max, **arguments)


def fail(broker, delivery, **how):
    assert broker.nack("g", [Nack(delivery.receipt, **how)], "worker-1") == ["done"]


def test_three_failures_with_two_retries_wait_10_s_and_30_s_and_end_as_a_dead_letter(
    engine, broker, send
):
    """Item 11: level 3 + reconsumeTimes; >= max goes to the dead letters."""
    broker.create_group(GroupConfig("g", retry_max=2))
    send("a", tag="t", keys=("k1", "k2"), properties={"colour": "red"})
    (first,) = take(broker)
    for attempt, wait_s in ((1, 10), (2, 30)):
        (delivery,) = (first,) if attempt == 1 else take(broker)
        assert delivery.attempt == attempt
        fail(broker, delivery)
        engine.tick(wait_s - 0.01)
        assert take(broker) == []
        engine.tick(0.01)
    (last,) = take(broker)
    assert last.attempt == 3
    fail(broker, last)
    engine.tick(7200)
    assert take(broker) == []
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert dead.attempt - 1 == 3, "RocketMQ's reconsumeTimes"


def test_a_send_to_the_retry_topic_becomes_a_dead_letter_only_above_the_maximum(broker):
    """Item 11: > max on a direct send, where a retry of the engine's own tests >=."""
    broker.create_group(GroupConfig("g", retry_max=2))
    broker.send([Message("%RETRY%g", b"stays", attempt=3)])
    broker.send([Message("%RETRY%g", b"dies", attempt=4)])
    broker.send([Message("%RETRY%g", b"dies later", attempt=4, delay_level=18)])
    assert [each.body for each in broker.pull("%RETRY%g", 0, 0).messages] == [b"stays"]
    dead = broker.pull("%DLQ%g", 0, 0).messages
    assert [each.body for each in dead] == [b"dies", b"dies later"]


def test_a_send_to_the_retry_topic_of_nobody_is_refused(broker):
    with pytest.raises(GroupNotFound):
        broker.send([Message("%RETRY%nobody", b"x")])


def test_a_retry_remembers_where_it_came_from_and_why(engine, broker, send):
    sent = send("a", tag="t", keys=("k1", "k2"), properties={"colour": "red"})
    (first,) = take(broker)
    fail(broker, first, error="no route to host")
    engine.tick(10)
    (again,) = take(broker)
    message = again.message
    assert (message.topic, message.origin_topic) == ("%RETRY%g", "orders")
    assert message.message_id == sent.stored[0].message_id
    assert message.properties["ORIGIN_MESSAGE_ID"] == first.message.offset_id
    assert message.properties["KITE_ERROR"] == "no route to host"
    assert message.properties["KITE_CLIENT"] == "worker-1"
    assert message.properties["colour"] == "red"
    assert (message.tag, message.keys) == ("t", ("k1", "k2"))
    assert message.born_ms == first.message.born_ms
    assert message.born_host == first.message.born_host


@pytest.mark.parametrize(
    ("how", "wait_s"),
    [
        ({"delay_s": 0.5}, 1),
        ({"delay_s": 1}, 1),
        ({"delay_s": 11}, 30),
        ({"delay_s": 7200}, 7200),
        ({"delay_level": 2}, 5),
        ({"delay_level": 99}, 7200),
        ({"delay_level": 0}, 10),
    ],
)
def test_a_stated_delay_is_rounded_up_to_a_level(engine, broker, send, how, wait_s):
    send("a")
    fail(broker, take(broker)[0], **how)
    engine.tick(wait_s - 0.01)
    assert take(broker) == []
    engine.tick(0.01)
    assert len(take(broker)) == 1


def test_without_any_delay_it_comes_back_at_once(broker, send):
    send("a")
    fail(broker, take(broker)[0], delay_s=0)
    (again,) = take(broker)
    assert again.attempt == 2


@pytest.mark.parametrize(
    "how", [{"delay_s": -1}, {"delay_s": 7201}, {"delay_s": 1, "delay_level": 1}]
)
def test_a_delay_that_cannot_be_is_refused_and_nothing_happens(broker, send, how):
    send("a")
    (delivery,) = take(broker)
    with pytest.raises(Invalid) as refusal:
        broker.nack("g", [Nack(delivery.receipt, **how)])
    assert refusal.value.field == "delay_s"
    assert broker.ack("g", [delivery.receipt]) == ["done"]


def test_a_failure_is_reported_once(broker, send):
    send("a")
    (delivery,) = take(broker)
    nack = Nack(delivery.receipt, delay_s=0)
    assert broker.nack("g", [nack, nack]) == ["done", "already"]
    assert broker.nack("g", [nack]) == ["stale"]
    assert len(take(broker)) == 1


def test_retries_of_two_topics_do_not_hold_each_other_up(engine, broker, send):
    send("a", topic="t")
    send("b", topic="u")
    for delivery in take(broker, ("t", "u")):
        fail(broker, delivery, delay_s=0)
    (u,) = take(broker, ("u",))
    assert u.message.body == b"b"
    broker = engine.crash()
    (t,) = take(broker, ("t",))
    assert t.message.body == b"a"
    broker.release("g", [t.receipt])
    assert take(broker, ("u",)) == []
    assert len(take(broker, ("t",))) == 1


def test_retries_from_a_deleted_topic_are_dropped(broker, send):
    send("a", topic="t")
    send("b", topic="u")
    for delivery in take(broker, ("t", "u")):
        fail(broker, delivery, delay_s=0)
    assert len(take(broker, ("u",))) == 1
    broker.delete_topic("t")
    assert broker._desk.ledger.find("g", "%RETRY%g", 0).floor == 1
    send("c", topic="t")
    assert [each.message.body for each in take(broker, ("t",))] == [b"c"]


def test_another_group_never_sees_a_retry(broker, send):
    send("a")
    fail(broker, take(broker)[0], delay_s=0)
    assert [each.attempt for each in broker.receive("h", {"orders": "*"}, count_max=5)] == [1]


def test_a_dead_letter_of_one_group_is_a_fresh_message_to_another(engine, broker, send):
    broker.create_group(GroupConfig("dead", retry_max=0))
    send("a")
    (delivery,) = broker.receive("dead", {"orders": "*"})
    broker.nack("dead", [Nack(delivery.receipt)])
    (first,) = take(broker, ("%DLQ%dead",))
    assert first.attempt == 1
    fail(broker, first, delay_s=0)
    (again,) = take(broker, ("%DLQ%dead",))
    assert (again.attempt, attempt_of("g", again.message)) == (2, 2)


def test_retries_pass_the_filter_that_let_them_through_before(broker, send):
    send("a", tag="x")
    (delivery,) = broker.receive("g", {"orders": "x"})
    fail(broker, delivery, delay_s=0)
    assert len(broker.receive("g", {"orders": "x"})) == 1


def test_a_batch_of_failures_is_retried_as_one(engine, broker, send):
    send(*map(str, range(200)))
    given = take(broker, count_max=200)
    assert broker.nack("g", [Nack(each.receipt) for each in given]) == ["done"] * 200
    engine.tick(10)
    again = take(broker, count_max=1000)
    assert sorted(int(each.message.body) for each in again) == list(range(200))


def test_a_message_whose_properties_are_full_is_retried_in_its_place(
    engine, broker, send, no_room_kept
):
    send("a", properties={f"p{number}": "x" * 4050 for number in range(8)})
    (delivery,) = take(broker)
    fail(broker, delivery, error="e" * 1000)
    assert take(broker) == []
    engine.tick(10)
    (again,) = take(broker)
    assert (again.message.topic, again.attempt) == ("orders", 2)


def test_an_error_text_is_cut_to_size_and_cannot_forge_a_property(engine, broker, send):
    send("a")
    fail(broker, take(broker)[0], delay_s=0, error="x\x02PGROUP\x01y" + "ü" * 1000)
    (again,) = take(broker)
    assert again.message.properties["KITE_ERROR"].startswith("x PGROUP yü")
    assert len(again.message.properties["KITE_ERROR"].encode()) <= 1024
    assert "PGROUP" not in again.message.properties
    assert property_text("\ud800", 10) == "?"


def test_a_pulling_client_gives_a_message_back(engine, broker, send):
    send("a")
    broker.create_group(GroupConfig("g", retry_max=1))
    broker.send_back("g", "orders", 0, 0, error="busy", client="old")
    assert broker.lag("g").retry_waiting == 1
    engine.tick(10)
    (again,) = broker.pull("%RETRY%g", 0, 0).messages
    assert (again.attempt, again.origin_topic) == (2, "orders")
    broker.send_back("g", "%RETRY%g", 0, 0, error="busy still")
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert (dead.attempt, dead.properties["DLQ_ORIGIN_TOPIC"]) == (3, "orders")


def test_giving_back_honours_the_clients_own_maximum_and_level(engine, broker, send):
    send("a", "b", "c")
    broker.create_group(GroupConfig("g"))
    broker.send_back("g", "orders", 0, 0, retry_max=0)
    broker.send_back("g", "orders", 0, 1, delay_level=-1)
    assert [each.body for each in broker.pull("%DLQ%g", 0, 0).messages] == [b"a", b"b"]
    broker.send_back("g", "orders", 0, 2, delay_level=1)
    engine.tick(1)
    assert [each.body for each in broker.pull("%RETRY%g", 0, 0).messages] == [b"c"]


def test_what_is_not_there_cannot_be_given_back(broker, send):
    send("a")
    with pytest.raises(GroupNotFound):
        broker.send_back("nobody", "orders", 0, 0)
    broker.create_group(GroupConfig("g"))
    with pytest.raises(TopicNotFound):
        broker.send_back("g", "nowhere", 0, 0)
    with pytest.raises(MessageNotFound):
        broker.send_back("g", "orders", 0, 1)


def test_failures_are_told_as_events(broker, send):
    heard = []
    broker.create_group(GroupConfig("g", retry_max=1))
    send("a")
    broker.events.subscribe(heard.append)
    fail(broker, take(broker)[0], delay_s=0, error="first")
    fail(broker, take(broker)[0], error="second")
    (retried,) = [event for event in heard if isinstance(event, Retried)]
    (dead,) = [event for event in heard if isinstance(event, DeadLettered)]
    assert (retried.topic, retried.attempt, retried.error) == ("orders", 2, "first")
    assert (dead.topic, dead.reason, dead.client) == ("%RETRY%g", "attempts_exhausted", "worker-1")
