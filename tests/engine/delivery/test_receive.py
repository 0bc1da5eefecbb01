import pytest

from engine.delivery.group import GroupConfig, Mode, StartAt
from engine.delivery.values import AckResult, Nack
from engine.errors import Forbidden, Invalid, Paused, QueueNotFound, TopicNotFound
from engine.events import MessagesDelivered
from engine.message import Message
from engine.topic.catalog import TopicConfig


def bodies(deliveries):
    return [delivery.message.body.decode() for delivery in deliveries]


def test_messages_of_a_queue_come_once_and_in_order(broker, send):
    send(*"abcdef")
    assert bodies(broker.receive("g", {"orders": "*"}, count_max=4)) == ["a", "b", "c", "d"]
    assert bodies(broker.receive("g", {"orders": "*"}, count_max=4)) == ["e", "f"]
    assert broker.receive("g", {"orders": "*"}, count_max=4) == []


def test_a_delivery_says_which_attempt_it_is_and_until_when_it_holds(broker, send, clock):
    send("a")
    (delivery,) = broker.receive("g", {"orders": "*"}, invisible_s=30)
    assert delivery.attempt == 1
    assert delivery.invisible_until_ms == clock.now_ms() + 30_000
    assert delivery.receipt[:3] == ("orders", 0, 0)


def test_each_group_gets_every_message(broker, send):
    send("a")
    assert bodies(broker.receive("g", {"orders": "*"})) == ["a"]
    assert bodies(broker.receive("h", {"orders": "*"})) == ["a"]


def test_all_queues_of_all_named_topics_are_served_in_turn(broker):
    for topic in ("t", "u"):
        for queue in range(4):
            broker.send([Message(topic, b"x", queue=queue)] * 2)
    seen = [broker.receive("g", {"t": "*", "u": "*"})[0].receipt[:2] for _ in range(8)]
    assert len(set(seen)) == 8, "one busy queue must not keep the others waiting"
    assert len(broker.receive("g", {"t": "*", "u": "*"}, count_max=100)) == 8


def test_a_receive_of_one_queue_gets_its_messages_and_the_retries(broker, clock):
    for queue in range(3):
        broker.send([Message("t", f"{queue}".encode(), queue=queue)])
    (failed,) = broker.receive("g", {"t": "*"}, count_max=9, queue=2)
    assert failed.receipt[:2] == ("t", 2)
    assert broker.receive("g", {"t": "*"}, count_max=9, queue=2) == []
    broker.nack("g", [Nack(failed.receipt, delay_s=0)])
    broker.tick()
    assert "2" in bodies(broker.receive("g", {"t": "*"}, count_max=9, queue=0))
    with pytest.raises(QueueNotFound):
        broker.receive("g", {"t": "*"}, queue=9)


def add_queue(broker):
    broker.change_topic("orders", read_queues=3, write_queues=3)
    broker.send([Message("orders", b"new", queue=2)])
    return ["new"]


def recreate_topic(broker):
    broker.delete_topic("orders")
    with pytest.raises(TopicNotFound):
        broker.receive("g", {"orders": "*"}, count_max=9)
    broker.create_topic(TopicConfig("orders", read_queues=2, write_queues=2))
    broker.send([Message("orders", b"new", queue=0)])
    return ["new"]


def recreate_group(broker):
    broker.delete_group("g")
    return ["old"]


def close_and_open_topic(broker):
    broker.change_topic("orders", permission=2)
    with pytest.raises(Forbidden):
        broker.receive("g", {"orders": "*"}, count_max=9)
    broker.change_topic("orders", permission=6)
    return []


def pause_and_resume(broker):
    broker.pause_group("g", "orders")
    with pytest.raises(Paused):
        broker.receive("g", {"orders": "*"}, count_max=9)
    broker.resume_group("g", "orders")
    return []


def broadcast(broker):
    broker.change_group("g", mode=Mode.BROADCAST)
    assert bodies(broker.receive("g", {"orders": "*"}, count_max=9, client="other")) == ["old"]
    return ["old"]


@pytest.mark.parametrize(
    "change",
    [add_queue, recreate_topic, recreate_group, close_and_open_topic, pause_and_resume, broadcast],
)
def test_the_same_receive_follows_a_change_of_its_topic_or_group(broker, change):
    broker.create_topic(TopicConfig("orders", read_queues=2, write_queues=2))
    broker.send([Message("orders", b"old", queue=0)])
    for count in (1, 0):
        deliveries = broker.receive("g", {"orders": "*"}, count_max=9, client="c")
        assert len(deliveries) == count
        broker.ack("g", [delivery.receipt for delivery in deliveries])
    expected = change(broker)
    again = broker.receive("g", {"orders": "*"}, count_max=9, client="c")
    assert bodies(again) == expected
    assert set(broker.ack("g", [delivery.receipt for delivery in again])) <= {AckResult.DONE}
    assert broker.receive("g", {"orders": "*"}, count_max=9, client="c") == []


