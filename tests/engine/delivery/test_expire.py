import pytest

from engine.delivery.deadlines import SWEEP_ITEMS_MIN, Deadlines
from engine.delivery.message_state import InFlightState, MessageState
from engine.delivery.queue_progress import OffsetBatch, QueueProgress
from engine.delivery.values import Nack
from engine.errors import DiskFull


def refuse(*_):
    raise DiskFull("no room", retry_after_s=1)


def test_a_hand_out_that_expires_is_delivered_again(engine, broker, send):
    send("a")
    (first,) = broker.receive("g", {"orders": "*"}, invisible_s=30)
    engine.tick(29.9)
    assert broker.receive("g", {"orders": "*"}) == []
    engine.tick(0.1)
    (again,) = broker.receive("g", {"orders": "*"}, invisible_s=30)
    assert again.message.body == b"a"
    assert again.attempt == first.attempt + 1
    assert again.message.message_id == first.message.message_id


def test_a_message_that_keeps_expiring_ends_as_a_dead_letter(engine, broker, send):
    send("a")
    for attempt in range(1, 18):
        (delivery,) = broker.receive("g", {"orders": "*"}, invisible_s=1)
        assert delivery.attempt == attempt
        engine.tick(1)
    assert broker.receive("g", {"orders": "*"}) == []
    assert broker.lag("g").dead == 1


def test_the_tick_says_when_the_next_deadline_is(broker, send, clock):
    expirer = broker._desk.services()[0]
    send("a", "b")
    broker.receive("g", {"orders": "*"}, invisible_s=3)
    assert expirer.tick() == 3
    broker.receive("g", {"orders": "*"}, invisible_s=2)
    assert expirer.tick() == 2


def test_an_earlier_deadline_wakes_the_service(engine, broker, send):
    send("a", "b")
    broker.receive("g", {"orders": "*"}, invisible_s=60)
    engine.tick()
    broker.receive("g", {"orders": "*"}, invisible_s=0.01)
    engine.tick(0.01)
    assert len(broker.receive("g", {"orders": "*"})) == 1


def test_thousands_of_expiries_take_several_ticks_and_none_is_missed(engine, broker, send):
    send(*["x"] * 1200)
    for _ in range(2):
        broker.receive("g", {"orders": "*"}, count_max=600, invisible_s=1)
    expirer = broker._desk.services()[0]
    engine.clock.advance(1)
    assert expirer.tick() == 0
    assert broker.lag("g").inflight == 700
    engine.tick()
    assert broker.lag("g").inflight == 0
    assert len(broker.receive("g", {"orders": "*"}, count_max=1024)) == 1024


def test_while_the_log_refuses_writes_nothing_expires_and_nothing_is_lost(
    engine, broker, send, monkeypatch
):
    send("a", "b")
    given = broker.receive("g", {"orders": "*"}, count_max=2, invisible_s=1)
    with monkeypatch.context() as full:
        full.setattr(broker._store._log, "append", refuse)
        engine.tick(5)
        assert broker.lag("g").inflight == 2
        assert broker.ack("g", [given[0].receipt]) == ["done"], "its receipt is still current"
    engine.tick(1)
    (again,) = broker.receive("g", {"orders": "*"}, count_max=5)
    assert (again.message.body, again.attempt) == (b"b", 2)


def test_a_failure_reported_while_the_log_refuses_writes_changes_nothing(
    engine, broker, send, monkeypatch
):
    send("a")
    (delivery,) = broker.receive("g", {"orders": "*"})
    with monkeypatch.context() as full:
        full.setattr(broker._store._log, "append", refuse)
        with pytest.raises(DiskFull):
            broker.nack("g", [Nack(delivery.receipt)])
    assert broker.nack("g", [Nack(delivery.receipt)]) == ["done"]


def test_done_hand_outs_are_swept_from_the_heap():
    deadlines, progress = Deadlines(), QueueProgress("g", "t", 0)
    for number in range(10 * SWEEP_ITEMS_MIN):
        slot = InFlightState(MessageState.INFLIGHT, number + 1, 1_000_000 + number, open=1)
        progress.slots[number] = slot
        deadlines.add(progress, OffsetBatch(slot, [number]))
        if number % 100:
            del progress.slots[number]
            slot.open = 0
    assert len(deadlines) <= 2 * SWEEP_ITEMS_MIN
    due = deadlines.take_due(2_000_000, 10_000)
    assert [offset for _, batch in due for offset in batch.offsets] == list(range(0, 10240, 100))


def test_a_batch_larger_than_asked_for_is_taken_in_parts():
    deadlines, progress = Deadlines(), QueueProgress("g", "t", 0)
    slot = InFlightState(MessageState.INFLIGHT, 1, 5, open=10)
    progress.slots.update(dict.fromkeys(range(10), slot))
    deadlines.add(progress, OffsetBatch(slot, range(10)))
    assert deadlines.take_due(4, 100) == []
    (first,) = deadlines.take_due(5, 4)
    assert list(first.batch.offsets) == [0, 1, 2, 3]
    (rest,) = deadlines.take_due(5, 100)
    assert list(rest.batch.offsets) == [4, 5, 6, 7, 8, 9]
    assert deadlines.take_due(5, 100) == []
