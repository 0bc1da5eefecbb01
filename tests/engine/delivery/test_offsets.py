import pytest

from engine.delivery.values import Nack
from engine.errors import GroupNotFound, Invalid, QueueNotFound, TopicNotFound


def take(broker, **arguments):
    return broker.receive("g", {"orders": "*"}, **{"count_max": 10, **arguments})


def test_a_committed_offset_can_go_backwards(engine, broker, send):
    """Item 9."""
    send("a")
    broker.commit_offset("g", "orders", 0, 100)
    broker.commit_offset("g", "orders", 0, 50)
    assert broker.committed_offset("g", "orders", 0) == 50
    assert engine.restart().committed_offset("g", "orders", 0) == 1, "the log ends there"


def test_an_offset_of_a_group_that_never_consumed_is_none(broker, send):
    send("a")
    assert broker.committed_offset("nobody", "orders", 0) is None


def test_going_back_delivers_again_and_makes_old_receipts_stale(broker, send):
    send("a", "b", "c")
    given = take(broker)
    broker.ack("g", [each.receipt for each in given[:2]])
    broker.commit_offset("g", "orders", 0, 1)
    assert broker.ack("g", [given[2].receipt]) == ["stale"]
    assert [each.message.body for each in take(broker)] == [b"b", b"c"]


def test_going_forward_skips_what_was_outstanding(broker, send):
    send("a", "b", "c")
    (given,) = take(broker, count_max=1)
    broker.commit_offset("g", "orders", 0, 2)
    assert broker.ack("g", [given.receipt]) == ["already"]
    assert [each.message.body for each in take(broker)] == [b"c"]


def test_the_committed_offset_is_the_first_that_is_not_done(broker, send):
    send("a", "b", "c")
    given = take(broker)
    broker.ack("g", [given[1].receipt, given[2].receipt])
    assert broker.committed_offset("g", "orders", 0) == 0
    broker.ack("g", [given[0].receipt])
    assert broker.committed_offset("g", "orders", 0) == 3


def test_only_an_offset_of_an_existing_queue_can_be_committed(broker, send):
    send("a")
    for error, place in (
        (TopicNotFound, ("nowhere", 0, 0)),
        (QueueNotFound, ("orders", 4, 0)),
        (Invalid, ("orders", 0, -1)),
    ):
        with pytest.raises(error):
            broker.commit_offset("g", *place)


def test_lag_counts_what_is_waiting_in_flight_retried_and_dead(engine, broker, send, clock):
    send("a", "b", "c", "d")
    started_ms = clock.now_ms()
    clock.advance(2)
    send("e")
    a, b, c = take(broker, count_max=3)
    broker.ack("g", [b.receipt])
    broker.nack("g", [Nack(c.receipt)])
    lag = broker.lag("g")
    assert (lag.count, lag.inflight, lag.retry_waiting, lag.dead) == (3, 1, 1, 0)
    assert lag.oldest_age_ms == 2000
    (queue,) = [each for each in lag.queues if each.count]
    assert (queue.topic, queue.queue, queue.min_offset, queue.max_offset) == ("orders", 0, 0, 5)
    assert (queue.committed, queue.cursor, queue.oldest_ms) == (0, 3, started_ms)
    broker.nack("g", [Nack(a.receipt, delay_level=-1)])
    lag = broker.lag("g")
    assert (lag.count, lag.inflight, lag.retry_waiting, lag.dead) == (2, 0, 1, 1)


def test_waiting_retries_are_counted_until_they_come_back_also_after_a_crash(engine, broker, send):
    send("a", "b", "c")
    a, b, _ = take(broker)
    broker.nack("g", [Nack(a.receipt), Nack(b.receipt, delay_s=0)])
    broker.send_back("g", "orders", 0, 0)
    assert broker.lag("g").retry_waiting == 2
    broker = engine.crash()
    assert broker.lag("g").retry_waiting == 2
    engine.tick(10)
    assert broker.lag("g").retry_waiting == 0
    assert broker.lag("g").count == 1 + 3


def test_a_deleted_retry_topic_leaves_no_retries_to_wait_for(engine, broker, send):
    send("a", "b")
    for delivery in take(broker):
        broker.nack("g", [Nack(delivery.receipt, delay_s=1)])
    engine.tick(1)
    broker.delete_topic("%RETRY%g")
    assert (broker.lag("g").retry_waiting, broker.lag("g").count) == (0, 0)
    assert engine.crash().lag("g").retry_waiting == 0


def test_a_group_that_is_done_has_no_lag_and_no_age(broker, send):
    send("a")
    broker.ack("g", [each.receipt for each in take(broker)])
    lag = broker.lag("g")
    assert (lag.count, lag.oldest_age_ms) == (0, None)
    with pytest.raises(GroupNotFound):
        broker.lag("nobody")
