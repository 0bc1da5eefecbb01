import pytest

from engine.delivery.group import GroupConfig
from engine.delivery.order import OrderLanes
from engine.delivery.values import Nack
from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType


@pytest.fixture
def fifo(broker):
    """A FIFO topic, and "g", which is ordered."""
    broker.create_topic(TopicConfig("fifo", TopicType.FIFO, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))

    def send(*texts):
        """Each text's first letter is its message group."""
        broker.send([Message("fifo", text.encode(), message_group=text[0]) for text in texts])

    return send


def take(broker, count_max=10, **arguments):
    return broker.receive("g", {"fifo": "*"}, count_max=count_max, **arguments)


def texts(deliveries):
    return [delivery.message.body.decode() for delivery in deliveries]


def test_only_the_first_outstanding_message_of_a_group_is_handed_out(broker, fifo):
    fifo("a1", "a2", "b1", "a3", "b2")
    first = take(broker)
    assert texts(first) == ["a1", "b1"]
    assert take(broker) == []
    broker.ack("g", [first[0].receipt])
    second = take(broker)
    assert texts(second) == ["a2"]
    broker.ack("g", [first[1].receipt, second[0].receipt])
    assert texts(take(broker)) == ["a3", "b2"]


def test_a_failed_message_comes_back_before_the_rest_of_its_group(engine, broker, fifo):
    fifo("a1", "a2", "b1")
    failing, _ = take(broker)
    assert broker.nack("g", [Nack(failing.receipt, delay_s=3.5)]) == ["done"]
    engine.tick(3.4)
    assert take(broker) == []
    engine.tick(0.1)
    (again,) = take(broker)
    assert (again.message.body, again.attempt) == (b"a1", 2)
    assert again.message.topic == "fifo", "it kept its place"
    broker.ack("g", [again.receipt])
    assert texts(take(broker)) == ["a2"]


def test_without_a_stated_delay_the_ladder_decides(engine, broker, fifo):
    fifo("a1")
    for attempt, wait_s in ((1, 10), (2, 30), (3, 60)):
        (delivery,) = take(broker)
        assert delivery.attempt == attempt
        broker.nack("g", [Nack(delivery.receipt)])
        engine.tick(wait_s - 0.01)
        assert take(broker) == []
        engine.tick(0.01)


def test_a_message_whose_time_ran_out_comes_back_first_and_counts_an_attempt(engine, broker, fifo):
    fifo("a1", "a2")
    take(broker, invisible_s=5)
    engine.tick(5)
    (again,) = take(broker)
    assert (again.message.body, again.attempt) == (b"a1", 2)


def test_a_released_message_is_still_ahead_of_its_group(broker, fifo):
    fifo("a1", "a2")
    (first,) = take(broker)
    broker.release("g", [first.receipt])
    (again,) = take(broker)
    assert (again.message.body, again.attempt) == (b"a1", 1)


def test_when_attempts_are_used_up_the_group_of_messages_goes_on(engine, broker, fifo):
    broker.change_group("g", retry_max=1)
    fifo("a1", "a2")
    (first,) = take(broker)
    broker.nack("g", [Nack(first.receipt, delay_s=0)])
    engine.tick()
    (again,) = take(broker)
    broker.nack("g", [Nack(again.receipt, error="no use")])
    assert texts(take(broker)) == ["a2"]
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert (dead.body, dead.attempt) == (b"a1", 3)
    assert dead.message_group == "a"


def test_what_waits_its_turn_is_bounded_and_goes_on_as_the_first_are_done(engine):
    broker = engine.start(inflight_max=4)
    broker.create_topic(TopicConfig("fifo", TopicType.FIFO, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))
    broker.send([Message("fifo", b"a%d" % number, message_group="a") for number in range(9)])
    broker.send([Message("fifo", b"b", message_group="b")])
    seen = []
    for _ in range(10):
        given = take(broker)
        seen += texts(given)
        broker.ack("g", [delivery.receipt for delivery in given])
    assert [text for text in seen if text != "b"] == [f"a{number}" for number in range(9)]
    assert "b" in seen


def test_order_holds_across_a_crash_and_a_snapshot(engine, broker, fifo):
    fifo("a1", "b1", "a2", "b2", "a3")
    a1, b1 = take(broker)
    broker.nack("g", [Nack(b1.receipt, delay_s=60)])
    broker = engine.crash()
    assert take(broker) == []
    broker._store.journal.compact()
    broker = engine.crash()
    assert take(broker) == []
    assert broker.ack("g", [a1.receipt]) == ["done"]
    assert texts(take(broker, invisible_s=600)) == ["a2"]
    engine.tick(60)
    (again,) = take(broker)
    assert (again.message.body, again.attempt) == (b"b1", 2)


def test_messages_without_a_group_do_not_wait_for_each_other():
    lanes = OrderLanes()
    assert lanes.enter(1, "")
    assert lanes.enter(2, "")
    assert lanes.leave(1) is None


def test_a_message_that_leaves_from_the_middle_sets_nothing_free():
    lanes = OrderLanes()
    assert [lanes.enter(offset, "a") for offset in (1, 2, 3)] == [True, False, False]
    assert lanes.leave(2) is None
    assert lanes.leave(1) == 3
    assert lanes.leave(3) is None
    assert not lanes.is_busy("a")
