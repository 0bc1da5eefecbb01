import pytest

from engine.delivery.group import GroupConfig
from engine.delivery.values import Nack
from engine.errors import Busy, TopicNotFound
from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType


@pytest.fixture
def topic(broker):
    broker.create_topic(TopicConfig("orders"))


class Waiters:
    """Parks receives or pulls and notes, by name, who was woken."""

    def __init__(self, broker):
        self.broker = broker
        self.woken = []

    def receive(self, name, group="g", queue=None, **topics):
        topics = topics or {"orders": "*"}
        return self.broker.wait_to_receive(
            group, topics, lambda: self.woken.append(name), queue=queue
        )

    def pull(self, name, offset=0, filter="*", queue=0):
        return self.broker.wait_to_pull(
            "orders", queue, offset, filter, lambda: self.woken.append(name)
        )


@pytest.fixture
def waiters(broker, topic):
    return Waiters(broker)


def test_as_many_receives_wake_as_messages_arrived_oldest_first(waiters, send):
    for name in "abc":
        waiters.receive(name)
    send("1", "2")
    assert waiters.woken == ["a", "b"]
    send("3", "4")
    assert waiters.woken == ["a", "b", "c"]


def test_a_receive_of_one_queue_wakes_for_messages_of_that_queue(waiters, send):
    for name, queue in (("zero", 0), ("one", 1), ("all", None)):
        waiters.receive(name, queue=queue)
    send("1", queue=1)
    assert waiters.woken == ["one"]
    send("2", queue=2)
    assert waiters.woken == ["one", "all"]


def test_a_message_that_comes_back_wakes_who_waits_for_its_queue(waiters, broker, send):
    """Which queue it is in is not known there: all that wait for single queues look."""
    send("1", queue=1)
    (delivery,) = broker.receive("g", {"orders": "*"}, invisible_s=60)
    for name, queue in (("zero", 0), ("one", 1)):
        waiters.receive(name, queue=queue)
    broker.release("g", [delivery.receipt])
    assert waiters.woken == ["zero", "one"]


def test_every_group_wakes_for_itself(waiters, send):
    waiters.receive("a", group="g")
    waiters.receive("b", group="h")
    send("1")
    assert waiters.woken == ["a", "b"]


def test_a_receive_is_woken_once_by_any_of_its_topics(waiters, broker):
    broker.create_topic(TopicConfig("other"))
    waiters.receive("a", orders="*", other="*")
    broker.send([Message("other", b"1")])
    broker.send([Message("orders", b"2")])
    assert waiters.woken == ["a"]
    assert len(broker._delivery.long_polling) == 0


def test_a_message_with_another_tag_wakes_nobody(waiters, send):
    """Item 16: a tag-b message must not wake who waits for a."""
    waiters.receive("a", orders="a")
    waiters.pull("p", filter="a")
    send("1", tag="b")
    assert waiters.woken == []
    send("2", tag="a")
    assert sorted(waiters.woken) == ["a", "p"]


def test_a_parked_pull_is_woken_by_its_message_only_and_by_no_clock(waiters, engine, broker, send):
    """Item 16, improved: no scan every 5 s; the door ends the wait at the exact hold time."""
    parked = waiters.pull("p")
    engine.tick(15)
    assert not parked.is_woken
    parked.cancel()
    send("1")
    assert waiters.woken == []
    assert len(broker._delivery.long_polling) == 0


def test_a_pull_waits_for_messages_at_or_past_its_offset(waiters, send):
    waiters.pull("far", offset=2)
    waiters.pull("near", offset=0)
    waiters.pull("elsewhere", queue=1)
    send("1")
    assert waiters.woken == ["near"]
    send("2", "3")
    assert waiters.woken == ["near", "far"]


def test_all_pulls_that_a_message_concerns_are_woken(waiters, send):
    waiters.pull("a")
    waiters.pull("b", filter="x || y")
    send("1", tag="y")
    assert waiters.woken == ["a", "b"]


def test_who_comes_when_something_is_there_is_woken_at_once(waiters, send, broker):
    send("1")
    assert waiters.receive("a").is_woken
    assert waiters.pull("b").is_woken
    assert waiters.woken == ["a", "b"]
    assert len(broker._delivery.long_polling) == 0


def test_who_cancels_is_not_woken(waiters, send):
    waiters.receive("a").cancel()
    parked = waiters.receive("b")
    parked.cancel()
    parked.cancel()
    waiters.receive("c")
    send("1")
    assert waiters.woken == ["c"]


def test_a_wake_that_was_not_used_is_passed_on(waiters, send):
    first = waiters.receive("a")
    waiters.receive("b")
    send("1")
    assert waiters.woken == ["a"]
    first.cancel()
    assert waiters.woken == ["a", "b"]


