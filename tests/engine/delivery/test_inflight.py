import pytest

from engine.broker import TopicConfig, TopicType
from engine.delivery.group import GroupConfig, Mode
from engine.delivery.values import Nack, Receipt, ReceiptRun
from engine.errors import GroupNotFound, Invalid
from engine.events import Acked


def receipts(deliveries):
    return [delivery.receipt for delivery in deliveries]


def test_an_acknowledged_message_is_done_for_good(broker, send, clock):
    send("a", "b")
    given = broker.receive("g", {"orders": "*"}, count_max=2)
    assert broker.ack("g", receipts(given)) == ["done", "done"]
    clock.advance(100)
    broker.tick()
    assert broker.receive("g", {"orders": "*"}, count_max=2) == []
    assert broker.committed_offset("g", "orders", 0) == 2


def test_acknowledging_twice_is_answered_with_already(broker, send):
    send("a")
    (receipt,) = receipts(broker.receive("g", {"orders": "*"}))
    assert broker.ack("g", [receipt, receipt]) == ["done", "already"]
    assert broker.ack("g", [receipt]) == ["already"]


def test_a_receipt_from_an_earlier_hand_out_is_stale(broker, send, clock):
    send("a")
    (old,) = receipts(broker.receive("g", {"orders": "*"}))
    broker.release("g", [old])
    (new,) = receipts(broker.receive("g", {"orders": "*"}))
    assert broker.ack("g", [old]) == ["stale"]
    assert broker.ack("g", [new]) == ["done"]


