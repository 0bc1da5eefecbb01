"""Queue locks of orderly pulling consumers; items 12, 13 and 14 of the reference's section 15."""

import pytest

from engine.delivery.group import GroupConfig
from engine.delivery.locks import LOCKS_MAX, LockedQueue
from engine.errors import Busy, GroupNotFound, Invalid, QueueNotFound, TopicNotFound
from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType

ORDERS = [LockedQueue("orders", number) for number in range(4)]


@pytest.fixture(autouse=True)
def _orders(broker):
    broker.create_topic(TopicConfig("orders", read_queues=4, write_queues=4))


def lock(broker, client, queues=ORDERS, group="g"):
    return broker.locks.lock(group, client, queues).locked


def bodies(broker, topic):
    return [each.body for each in broker.pull(topic, 0, 0).messages]


def test_a_queue_is_one_clients_for_60_s_and_anothers_after(engine, broker):
    """Item 14: B fails before 60 s without a renewal by A, and gets it after."""
    assert lock(broker, "a", ORDERS[:2]) == ORDERS[:2]
    assert lock(broker, "b") == ORDERS[2:]
    engine.tick(59.9)
    assert lock(broker, "b", ORDERS[:1]) == []
    engine.tick(0.1)
    assert lock(broker, "b", ORDERS[:1]) == ORDERS[:1]
    assert lock(broker, "a", ORDERS[:2]) == ORDERS[1:2]


def test_a_client_that_locks_again_keeps_its_queues(engine, broker):
    lock(broker, "a")
    for _ in range(10):
        engine.tick(20)
        assert lock(broker, "a") == ORDERS
        assert lock(broker, "b") == []


def test_a_client_may_read_for_half_of_the_lease(broker, clock):
    """Item 14: A must have stopped at 30 s; the answer tells it so."""
    answer = broker.locks.lock("g", "a", ORDERS)
    assert answer.lease_s == 60
    assert answer.read_until_ms == clock.now_ms() + 30_000


def test_groups_do_not_lock_each_other_out(broker):
    assert lock(broker, "a") == lock(broker, "a", group="h") == ORDERS


def test_who_unlocks_frees_what_is_its_own_only(broker):
    lock(broker, "a", ORDERS[:1])
    lock(broker, "b", ORDERS[1:2])
    assert broker.locks.unlock("g", "a", ORDERS) == ORDERS[:1]
    assert broker.locks.unlock("g", "a", ORDERS) == []
    assert [each.client for each in broker.locks.of("g")] == ["b"]
    assert lock(broker, "c", ORDERS[:2]) == ORDERS[:1]


def test_locks_are_listed_until_they_run_out(engine, broker, clock):
    lock(broker, "a", ORDERS[:1])
    engine.tick(20)
    lock(broker, "b", ORDERS[1:2])
    first, second = broker.locks.of("g")
    assert (first.topic, first.queue, first.client) == ("orders", 0, "a")
    assert (first.until_ms - clock.now_ms(), second.until_ms - clock.now_ms()) == (40_000, 60_000)
    engine.tick(40)
    assert [each.client for each in broker.locks.of("g")] == ["b"]


def test_locks_outlive_a_kill_and_a_snapshot_with_the_rest_of_their_lease(engine, broker, clock):
    lock(broker, "a", ORDERS[:2])
    engine.tick(20)
    broker.locks.unlock("g", "a", ORDERS[1:2])
    lock(broker, "b", ORDERS[2:3])
    before = broker.locks.of("g")
    assert engine.crash().locks.of("g") == before
    engine.broker._store.journal.compact()
    broker = engine.crash()
    assert broker.locks.of("g") == before
    assert lock(broker, "c") == [ORDERS[1], ORDERS[3]]
    engine.tick(40)
    assert lock(broker, "c", ORDERS[:1]) == ORDERS[:1]


def test_setting_the_calendar_changes_no_lease(engine, broker, clock):
    lock(broker, "a")
    clock.set_ms(clock.now_ms() - 3_600_000)
    engine.tick(59)
    assert lock(broker, "b") == []
    engine.tick(1)
    assert lock(broker, "b") == ORDERS


def test_no_lease_is_longer_than_a_new_one_after_a_restart_with_the_calendar_set_back(
    engine, broker, clock
):
    lock(broker, "a")
    clock.set_ms(clock.now_ms() - 3_600_000)
    broker = engine.crash()
    engine.tick(60)
    assert lock(broker, "b") == ORDERS


def test_a_member_that_leaves_frees_its_queues_at_once(broker):
    broker.members.heartbeat("g", "a")
    lock(broker, "a")
    broker.members.leave("g", "a")
    assert lock(broker, "b") == ORDERS


def test_a_deleted_group_holds_nothing(engine, broker):
    lock(broker, "a")
    broker.delete_group("g")
    assert lock(broker, "b") == ORDERS
    assert [each.client for each in engine.crash().locks.of("g")] == ["b"] * 4


