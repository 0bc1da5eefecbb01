"""Pausing a group, or one topic of it: nothing is delivered, and who waits goes on waiting."""

import pytest

from engine.broker import GroupConfig
from engine.delivery.values import Nack
from engine.errors import Forbidden, Paused, TopicNotFound

BOTH = {"orders": "*", "other": "*"}


@pytest.fixture(autouse=True)
def _messages(broker, send):
    send("1")
    send("2", topic="other")
    broker.create_group(GroupConfig("g"))


def bodies(broker, topics=BOTH):
    given = broker.receive("g", topics, count_max=10)
    broker.ack("g", [each.receipt for each in given])
    return sorted(each.message.body.decode() for each in given)


def park(broker, topics=BOTH):
    woken = []
    parked = broker.wait_to_receive("g", topics, lambda: woken.append(True))
    return parked, woken


def test_a_paused_group_gets_nothing_until_it_is_resumed(engine, broker):
    assert not broker.pause_group("g").consume_enabled
    with pytest.raises(Paused) as refusal:
        bodies(broker)
    assert (refusal.value.code, refusal.value.field) == ("forbidden", "group")
    broker = engine.crash()
    with pytest.raises(Forbidden):
        broker.pull("orders", 0, 0, group="g")
    assert broker.resume_group("g").consume_enabled
    assert bodies(broker) == ["1", "2"]


def test_what_is_in_flight_at_a_pause_can_be_settled(broker):
    given = broker.receive("g", BOTH, count_max=10)
    broker.pause_group("g")
    assert broker.ack("g", [given[0].receipt]) == ["done"]
    assert broker.nack("g", [Nack(given[1].receipt)]) == ["done"]


def test_who_waits_learns_of_the_pause_and_may_wait_for_its_end(broker, send):
    bodies(broker)
    _, woken = park(broker)
    broker.pause_group("g")
    assert woken
    _, woken = park(broker)
    send("3")
    assert not woken, "what arrives wakes nobody meanwhile"
    broker.resume_group("g")
    assert woken
    assert bodies(broker) == ["3"]


def test_who_waits_for_the_end_of_a_pause_may_leave_and_counts_meanwhile(engine, broker):
    broker.pause_group("g")
    parked, woken = park(broker)
    assert len(broker._delivery.long_polling) == 1
    parked.cancel()
    parked.cancel()
    assert len(broker._delivery.long_polling) == 0
    broker.resume_group("g")
    assert not woken


def test_a_paused_topic_is_left_out_while_the_others_go_on(engine, broker):
    assert broker.pause_group("g", "orders").paused_topics == ("orders",)
    broker = engine.crash()
    assert bodies(broker) == ["2"]
    with pytest.raises(Paused):
        bodies(broker, {"orders": "*"})
    with pytest.raises(Paused):
        broker.pull("orders", 0, 0, group="g")
    assert broker.pull("other", 0, 0, group="g").messages
    broker.resume_group("g", "orders")
    assert bodies(broker) == ["1"]


def test_who_waits_on_both_is_woken_by_the_open_topic_and_by_the_resume(broker, send):
    broker.pause_group("g", "orders")
    bodies(broker)
    _, woken = park(broker)
    send("3")
    assert not woken
    send("4", topic="other")
    assert woken
    assert bodies(broker) == ["4"]
    _, woken = park(broker)
    broker.resume_group("g", "orders")
    assert woken
    assert bodies(broker) == ["1", "3"]


def test_retries_of_a_paused_topic_wait_too(engine, broker):
    given = broker.receive("g", BOTH, count_max=10)
    broker.nack("g", [Nack(each.receipt, delay_s=0) for each in given])
    broker.pause_group("g", "orders")
    assert bodies(broker) == ["2"]
    broker.resume_group("g", "orders")
    assert bodies(broker) == ["1"]


def test_other_groups_do_not_feel_a_pause(broker):
    broker.pause_group("g")
    assert len(broker.receive("h", BOTH, count_max=10)) == 2


def test_pausing_twice_and_resuming_what_runs_change_nothing(broker):
    assert broker.pause_group("g", "orders") == broker.pause_group("g", "orders")
    assert broker.resume_group("g", "orders") == broker.resume_group("g", "orders")
    with pytest.raises(TopicNotFound):
        broker.pause_group("g", "nothing")