def test_a_wake_that_was_used_is_not_passed_on(waiters, send, broker):
    first = waiters.receive("a")
    waiters.receive("b")
    send("1")
    assert broker.receive("g", {"orders": "*"})
    first.cancel()
    assert waiters.woken == ["a"]


def test_a_released_message_wakes_one(waiters, send, broker):
    send("1")
    (delivery,) = broker.receive("g", {"orders": "*"})
    for name in "ab":
        waiters.receive(name)
    broker.release("g", [delivery.receipt])
    assert waiters.woken == ["a"]


def test_an_expired_message_wakes_one_of_its_group(waiters, engine, send, broker):
    send("1")
    broker.receive("g", {"orders": "*"}, invisible_s=1)
    broker.receive("h", {"orders": "*"}, invisible_s=60)
    for name in "ab":
        waiters.receive(name)
    waiters.receive("other", group="h")
    engine.tick(1)
    assert waiters.woken == ["a"]


def test_a_retry_wakes_one_when_it_is_due(waiters, engine, send, broker):
    send("1")
    (delivery,) = broker.receive("g", {"orders": "*"})
    broker.nack("g", [Nack(delivery.receipt)])
    waiters.receive("a")
    engine.tick(9.9)
    assert waiters.woken == []
    engine.tick(0.1)
    assert waiters.woken == ["a"]


def test_a_retry_for_another_topic_that_was_set_aside_wakes_who_waits_for_that(
    waiters, send, broker
):
    broker.create_topic(TopicConfig("other"))
    send("1", topic="other")
    (delivery,) = broker.receive("g", {"other": "*"})
    waiters.receive("orders")
    waiters.receive("other", other="*")
    broker.nack("g", [Nack(delivery.receipt, delay_s=0)])
    assert waiters.woken == ["orders"], "whoever waits in the group is asked first"
    assert broker.receive("g", {"orders": "*"}) == []
    assert waiters.woken == ["orders", "other"]
    assert len(broker.receive("g", {"other": "*"})) == 1


def test_the_next_message_of_a_lane_wakes_one(broker):
    waiters = Waiters(broker)
    broker.create_topic(TopicConfig("fifo", TopicType.FIFO, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))
    broker.send(
        [Message("fifo", b"1", message_group="m"), Message("fifo", b"2", message_group="m")]
    )
    (first,) = broker.receive("g", {"fifo": "*"}, count_max=5)
    waiters.receive("a", fifo="*")
    assert waiters.woken == []
    broker.ack("g", [first.receipt])
    assert waiters.woken == ["a"]


def test_room_in_a_full_window_wakes_as_many_as_there_is_room_for(engine):
    broker = engine.start(inflight_max=2)
    waiters = Waiters(broker)
    broker.send([Message("orders", b"x", queue=0) for _ in range(5)])
    given = broker.receive("g", {"orders": "*"}, count_max=5)
    for name in "abc":
        assert not waiters.receive(name).is_woken
    broker.ack("g", [each.receipt for each in given])
    assert waiters.woken == ["a", "b"]


def test_going_back_wakes_who_waits(waiters, send, broker):
    send("1")
    broker.ack("g", [each.receipt for each in broker.receive("g", {"orders": "*"})])
    waiters.receive("a")
    broker.commit_offset("g", "orders", 0, 0)
    assert waiters.woken == ["a"]


def test_a_deleted_topic_or_changed_group_wakes_all_to_find_out(waiters, broker):
    waiters.receive("a")
    waiters.pull("p")
    broker.delete_topic("orders")
    assert waiters.woken == ["a", "p"]
    with pytest.raises(TopicNotFound):
        waiters.receive("late")
    broker.create_topic(TopicConfig("orders"))
    waiters.receive("b")
    waiters.receive("c")
    broker.change_group("g", consume_enabled=False)
    assert waiters.woken == ["a", "p", "b", "c"]


def test_only_so_many_may_wait_on_one_queue_for_one_group_and_in_all(engine):
    broker = engine.start(long_polls_per_key_max=2, long_polls_max=5)
    broker.create_topic(TopicConfig("orders"))
    waiters = Waiters(broker)
    for name in "ab":
        waiters.receive(name)
        waiters.pull(name)
    for park in (waiters.receive, waiters.pull):
        with pytest.raises(Busy) as refusal:
            park("c")
        assert refusal.value.retry_after_s > 0
    last = waiters.receive("d", group="h")
    with pytest.raises(Busy):
        waiters.receive("e", group="i")
    last.cancel()
    waiters.receive("e", group="i")


def test_a_filter_that_scans_far_wakes_itself_until_it_is_through(broker, send, waiters):
    send(*["x"] * 2000, tag="a")
    send("y", tag="b")
    rounds = 0
    while not (given := broker.receive("g", {"orders": "b"})):
        assert waiters.receive("again", orders="b").is_woken
        rounds += 1
        assert rounds < 10
    assert given[0].message.body == b"y"