def test_the_lease_is_a_setting(engine):
    engine.close()
    broker = engine.start(queue_lock_lease_s=5)
    assert broker.locks.lock("g", "a", ORDERS).lease_s == 5
    engine.tick(5)
    assert lock(broker, "b") == ORDERS


def test_what_cannot_be_locked_is_named_and_nothing_is_locked(broker):
    for queues, error, field in (
        ([*ORDERS, LockedQueue("orders", 4)], QueueNotFound, "queues[4].queue"),
        ([*ORDERS, LockedQueue("nothing", 0)], TopicNotFound, "topic"),
        ([], Invalid, "queues"),
        (ORDERS * 257, Invalid, "queues"),
    ):
        with pytest.raises(error) as refusal:
            broker.locks.lock("g", "a", queues)
        assert refusal.value.field == field
    with pytest.raises(Invalid) as refusal:
        broker.locks.lock("g", "", ORDERS)
    assert refusal.value.field == "client"
    with pytest.raises(GroupNotFound):
        broker.locks.of("nobody")
    broker.members.heartbeat("g", "a")
    assert broker.locks.of("g") == []


def test_the_number_of_locks_is_bounded_and_renewals_go_on(broker, monkeypatch):
    lock(broker, "a", ORDERS[:2])
    monkeypatch.setattr("engine.delivery.locks.LOCKS_MAX", 2)
    with pytest.raises(Busy):
        lock(broker, "a", ORDERS[2:])
    assert lock(broker, "a", ORDERS[:2]) == ORDERS[:2]
    assert LOCKS_MAX == 100_000


def test_a_lock_that_the_disk_refuses_is_not_given(engine, broker, monkeypatch):
    monkeypatch.setattr(broker._store.journal, "append", refuse)
    with pytest.raises(Busy):
        lock(broker, "a")
    monkeypatch.undo()
    assert broker.locks.lock("g", "b", ORDERS).locked == ORDERS


def refuse(*_, **__):
    raise Busy("no room")


# -- item 12 -----------------------------------------------------------------------------------


def test_while_a_queue_is_locked_what_is_sent_to_the_retry_topic_is_a_dead_letter(engine, broker):
    """Item 12: reconsumeTimes 0 goes to %DLQ%; 60 s after the last renewal to the retry topic."""
    lock(broker, "a", ORDERS[:1])
    broker.send([Message("%RETRY%g", b"given up")])
    broker.send([Message("%RETRY%g", b"given up later", delay_level=3)])
    assert bodies(broker, "%DLQ%g") == [b"given up", b"given up later"]
    engine.tick(60)
    broker.send([Message("%RETRY%g", b"retried")])
    assert bodies(broker, "%RETRY%g") == [b"retried"]
    assert len(bodies(broker, "%DLQ%g")) == 2


def test_retries_of_the_engines_own_making_pass_a_lock_by(engine, broker, send):
    send("a", "b")
    lock(broker, "a", ORDERS[:1])
    broker.send_back("g", "orders", 0, 0)
    broker.send_back("g", "orders", 0, 1, delay_level=1)
    engine.tick(10)
    assert bodies(broker, "%RETRY%g") == [b"b", b"a"]


# -- item 13 -----------------------------------------------------------------------------------


def test_the_broker_counts_no_attempts_of_an_orderly_puller_and_its_queue_stands(
    engine, broker, send
):
    """Item 13: the counter is in the consumer; until it commits, message 2 is not before 1."""
    send("1", "2")
    for _ in range(3):
        first = broker.pull("orders", 0, 0, count_max=1, group="g").messages[0]
        assert (first.body, first.attempt) == (b"1", 1)
    broker.commit_offset("g", "orders", 0, 0)
    broker = engine.crash()
    offset = broker.committed_offset("g", "orders", 0)
    (again,) = broker.pull("orders", 0, offset, count_max=1, group="g").messages
    assert (again.body, again.attempt) == (b"1", 1), "no memory of what failed before"


def test_a_receive_in_order_counts_attempts_over_a_restart(engine, broker):
    """Where RocketMQ forgets (item 13), receiving from a FIFO topic does not."""
    broker.create_topic(TopicConfig("steps", TopicType.FIFO))
    broker.create_group(GroupConfig("g", ordered=True))
    broker.send([Message("steps", body, message_group="m") for body in (b"1", b"2")])
    for attempt in (1, 2, 3):
        (given,) = broker.receive("g", {"steps": "*"}, count_max=2, invisible_s=1)
        assert (given.message.body, given.attempt) == (b"1", attempt)
        engine.tick(1)
    broker = engine.crash()
    (given,) = broker.receive("g", {"steps": "*"}, count_max=2)
    assert (given.message.body, given.attempt) == (b"1", 4)