def test_each_topic_has_its_own_filter(broker):
    broker.send([Message("t", b"1", tag="a"), Message("t", b"2", tag="b")])
    broker.send([Message("u", b"3", tag="a"), Message("u", b"4", tag="b")])
    received = broker.receive("g", {"t": "a", "u": "b"}, count_max=10)
    assert sorted(bodies(received)) == ["1", "4"]


def test_an_early_group_gets_everything_and_a_late_one_only_what_comes(broker, send):
    send("old")
    broker.create_group(GroupConfig("late", start=StartAt.LATEST))
    assert broker.receive("late", {"orders": "*"}) == []
    send("new", queue=1)
    assert bodies(broker.receive("late", {"orders": "*"}, count_max=9)) == ["new"]
    assert sorted(bodies(broker.receive("early", {"orders": "*"}, count_max=9))) == ["new", "old"]


def test_a_queue_added_to_a_consumed_topic_is_consumed_from_its_beginning(broker):
    broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("late", start=StartAt.LATEST))
    assert broker.receive("late", {"t": "*"}) == []
    broker.change_topic("t", write_queues=2)
    broker.send([Message("t", b"first of the new queue", queue=1)])
    broker.change_topic("t", read_queues=2)
    assert bodies(broker.receive("late", {"t": "*"})) == ["first of the new queue"]


def test_what_one_group_has_outstanding_in_a_queue_is_bounded(engine):
    broker = engine.start(inflight_max=3)
    broker.send([Message("t", b"%d" % number, queue=0) for number in range(5)])
    first = broker.receive("g", {"t": "*"}, count_max=10)
    assert len(first) == 3
    assert broker.receive("g", {"t": "*"}, count_max=10) == []
    broker.ack("g", [first[1].receipt])
    assert bodies(broker.receive("g", {"t": "*"}, count_max=10)) == ["3"]


def test_one_receive_hands_out_at_most_four_mebibytes_yet_always_one(broker):
    half = b"x" * (2 * 1024 * 1024)
    for _ in range(3):
        broker.send([Message("t", half, queue=0)])
    assert len(broker.receive("g", {"t": "*"}, count_max=10)) == 1
    broker.send([Message("u", b"x" * 4 * 1024 * 1024, queue=0)])
    assert len(broker.receive("g", {"u": "*"}, count_max=10)) == 1


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("count_max", {"count_max": 0}),
        ("count_max", {"count_max": 1025}),
        ("invisible_s", {"invisible_s": 0}),
        ("invisible_s", {"invisible_s": 43201}),
        ("client", {"client": "x" * 256}),
        ("client", {"client": "a\nb"}),
    ],
)
def test_a_receive_out_of_bounds_is_refused_by_name(broker, send, field, arguments):
    send("a")
    with pytest.raises(Invalid) as refusal:
        broker.receive("g", {"orders": "*"}, **arguments)
    assert refusal.value.field == field


def test_a_topic_must_exist_be_readable_and_not_be_the_retries_themselves(broker):
    broker.create_topic(TopicConfig("closed", permission=2))
    with pytest.raises(TopicNotFound):
        broker.receive("g", {"nowhere": "*"})
    with pytest.raises(Forbidden):
        broker.receive("g", {"closed": "*"})
    for topics in ({}, {"%RETRY%g": "*"}, {f"t{number}": "*" for number in range(65)}):
        with pytest.raises(Invalid) as refusal:
            broker.receive("g", topics)
        assert refusal.value.field == "topics"


def test_a_hand_out_is_told_as_one_event_for_a_queue(broker, send):
    heard = []
    broker.events.subscribe(heard.append)
    send("a", "b")
    broker.receive("g", {"orders": "*"}, count_max=5, client="me")
    (delivered,) = [event for event in heard if isinstance(event, MessagesDelivered)]
    assert delivered.offsets == (0, 1)
    assert (delivered.group, delivered.topic, delivered.queue) == ("g", "orders", 0)
    assert delivered.client == "me"


def test_a_deleted_topic_takes_its_progress_along(broker, send):
    send("a")
    (delivery,) = broker.receive("g", {"orders": "*"})
    broker.delete_topic("orders")
    assert broker.ack("g", [delivery.receipt]) == ["stale"]
    assert broker.committed_offset("g", "orders", 0) is None
    send("b")
    assert bodies(broker.receive("g", {"orders": "*"})) == ["b"]
