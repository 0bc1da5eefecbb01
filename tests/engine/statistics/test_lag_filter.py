"""Lag counts what the filter lets through, where that is cheap, and says which it did."""

import random

import pytest

from engine.broker import Broker, LagBasis, QueueLag
from engine.delivery import subscription_filters
from engine.message import Message
from tests.engine.conftest import Engine


def fill(broker: Broker, *tags: str) -> None:
    broker.send([Message("orders", b"x", tag=tag, queue=0) for tag in tags])


def queue_lag(broker: Broker) -> QueueLag:
    [found] = [
        each for each in broker.lag("billing").queues if (each.topic, each.queue) == ("orders", 0)
    ]
    return found


def take(broker: Broker, filter: str, count: int = 1) -> None:
    taken = broker.receive("billing", {"orders": filter}, count_max=count)
    broker.ack("billing", [each.receipt for each in taken])


def test_a_tag_filter_counts_what_it_lets_through(broker: Broker) -> None:
    fill(broker, *"abababab")
    take(broker, "a")
    lag = queue_lag(broker)
    assert (lag.count, lag.counts) == (3, LagBasis.MATCHING)
    assert broker.lag("billing").counts is LagBasis.MATCHING


def test_a_group_without_a_filter_counts_everything_and_that_matches(broker: Broker) -> None:
    fill(broker, *"abab")
    take(broker, "*")
    assert (queue_lag(broker).count, queue_lag(broker).counts) == (3, LagBasis.MATCHING)


def test_an_sql_filter_counts_everything_and_says_so(broker: Broker) -> None:
    fill(broker, *"abab")
    take(broker, "SQL92: TAGS = 'a'")
    assert (queue_lag(broker).count, queue_lag(broker).counts) == (2, LagBasis.ALL)
    assert broker.lag("billing").counts is LagBasis.ALL


def test_after_a_restart_the_filter_is_unknown_until_the_group_asks_again(engine: Engine) -> None:
    broker = engine.start()
    fill(broker, *"abababab")
    take(broker, "a")
    broker = engine.restart()
    assert queue_lag(broker).counts is LagBasis.ALL
    take(broker, "a")
    assert queue_lag(broker).counts is LagBasis.MATCHING


def test_more_open_messages_than_are_examined_count_all(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_filters, "ENTRIES_MAX", 9)
    fill(broker, *"ab" * 6)
    take(broker, "a")
    assert (queue_lag(broker).count, queue_lag(broker).counts) == (10, LagBasis.ALL)
    take(broker, "a")
    assert (queue_lag(broker).count, queue_lag(broker).counts) == (4, LagBasis.MATCHING)


def test_the_latest_filter_of_a_group_counts(broker: Broker) -> None:
    fill(broker, *"aaab")
    take(broker, "a")
    assert queue_lag(broker).count == 2
    take(broker, "b")
    fill(broker, *"abb")
    assert queue_lag(broker).count == 2


def test_a_count_by_one_filter_is_not_carried_on_for_another(broker: Broker) -> None:
    fill(broker, *"aab" * 10)
    take(broker, "a")
    assert queue_lag(broker).count == 19
    take(broker, "b")
    assert queue_lag(broker).count == 9


def test_a_pulling_group_counts_by_the_filter_it_pulls_with(broker: Broker) -> None:
    fill(broker, *"abab")
    broker.pull("orders", 0, 0, filter="b", group="billing")
    broker.commit_offset("billing", "orders", 0, 1)
    assert (queue_lag(broker).count, queue_lag(broker).counts) == (2, LagBasis.MATCHING)


def test_a_count_that_is_carried_on_is_the_one_made_anew(broker: Broker) -> None:
    chance = random.Random(11)
    for _ in range(60):
        fill(broker, *chance.choices("abc", k=chance.randrange(1, 40)))
        take(broker, "a || b", chance.randrange(1, 30))
        carried = queue_lag(broker).count
        broker._delivery.receive_targets.filters._counts.clear()
        assert queue_lag(broker).count == carried
        if chance.random() < 0.1:
            broker.commit_offset("billing", "orders", 0, chance.randrange(queue_lag(broker).cursor))


def test_a_topic_made_anew_is_counted_anew(broker: Broker) -> None:
    fill(broker, *"aaaabb")
    take(broker, "a")
    assert queue_lag(broker).count == 3
    broker.delete_topic("orders")
    fill(broker, *"bbbbbbba")
    take(broker, "b")
    assert queue_lag(broker).count == 6
