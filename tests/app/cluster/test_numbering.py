"""Queue numbers over the brokers of a cluster."""

import pytest

from app.cluster.numbering import QueueNumbers
from app.cluster.routes import BrokerQueues, ClusterQueue, TopicRoute
from engine.errors import QueueNotFound, Refused

NUMBERS = QueueNumbers(["b", "a", "c"])


def test_each_queue_has_one_number_in_the_order_of_the_brokers() -> None:
    places = [NUMBERS.place("t", each) for each in range(6)]
    assert [f"{each.broker}{each.queue}" for each in places] == ["b0", "a0", "c0", "b1", "a1", "c1"]
    assert [NUMBERS.number(each) for each in places] == list(range(6))


def test_a_broker_that_is_away_keeps_its_numbers() -> None:
    route = TopicRoute([BrokerQueues("a", 2, 1, 6), BrokerQueues("c", 1, 1, 6)])
    assert NUMBERS.counts(route) == (6, 3)
    assert NUMBERS.counts(TopicRoute()) == (0, 0)


def test_a_broker_that_joined_later_is_refused_with_the_order_that_would_take_it() -> None:
    for ask in (
        lambda: NUMBERS.number(ClusterQueue("t", "d", 0)),
        lambda: NUMBERS.check(["a", "d"]),
    ):
        with pytest.raises(Refused) as error:
            ask()
        assert error.value.code == "broker_not_numbered"
        assert "'b;a;c;d'" in error.value.remedy


@pytest.mark.parametrize("number", [-1, 1 << 40])
def test_what_is_no_number_is_no_queue(number: int) -> None:
    with pytest.raises(QueueNotFound):
        NUMBERS.place("t", number)


def test_a_share_is_enough_for_all() -> None:
    assert [NUMBERS.share(each) for each in (1, 3, 4)] == [1, 1, 2]