def test_a_run_of_receipts_from_an_earlier_hand_out_is_stale(broker, send):
    send("a", "b", "c")
    old = broker.receive("g", {"orders": "*"}, count_max=3)
    broker.release("g", receipts(old))
    new = broker.receive("g", {"orders": "*"}, count_max=2)
    runs = [
        ReceiptRun("orders", 0, range(count), each[0].receipt.serial)
        for each, count in ((old, 2), (new, 3), (new, 2), (new, 2))
    ]
    results = [broker.ack("g", run) for run in runs]
    assert results == [
        ["stale", "stale"],
        ["done", "done", "stale"],
        ["already", "already"],
        ["already", "already"],
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_a_delivery_that_is_done_has_no_deadline(broker, send, count):
    send("a", "b", "c")
    given = receipts(broker.receive("g", {"orders": "*"}, count_max=3))
    deadlines = broker._delivery._deadlines
    assert deadlines.next_ms() is not None
    for start in range(0, 3, count):
        broker.ack("g", given[start : start + count])
    assert deadlines.next_ms() is None


def test_a_delivery_is_found_by_the_end_of_its_invisible_time(broker, send, clock):
    send("a")
    (given,) = broker.receive("g", {"orders": "*"}, invisible_s=1)
    until_ms = given.invisible_until_ms
    assert broker.receipt_until("g", "orders", 0, 0, until_ms) == given.receipt
    for wrong in (("g", "orders", 0, 0, until_ms + 1), ("g", "orders", 0, 1, until_ms)):
        assert broker.ack("g", [broker.receipt_until(*wrong)]) == ["stale"]
    (longer,) = broker.extend("g", [given.receipt], 5)
    assert broker.receipt_until("g", "orders", 0, 0, longer.until_ms) == given.receipt
    assert broker.ack("g", [broker.receipt_until("g", "orders", 0, 0, until_ms)]) == ["stale"]
    assert broker.ack("g", [given.receipt]) == ["done"]
    assert broker.ack("g", [broker.receipt_until("g", "orders", 0, 0, until_ms)]) == ["already"]


def test_an_acknowledgement_that_comes_after_the_time_ran_out_is_stale(broker, send, clock):
    send("a")
    (receipt,) = receipts(broker.receive("g", {"orders": "*"}, invisible_s=1))
    clock.advance(2)
    broker.tick()
    assert broker.ack("g", [receipt]) == ["stale"]
    (again,) = broker.receive("g", {"orders": "*"})
    assert (again.message.body, again.attempt) == (b"a", 2)


def test_receipts_that_name_nothing_are_stale(broker, send):
    send("a")
    broker.receive("g", {"orders": "*"})
    nonsense = [Receipt("orders", 0, 5, 1), Receipt("orders", 9, 0, 1), Receipt("no", 0, 0, 1)]
    assert broker.ack("g", nonsense) == ["stale"] * 3
    assert broker.ack("g", []) == []


def test_receipts_of_several_queues_and_in_any_order_are_taken(broker, send):
    send("a", "b", queue=0)
    send("c", "d", queue=1)
    given = receipts(broker.receive("g", {"orders": "*"}, count_max=4))
    mixed = [given[3], given[0], given[2], given[1]]
    assert broker.ack("g", mixed) == ["done"] * 4
    assert broker.lag("g").count == 0


def test_too_many_receipts_and_unknown_groups_are_refused(broker):
    with pytest.raises(GroupNotFound):
        broker.ack("nobody", [])
    broker.create_group(GroupConfig("g"))
    with pytest.raises(Invalid):
        broker.ack("g", [Receipt("t", 0, 0, 1)] * 4097)


def test_an_extended_message_stays_away_longer_and_keeps_its_receipt(broker, send, clock):
    send("a", "b")
    first, second = receipts(broker.receive("g", {"orders": "*"}, count_max=2, invisible_s=10))
    clock.advance(8)
    (extended,) = broker.extend("g", [first], 10)
    assert (extended.result, extended.until_ms) == ("done", clock.now_ms() + 10_000)
    clock.advance(5)
    broker.tick()
    assert [each.message.body for each in broker.receive("g", {"orders": "*"}, count_max=5)] == [
        b"b"
    ]
    assert broker.ack("g", [first, second]) == ["done", "stale"]


def test_a_renewed_message_has_another_receipt_and_the_old_one_is_stale(broker, send, clock):
    send("a", "b")
    first, second = receipts(broker.receive("g", {"orders": "*"}, count_max=2, invisible_s=10))
    renewed = broker.renew("g", first, 30)
    assert renewed not in (None, first)
    assert broker.renew("g", first, 30) is None
    assert broker.ack("g", [first]) == ["stale"]
    clock.advance(11)  # past the old deadline: only the other one comes back
    broker.tick()
    again = broker.receive("g", {"orders": "*"}, count_max=5, invisible_s=100)
    assert [each.message.body for each in again] == [b"b"]
    assert broker.ack("g", [renewed, second]) == ["done", "stale"]


def test_a_renewed_message_that_runs_out_comes_again_with_its_attempt_counted(broker, send, clock):
    send("a")
    (receipt,) = receipts(broker.receive("g", {"orders": "*"}, invisible_s=10))
    renewed = broker.renew("g", receipt, 1)
    clock.advance(2)
    broker.tick()
    (again,) = broker.receive("g", {"orders": "*"})
    assert again.attempt == 2
    assert again.receipt.serial > renewed.serial > receipt.serial
    assert broker.ack("g", [receipt, renewed]) == ["stale", "stale"]


def test_time_can_be_cut_short_too(broker, send, clock):
    send("a")
    (receipt,) = receipts(broker.receive("g", {"orders": "*"}, invisible_s=1000))
    broker.extend("g", [receipt], 1)
    clock.advance(1)
    broker.tick()
    assert broker.receive("g", {"orders": "*"})


def test_a_stale_receipt_gets_no_more_time(broker, send):
    send("a")
    (receipt,) = receipts(broker.receive("g", {"orders": "*"}))
    broker.ack("g", [receipt])
    (extended,) = broker.extend("g", [receipt], 10)
    assert (extended.result, extended.until_ms) == ("already", 0)


def test_a_released_message_comes_back_at_once_and_first_as_the_same_attempt(broker, send):
    send("a", "b", "c")
    first, _ = broker.receive("g", {"orders": "*"}, count_max=2)
    assert broker.release("g", [first.receipt]) == ["done"]
    again, following = broker.receive("g", {"orders": "*"}, count_max=2)
    assert (again.message.body, again.attempt) == (b"a", 1)
    assert following.message.body == b"c"
    assert again.receipt.serial > first.receipt.serial


def test_a_client_finds_out_what_it_still_holds(broker, send):
    send("a", "b", "c")
    mine = receipts(broker.receive("g", {"orders": "*"}, count_max=2, client="me"))
    broker.receive("g", {"orders": "*"}, client="other")
    broker.ack("g", [mine[0]])
    assert broker.held("g", "me") == [mine[1]]
    assert broker.held("g", "nobody") == []


def test_acknowledgements_are_told_as_one_event_for_a_queue(broker, send):
    heard = []
    send("a", "b")
    broker.events.subscribe(heard.append)
    broker.ack("g", receipts(broker.receive("g", {"orders": "*"}, count_max=2)))
    assert [event.offsets for event in heard if isinstance(event, Acked)] == [(0, 1)]


HUGE = (2**31, 2**63 - 1, 2**63, 2**64, 10**40)


def hostile_receipts():
    places = [("orders", 0, 0), ("orders", 0, 1), ("orders", 9, 0), ("no", 0, 0), ("", -1, -1)]
    places += [("orders", 0, number) for number in (-1, *HUGE)]
    places += [("orders", number, 0) for number in (-1, *HUGE)]
    serials = (0, 1, -1, *HUGE)
    return [Receipt(*place, serial) for place in places for serial in serials]


def verbs(broker, group="g"):
    yield lambda each: broker.ack(group, [each])
    yield lambda each: broker.release(group, [each])
    yield lambda each: [answer.result for answer in broker.extend(group, [each], 30)]
    yield lambda each: broker.nack(group, [Nack(each)])
    yield lambda each: broker.nack(group, [Nack(each, delay_level=-1)])
    yield lambda each: ["stale"] * (broker.renew(group, each, 30) is None)


def test_no_receipt_is_current_for_a_message_that_is_ready(engine, broker, send):
    """With the serial 0 it was: the change was journalled, and no start could apply it."""
    send("a", "b")
    given = receipts(broker.receive("g", {"orders": "*"}, count_max=2))
    broker.ack("g", given[1:])
    broker.release("g", given[:1])
    for verb in verbs(broker):
        assert verb(Receipt("orders", 0, 0, 0)) == ["stale"]
        for receipt in hostile_receipts():
            assert set(verb(receipt)) <= {"stale", "already"}, receipt
    again = engine.crash()
    (delivery,) = again.receive("g", {"orders": "*"}, count_max=9)
    assert (delivery.message.body, delivery.attempt) == (b"a", 1)
    assert not again.health().damages


def test_no_receipt_is_current_for_a_message_that_waits_at_its_place(engine, broker, send, clock):
    broker.create_topic(TopicConfig("orders", type=TopicType.FIFO, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))
    send("a", "b", message_group="lane")
    (given,) = broker.receive("g", {"orders": "*"}, count_max=2)
    assert broker.nack("g", [Nack(given.receipt)]) == ["done"]
    for verb in verbs(broker):
        for receipt in (given.receipt, *hostile_receipts()):
            assert verb(receipt) == ["stale"], receipt
    again = engine.crash()
    clock.advance(20)
    again.tick()
    (delivery,) = again.receive("g", {"orders": "*"}, count_max=9)
    assert (delivery.message.body, delivery.attempt) == (b"a", 2)


def test_no_receipt_is_current_for_a_message_that_a_broadcast_client_gave_back(
    engine, broker, send
):
    broker.create_group(GroupConfig("g", mode=Mode.BROADCAST))
    send("a")
    (given,) = broker.receive("g", {"orders": "*"}, client="c")
    broker.release("g", [given.receipt])
    for verb in verbs(broker):
        for receipt in hostile_receipts():
            assert verb(receipt) == ["stale"], receipt
    again = engine.crash()
    assert [each.attempt for each in again.receive("g", {"orders": "*"}, client="c")] == [1]


def test_a_receipt_before_the_first_message_or_without_a_serial_was_never_done(broker, send):
    send("a")
    broker.ack("g", receipts(broker.receive("g", {"orders": "*"})))
    odd = [Receipt("orders", 0, -1, 7), Receipt("orders", 0, 0, 0), Receipt("orders", 0, 0, -5)]
    assert broker.ack("g", odd) == ["stale"] * 3
