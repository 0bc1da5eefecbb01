import random
import sys

import pytest

from engine.broker import TransactionDecision, TransactionState
from engine.errors import DiskFull
from engine.events import Checked, CheckGivenUp
from engine.message import Message
from engine.txn.pending_transactions import PendingTransactions

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.fixture
def asked(txn):
    """Checks as a live producer gets them."""
    asked = []
    txn.askers.append(lambda check: asked.append(check) or True)
    return asked


def seconds_of(engine, asked, limit_s, step_s=0.5):
    """When, from now on, checks were asked."""
    found, start = [], engine.clock.monotonic_s()
    while engine.clock.monotonic_s() - start < limit_s:
        before = len(asked)
        engine.tick(step_s)
        found += [engine.clock.monotonic_s() - start] * (len(asked) - before)
    return found


def test_a_producer_is_asked_after_6_s_every_30_s_15_times_and_then_it_is_given_up(
    engine, broker, txn, half, asked, heard
):
    """Item 20: 15 checks, then TRANS_CHECK_MAX_TIME_TOPIC."""
    name = half("a")
    assert seconds_of(engine, asked, 600) == [6 + 30 * number for number in range(15)]
    assert [check.number for check in asked] == list(range(1, 16))
    checked = [event for event in heard if isinstance(event, Checked)]
    assert [(event.number, event.is_asked) for event in checked] == [
        (n, True) for n in range(1, 16)
    ]
    (given_up,) = [event for event in heard if isinstance(event, CheckGivenUp)]
    assert (given_up.message_id, given_up.checks) == (name, 15)
    (kept,) = broker.pull(GIVEN_UP, 0, 0).messages
    assert (kept.message_id, kept.body) == (name, b"a")
    assert kept.properties["TRANSACTION_CHECK_TIMES"] == "15"
    assert txn.get(name).state is TransactionState.GIVEN_UP
    assert [message.body for message in broker.pull("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 0).messages]


def test_a_commit_with_the_old_handle_after_a_check_delivers_once(
    engine, broker, txn, half, asked, bodies
):
    """Item 20, but for the duplicate: the check makes no copy, so there is one handle."""
    half("a")
    (waiting,) = broker.pull(HALF, 0, 0).messages
    engine.tick(6)
    (check,) = asked
    assert (check.message.topic, check.message.queue, check.message.body) == ("t", 0, b"a")
    txn.commit(waiting.offset_id)
    txn.commit(check.transaction_id)
    assert txn.get(check.transaction_id).state is TransactionState.COMMITTED
    assert bodies() == ["a"]
    assert broker.topic_stats(HALF).messages == 1


def test_decided_transactions_are_not_checked(engine, txn, half, asked):
    first, second = half("a", "b")
    txn.commit(first)
    txn.rollback(second)
    engine.tick(100)
    assert asked == []


def test_unknown_as_an_answer_is_asked_again(engine, txn, half, asked, bodies):
    half("a")
    engine.tick(6)
    txn.decide(asked[0].transaction_id, TransactionDecision.UNKNOWN)
    engine.tick(29)
    assert len(asked) == 1
    engine.tick(1)
    txn.decide(asked[1].transaction_id, TransactionDecision.COMMIT)
    assert bodies() == ["a"]


def test_a_message_may_ask_for_a_later_first_check(engine, txn, half, asked):
    half("a", check_immunity_s=60)
    half("b")
    assert seconds_of(engine, asked, 70) == [6, 36, 60, 66]
    assert [check.message.body for check in asked] == [b"b", b"b", b"a", b"b"]


def test_checks_go_by_the_time_of_storing_not_by_the_producers_clock(engine, txn, half, asked):
    half("a", born_ms=engine.clock.now_ms() - 10**9)
    half("b", born_ms=engine.clock.now_ms() + 10**9)
    assert seconds_of(engine, asked, 10) == [6, 6]


def test_a_calendar_that_is_set_back_or_forward_does_not_move_a_check(
    engine, txn, half, asked, clock
):
    half("a")
    clock.set_ms(clock.now_ms() - 3_600_000)
    half("b")
    assert txn.pending().items[0].next_check_ms == clock.now_ms() + 6000
    clock.set_ms(clock.now_ms() + 7_200_000)
    half("c")
    assert seconds_of(engine, asked, 10) == [6, 6, 6]


def test_checks_and_their_number_survive_a_crash(engine, half, txn, asked):
    half("a")
    engine.tick(6)
    engine.tick(10)
    engine.crash()
    txn = engine.broker.transactions
    txn.askers.append(lambda check: asked.append(check) or True)
    assert seconds_of(engine, asked, 25) == [20]
    assert asked[-1].number == 2
    engine.broker._store.journal.compact()
    engine.crash()
    assert engine.broker.transactions.pending().items[0].checks == 2


def test_what_was_due_while_nobody_was_there_is_checked_at_once(engine, half, txn, asked):
    half("a")
    engine.broker.stop()
    engine.clock.advance(3600)
    txn = engine.start().transactions
    txn.askers.append(lambda check: asked.append(check) or True)
    engine.tick()
    assert len(asked) == 1


def test_the_first_who_can_is_asked(engine, txn, half):
    calls = []
    txn.askers.append(lambda check: calls.append("none") or False)
    txn.askers.append(lambda check: calls.append("first") or True)
    txn.askers.append(lambda check: calls.append("second") or True)
    half("a")
    engine.tick(6)
    assert calls == ["none", "first"]


def test_what_nobody_was_asked_for_can_be_polled_and_is_leased_for_an_interval(
    engine, txn, half, bodies
):
    ids = half("a", "b")
    half("x", group="other")
    assert txn.checks("g") == []
    engine.tick(6)
    engine.tick(20)
    (first,) = txn.checks("g", 1)
    (second,) = txn.checks("g", 32)
    assert [first.transaction_id, second.transaction_id] == ids
    assert (first.number, first.producer_group) == (1, "g")
    assert txn.checks("g") == []
    engine.tick(29)
    assert txn.checks("g") == []
    assert [check.number for check in txn.checks("other")] == [2]
    txn.commit(first.transaction_id)
    engine.tick(1)
    (again,) = txn.checks("g")
    assert (again.transaction_id, again.number) == (second.transaction_id, 2)
    txn.rollback(again.transaction_id)
    engine.tick(60)
    assert txn.checks("g") == []
    assert bodies() == ["a"]


def test_a_live_producer_that_comes_back_takes_the_check_from_the_pollers(engine, txn, half):
    half("a")
    engine.tick(6)
    asked = []
    txn.askers.append(lambda check: asked.append(check) or True)
    engine.tick(30)
    assert len(asked) == 1
    assert txn.checks("g") == []


@pytest.mark.parametrize("seed", range(4))
def test_whatever_way_checks_are_taken_each_is_decided_once(engine, txn, half, bodies, seed):
    chance = random.Random(seed)
    is_there = [True]
    asked = []
    txn.askers.append(lambda check: is_there[0] and (asked.append(check) or True))
    expected = []
    for number in range(150):
        half(str(number), group=chance.choice("gh"))
        expected.append(str(number))
        engine.tick(chance.choice([0, 0.1, 7]))
        is_there[0] = chance.random() < 0.5
        taken = [*asked, *txn.checks(chance.choice("gh"), chance.randint(1, 9))]
        asked.clear()
        for check in taken:
            if chance.random() < 0.5:
                txn.commit(check.transaction_id)
    is_there[0] = True
    for _ in range(3):
        engine.tick(30)
        for check in asked:
            txn.commit(check.transaction_id)
        asked.clear()
    assert sorted(bodies()) == sorted(expected)
    assert txn.count == 0


def test_a_tick_begins_a_bounded_number_and_leaves_room_before_the_next(
    engine, txn, half, asked, clock
):
    half(*["x"] * 60)
    clock.advance(6)
    checker = txn.services()[0]
    assert checker.tick() == pytest.approx(0.005)
    assert len(asked) == 25
    checker.tick()
    checker.tick()
    assert len(asked) == 60
    assert checker.tick() > 1


def test_large_half_messages_are_read_and_given_up_in_bounded_portions(
    engine, broker, txn, half, asked
):
    for _ in range(3):
        half("x" * 3_000_000)
    for _ in range(20):
        for _ in range(4):
            engine.tick(8)
    assert len(asked) == 45
    assert broker.topic_stats(GIVEN_UP).messages == 3


def test_an_earlier_check_wakes_the_service(engine, txn, half):
    engine.tick()
    checker = txn.services()[0]
    woken = []
    checker.on_wake = lambda: woken.append(1)
    half("a")
    half("b")
    assert len(woken) == 1


def test_a_damaged_half_message_is_dropped(engine, broker, txn, half, asked):
    half("a", "b")
    position = broker.pull(HALF, 0, 0).messages[0].position
    with (engine.root / "commitlog" / ("0" * 20)).open("r+b") as file:
        file.seek(position)
        file.write(b"\xff" * 40)
    engine.tick(6)
    assert [check.message.body for check in asked] == [b"b"]
    assert txn.count == 1


def test_while_the_disk_refuses_writes_no_check_begins(
    engine, broker, txn, half, asked, clock, monkeypatch
):
    half("a")
    clock.advance(6)

    def refuse(*_, **__):
        raise DiskFull("no room")

    checker = txn.services()[0]
    with monkeypatch.context() as full:
        full.setattr(broker._store.journal, "append", refuse)
        with pytest.raises(DiskFull):
            checker.tick()
    assert asked == []
    checker.tick()
    assert [check.number for check in asked] == [1]


def test_a_poll_that_the_disk_refuses_takes_nothing(engine, broker, txn, half, monkeypatch):
    ids = half("a", "b")
    engine.tick(6)

    def refuse(*_, **__):
        raise DiskFull("no room")

    with monkeypatch.context() as full:
        full.setattr(broker._store.journal, "append", refuse)
        with pytest.raises(DiskFull):
            txn.checks("g")
    assert [check.transaction_id for check in txn.checks("g")] == ids


def test_an_undecided_transaction_costs_about_thirty_bytes(engine, broker, txn):
    """A million of them are some 30 MB, whatever their messages hold."""
    count = 20_000
    for _ in range(count // 1000):
        broker.send([Message("t", b"x" * 50, transaction_group="g")] * 1000)
    board: PendingTransactions = txn._board
    agenda, checks = board._agenda, board._checks
    columns = [*agenda._dues, *agenda._offsets, checks._dues, checks._counts, checks._waits]
    size_bytes = sum(map(sys.getsizeof, columns)) + len(board._stretches[0].marks)
    assert txn.count == count
    assert size_bytes / count < 48
