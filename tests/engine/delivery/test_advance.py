"""What a classic client's commit does to a group: a queue's place moves forward."""

import pytest

from engine.errors import Invalid, MessageNotFound, QueueNotFound


def take(broker, **arguments):
    return broker.receive("g", {"orders": "*"}, **{"count_max": 10, **arguments})


def test_advancing_leaves_what_lies_behind_with_its_clients(engine, broker, send):
    send("a", "b", "c")
    first, second, third = take(broker)
    assert broker.advance_offset("g", "orders", 0, 2)
    assert broker.committed_offset("g", "orders", 0) == 2
    assert broker.ack("g", [first.receipt, second.receipt]) == ["already"] * 2
    broker = engine.restart()
    assert broker.lag("g").inflight == 1
    assert broker.ack("g", [third.receipt]) == ["done"]
    assert broker.lag("g").count == 0


def test_advancing_past_the_cursor_moves_it(engine, broker, send):
    send("a", "b", "c")
    broker.advance_offset("g", "orders", 0, 1)
    broker.advance_offset("g", "orders", 0, 2)
    assert [each.message.body for each in take(broker)] == [b"c"]
    assert engine.restart().committed_offset("g", "orders", 0) == 2


def test_an_earlier_offset_sets_the_group_back(broker, send):
    send("a", "b", "c")
    given = take(broker)
    broker.advance_offset("g", "orders", 0, 3)
    broker.advance_offset("g", "orders", 0, 1)
    assert [each.message.body for each in take(broker)] == [b"b", b"c"]
    assert broker.ack("g", [given[2].receipt]) == ["stale"]


def test_a_message_that_failed_and_waits_is_done_once_it_is_passed(broker, send, clock):
    send("a", "b")
    take(broker, invisible_s=10)
    broker.advance_offset("g", "orders", 0, 1)
    clock.advance(11)
    broker.tick()
    assert broker.lag("g").retry_waiting + broker.lag("g").dead <= 1, "b at most"


def test_a_repeated_commit_writes_nothing(broker, send, monkeypatch):
    send("a", "b")
    broker.advance_offset("g", "orders", 0, 1)
    written = []
    monkeypatch.setattr(
        broker._delivery.progress_store, "write", lambda change, **how: written.append(change)
    )
    assert broker.advance_offset("g", "orders", 0, 1)
    assert written == []


@pytest.mark.parametrize("offset", [-1, 1 << 63])
def test_what_is_no_offset_is_refused(broker, send, offset):
    send("a")
    with pytest.raises(Invalid, match="offset is"):
        broker.advance_offset("g", "orders", 0, offset)


def test_a_queue_that_there_is_not_is_refused(broker, send):
    send("a")
    with pytest.raises(QueueNotFound):
        broker.advance_offset("g", "orders", 99, 0)


@pytest.mark.parametrize("position", [-1, 1, 1 << 40])
def test_no_message_lies_at_other_positions_than_those_of_records(broker, send, position):
    send("a")
    assert broker.message_at(0).body == b"a"
    with pytest.raises(MessageNotFound):
        broker.message_at(position)
