"""Moving a group: the preview is true, the step is one, and it can be taken back."""

import pytest

from engine.broker import (
    GroupConfig,
    OffsetsMoved,
    PullAnswer,
    PullStatus,
    ResetNote,
    ResetTarget,
    ResetTo,
    StartAt,
)
from engine.delivery import reset_plan as resets_module
from engine.delivery.changes import Reset
from engine.delivery.reset_history import QUEUES_KEPT_MAX, RESETS_KEPT_MAX, ResetHistory
from engine.delivery.values import Nack
from engine.errors import (
    Conflict,
    DiskFull,
    GroupNotFound,
    Invalid,
    NotFound,
    QueueNotFound,
    Refused,
    TopicNotFound,
)
from engine.events import OffsetsReset
from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType

EARLIEST, LATEST = ResetTarget(ResetTo.EARLIEST), ResetTarget(ResetTo.LATEST)


def at(offset):
    return ResetTarget(ResetTo.OFFSET, offset)


def take(broker, count_max=10, topic="orders", group="g", **arguments):
    return broker.receive(group, {topic: "*"}, count_max=count_max, **arguments)


def bodies(deliveries):
    return [each.message.body for each in deliveries]


def consume(broker, count, **arguments):
    given = take(broker, count, **arguments)
    broker.ack(arguments.get("group", "g"), [each.receipt for each in given])
    return given


def move(broker, target, topics=("orders",), group="g", **arguments):
    """Look, then apply with the precondition that was shown."""
    plan = broker.resets.plan(group, topics, target, **arguments)
    return broker.resets.apply(plan, precondition=plan.preview().precondition)


def seen(broker, target, topics=("orders",), group="g", queue=0, **arguments):
    """What the preview says of one queue."""
    preview = broker.resets.plan(group, topics, target, **arguments).preview()
    (found,) = [each for each in preview.queues if each.queue == queue]
    return found


# -- where to ---------------------------------------------------------------------------------


def test_to_earliest_reads_all_again_and_to_latest_reads_only_what_comes(broker, send):
    send("a", "b", "c")
    consume(broker, 2)
    move(broker, EARLIEST)
    assert bodies(take(broker)) == [b"a", b"b", b"c"]
    move(broker, LATEST)
    send("d")
    assert bodies(take(broker)) == [b"d"]


def test_to_a_time_goes_on_at_the_first_message_stored_then_or_later(broker, send, clock):
    started_ms = clock.now_ms()
    for body in "abc":
        send(body)
        clock.advance(10)
    consume(broker, 3)
    for offset_ms, target in ((0, 0), (1, 1), (10_000, 1), (10_001, 2), (20_000, 2)):
        found = seen(broker, ResetTarget(ResetTo.TIME, started_ms + offset_ms))
        assert (found.target, found.note) == (target, ResetNote.NONE)
    late = seen(broker, ResetTarget(ResetTo.TIME, started_ms + 20_001))
    assert (late.target, late.note, late.target_stored_ms) == (3, ResetNote.PAST_END, None)
    move(broker, ResetTarget(ResetTo.TIME, started_ms + 5000))
    assert bodies(take(broker)) == [b"b", b"c"]


def test_a_shift_counts_from_the_committed_offset(broker, send):
    send(*"abcdef")
    consume(broker, 3)
    assert seen(broker, ResetTarget(ResetTo.SHIFT, -2)).target == 1
    assert seen(broker, ResetTarget(ResetTo.SHIFT, 2)).target == 5
    back = seen(broker, ResetTarget(ResetTo.SHIFT, -9))
    assert (back.target, back.note) == (0, ResetNote.BEFORE_OLDEST)
    ahead = seen(broker, ResetTarget(ResetTo.SHIFT, 9))
    assert (ahead.target, ahead.note) == (6, ResetNote.PAST_END)


def test_a_group_is_put_where_another_one_is(broker, send):
    send(*"abcd")
    consume(broker, 3, group="ahead")
    consume(broker, 1)
    move(broker, ResetTarget(ResetTo.GROUP, group="ahead"))
    assert broker.committed_offset("g", "orders", 0) == 3


def test_a_queue_without_a_place_to_copy_stays_and_says_so(broker, send):
    send(*"abcd")
    consume(broker, 2)
    broker.create_group(GroupConfig("fresh"))
    target = ResetTarget(ResetTo.GROUP, group="fresh")
    found = seen(broker, target)
    assert (found.moves, found.note, found.target) == (False, ResetNote.NO_PLACE, 2)
    with pytest.raises(Refused):
        broker.resets.apply(broker.resets.plan("g", ["orders"], target), force=True)
    assert broker.committed_offset("g", "orders", 0) == 2


def test_an_offset_outside_the_queue_is_brought_to_its_nearer_end(engine):
    broker = engine.start(segment_bytes=4096)
    for _ in range(30):
        broker.send([Message("orders", b"x" * 300, queue=0)])
    engine.tick(5)
    broker._store.expire(broker._store.written)
    first, end = broker._store.bounds("orders", 0)
    assert first > 0
    broker.create_group(GroupConfig("g"))
    low, high = seen(broker, at(0)), seen(broker, at(end + 5))
    assert (low.target, low.note) == (first, ResetNote.BEFORE_OLDEST)
    assert (high.target, high.note) == (end, ResetNote.PAST_END)
    early = seen(broker, ResetTarget(ResetTo.TIME, 1))
    assert (early.target, early.note) == (first, ResetNote.BEFORE_OLDEST)


def test_one_queue_of_a_topic_can_be_moved_alone(broker, send):
    for queue in range(2):
        send("a", "b", queue=queue)
    consume(broker, 10)
    consume(broker, 10)
    move(broker, EARLIEST, queues=[1])
    assert broker.committed_offset("g", "orders", 0) == 2
    assert broker.committed_offset("g", "orders", 1) == 0


def test_several_topics_are_moved_together(broker, send):
    send("a", topic="one")
    send("b", topic="two")
    for topic in ("one", "two"):
        consume(broker, 5, topic=topic)
    reset = move(broker, EARLIEST, ["one", "two"])
    assert {each.topic for each in reset.queues} == {"one", "two"}
    assert broker.committed_offset("g", "one", 0) == broker.committed_offset("g", "two", 0) == 0


def test_a_group_can_be_placed_before_it_consumes(broker, send):
    send("a", "b")
    broker.create_group(GroupConfig("g", start=StartAt.LATEST))
    found = seen(broker, at(1))
    assert (found.current, found.redelivered) == (None, 1), "it would have begun at the end"
    move(broker, at(1))
    assert bodies(take(broker)) == [b"b"]


def test_a_queue_is_as_it_was_if_it_is_undone_where_the_group_had_not_been(broker, send):
    send("a", "b")
    broker.create_group(GroupConfig("g"))
    reset = move(broker, LATEST)
    plan = broker.resets.plan_undo("g", reset.number)
    assert [each.target for each in plan.preview().queues] == [None] * 4
    broker.resets.apply(plan)
    assert broker.committed_offset("g", "orders", 0) is None
    assert bodies(take(broker)) == [b"a", b"b"]


def test_a_receive_after_an_undo_of_a_first_place_begins_the_queue_again(broker, send):
    send("a", "b")
    broker.create_group(GroupConfig("g"))
    reset = move(broker, LATEST)
    assert take(broker) == []
    broker.resets.apply(broker.resets.plan_undo("g", reset.number), force=True)
    assert bodies(consume(broker, 9)) == [b"a", b"b"]
    assert broker.committed_offset("g", "orders", 0) == 2


# -- what the preview says --------------------------------------------------------------------


def test_the_preview_counts_what_is_read_again_and_what_is_skipped(broker, send):
    send(*"abcdefgh")
    given = take(broker, 5)  # a to e are delivered
    broker.ack("g", [given[0].receipt, given[2].receipt])  # a and c are done
    for target, again, skipped in ((0, 2, 0), (1, 1, 0), (3, 0, 1), (5, 0, 3), (8, 0, 6)):
        found = seen(broker, at(target))
        assert (found.redelivered, found.skipped) == (again, skipped), target
        assert (found.current, found.inflight) == (1, 3)


def test_the_preview_says_when_the_first_message_at_the_new_place_was_stored(broker, send, clock):
    send("a")
    clock.advance(60)
    send("b")
    consume(broker, 2)
    assert seen(broker, at(1)).target_stored_ms == clock.now_ms()
    assert seen(broker, at(2)).target_stored_ms is None


def test_a_preview_changes_nothing(engine, broker, send):
    send("a", "b")
    (given,) = take(broker, 1)
    for target in (EARLIEST, LATEST, at(1)):
        broker.resets.plan("g", ["orders"], target).preview()
    assert broker.ack("g", [given.receipt]) == ["done"]
    assert broker.resets.history("g") == []


def test_the_search_in_time_takes_no_more_than_16_queues_in_a_step(broker):
    broker.create_topic(TopicConfig("wide", read_queues=40, write_queues=40))
    broker.send([Message("wide", b"x", queue=queue) for queue in range(40)])
    broker.create_group(GroupConfig("g"))
    plan = broker.resets.plan("g", ["wide"], ResetTarget(ResetTo.TIME, 1))
    assert [plan.step(), plan.step(), plan.step()] == [True, True, False]
    assert len(plan.preview().queues) == 40


# -- the precondition -------------------------------------------------------------------------


def test_offsets_that_moved_since_the_preview_refuse_the_reset_with_a_fresh_one(broker, send):
    send("a", "b", "c")
    consume(broker, 1)
    plan = broker.resets.plan("g", ["orders"], EARLIEST)
    shown = plan.preview()
    consume(broker, 1)
    with pytest.raises(OffsetsMoved) as caught:
        broker.resets.apply(plan, precondition=shown.precondition)
    assert broker.committed_offset("g", "orders", 0) == 2, "nothing was moved"
    fresh = caught.value.preview
    assert fresh.queues[0].current == 2
    broker.resets.apply(plan, precondition=fresh.precondition)
    assert broker.committed_offset("g", "orders", 0) == 0


def test_messages_that_arrive_after_the_preview_do_not_refuse_it(broker, send):
    send("a")
    broker.create_group(GroupConfig("g"))
    plan = broker.resets.plan("g", ["orders"], LATEST)
    shown = plan.preview()
    send("b")
    broker.resets.apply(plan, precondition=shown.precondition)
    assert broker.committed_offset("g", "orders", 0) == 2, "the end is that of now"


def test_without_a_precondition_only_force_moves(broker, send):
    send("a", "b")
    consume(broker, 2)
    plan = broker.resets.plan("g", ["orders"], EARLIEST)
    with pytest.raises(Invalid, match="precondition"):
        broker.resets.apply(plan)
    broker.resets.apply(plan, force=True)
    assert broker.committed_offset("g", "orders", 0) == 0


def test_a_precondition_holds_for_its_group_and_its_queues_only(broker, send):
    send("a")
    for group in ("g", "h"):
        broker.create_group(GroupConfig(group))
    shown = broker.resets.plan("g", ["orders"], LATEST).preview()
    for plan in (
        broker.resets.plan("h", ["orders"], LATEST),
        broker.resets.plan("g", ["orders"], LATEST, queues=[0]),
    ):
        with pytest.raises(OffsetsMoved):
            broker.resets.apply(plan, precondition=shown.precondition)


# -- live consumers ---------------------------------------------------------------------------


def test_what_is_in_flight_is_forgotten_and_its_receipts_are_stale(engine, broker, send):
    send("a", "b")
    given = take(broker, invisible_s=30)
    move(broker, EARLIEST)
    receipts = [each.receipt for each in given]
    assert broker.ack("g", receipts) == ["stale", "stale"]
    assert broker.nack("g", [Nack(receipts[0])]) == ["stale"]
    again = take(broker, invisible_s=300)
    assert [each.attempt for each in again] == [1, 1]
    engine.tick(60)
    assert broker.lag("g").inflight == 2, "the old deadline is not theirs"


def test_parked_receives_and_pulls_are_woken(broker, send):
    send("a")
    consume(broker, 1)
    woken = []
    broker.wait_to_receive("g", {"orders": "*"}, lambda: woken.append("receive"))
    broker.wait_to_pull("orders", 0, 1, "*", lambda: woken.append("pull"))
    assert woken == []
    move(broker, EARLIEST)
    assert sorted(woken) == ["pull", "receive"]


def test_a_fifo_queue_begins_anew_its_lanes_free_and_its_failures_forgotten(broker):
    broker.create_topic(TopicConfig("steps", TopicType.FIFO, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))
    broker.send([Message("steps", body.encode(), message_group="red") for body in "abc"])
    (first,) = take(broker, topic="steps")
    broker.nack("g", [Nack(first.receipt, delay_s=100)])
    assert take(broker, topic="steps") == []
    found = seen(broker, at(1), ["steps"])
    assert (found.skipped, found.redelivered) == (1, 0)
    move(broker, at(1), ["steps"])
    (given,) = take(broker, topic="steps")
    assert (given.message.body, given.attempt) == (b"b", 1)
    move(broker, EARLIEST, ["steps"])
    (given,) = take(broker, topic="steps")
    assert (given.message.body, given.attempt) == (b"a", 1)


def test_retries_come_whatever_is_moved_unless_their_topic_is_named(engine, broker, send):
    send("a", "b")
    a, b = take(broker)
    broker.nack("g", [Nack(a.receipt, delay_s=0), Nack(b.receipt, delay_s=5)])
    preview = broker.resets.plan("g", ["orders"], LATEST).preview()
    assert preview.retry_waiting == 1
    move(broker, LATEST)
    assert bodies(take(broker)) == [b"a"]
    move(broker, LATEST, ["orders", "%RETRY%g"])
    assert take(broker) == []
    engine.tick(5)
    assert bodies(take(broker)) == [b"b"], "it waited in a delay level, out of reach"
    move(broker, EARLIEST, ["%RETRY%g"])
    assert bodies(take(broker)) == [b"a", b"b"]


# -- RocketMQ's own subtleties ----------------------------------------------------------------


def test_a_committed_offset_goes_backwards_by_reset_and_by_commit(broker, send):
    """Section 15, item 9: no rule that offsets only grow."""
    send(*"abcdef")
    broker.commit_offset("g", "orders", 0, 6)
    broker.commit_offset("g", "orders", 0, 3)
    assert broker.committed_offset("g", "orders", 0) == 3
    move(broker, at(1))
    assert broker.committed_offset("g", "orders", 0) == 1


def test_commits_of_a_pulling_client_are_ignored_until_it_was_told(engine, broker, send):
    """Section 15, item 10."""
    send(*"abcdef")
    broker.commit_offset("g", "orders", 0, 4)
    move(broker, EARLIEST)
    for ending in (None, engine.crash, engine.restart):
        broker = broker if ending is None else ending()
        assert broker.commit_offset("g", "orders", 0, 5) is False
        assert broker.committed_offset("g", "orders", 0) == 0
    pulled = broker.pull("orders", 0, 4, group="g")
    assert (pulled.status, pulled.answer) == (PullStatus.OFFSET_RESET, PullAnswer.OFFSET_MOVED)
    assert (pulled.next_offset, pulled.messages) == (0, [])
    broker = engine.crash()
    assert broker.pull("orders", 0, 0, group="g").status is PullStatus.FOUND, "told once"
    assert broker.commit_offset("g", "orders", 0, 5) is True
    assert broker.committed_offset("g", "orders", 0) == 5


def test_only_pulls_of_the_group_itself_count_as_told(broker, send):
    send("a", "b")
    broker.commit_offset("g", "orders", 0, 2)
    broker.commit_offset("h", "orders", 0, 2)
    move(broker, EARLIEST)
    assert broker.pull("orders", 0, 0).status is PullStatus.FOUND
    assert broker.pull("orders", 0, 0, group="h").status is PullStatus.FOUND
    assert broker.commit_offset("g", "orders", 0, 2) is False
    assert broker.commit_offset("h", "orders", 0, 1) is True


def test_commits_count_again_once_the_group_has_received_from_the_new_place(broker, send):
    send("a", "b")
    consume(broker, 2)
    move(broker, EARLIEST)
    assert broker.commit_offset("g", "orders", 0, 2) is False
    take(broker, 1)
    assert broker.commit_offset("g", "orders", 0, 2) is True


def test_a_pull_is_told_also_where_the_disk_is_full(engine, broker, send, monkeypatch):
    send("a", "b")
    broker.commit_offset("g", "orders", 0, 2)
    move(broker, EARLIEST)
    journal = broker._store.journal

    class Full:
        def pwrite(self, data, position):
            raise OSError(28, "No space left on device")

        def truncate(self, size_bytes):
            pass

    working, journal._file = journal._file, Full()
    assert broker.pull("orders", 0, 2, group="g").status is PullStatus.OFFSET_RESET
    assert broker.pull("orders", 0, 0, group="g").status is PullStatus.FOUND
    with pytest.raises(DiskFull):
        move(broker, at(1))
    assert broker.committed_offset("g", "orders", 0) == 0
    assert len(broker.resets.history("g")) == 1
    journal._file = working
    move(broker, at(1))
    assert len(engine.crash().resets.history("g")) == 2


# -- the past ---------------------------------------------------------------------------------


def test_a_reset_is_undone_to_where_it_found_the_group(broker, send):
    send(*"abcd")
    consume(broker, 3)
    reset = move(broker, EARLIEST)
    assert [(each.before, each.after) for each in reset.queues if each.queue == 0] == [(3, 0)]
    undone = broker.resets.apply(broker.resets.plan_undo("g", reset.number))
    assert (undone.undoes, undone.to) == (reset.number, f"undo {reset.number}")
    assert broker.committed_offset("g", "orders", 0) == 3
    assert broker.resets.get("g", reset.number).undone_by == undone.number
    with pytest.raises(Conflict, match="undone"):
        broker.resets.plan_undo("g", reset.number)
    broker.resets.apply(broker.resets.plan_undo("g", undone.number))
    assert broker.committed_offset("g", "orders", 0) == 0, "an undo can be undone"


def test_an_undo_after_the_group_went_on_needs_to_be_looked_at_or_forced(broker, send):
    send(*"abcd")
    consume(broker, 3)
    reset = move(broker, EARLIEST)
    consume(broker, 1)
    plan = broker.resets.plan_undo("g", reset.number)
    with pytest.raises(OffsetsMoved) as caught:
        broker.resets.apply(plan)
    assert broker.committed_offset("g", "orders", 0) == 1
    broker.resets.apply(plan, precondition=caught.value.preview.precondition)
    assert broker.committed_offset("g", "orders", 0) == 3
    with pytest.raises(Conflict, match="meanwhile"):
        broker.resets.apply(plan, force=True)


def test_the_history_is_kept_over_a_crash_and_a_snapshot(engine, broker, send):
    send(*"abcd")
    consume(broker, 3)
    first = move(broker, EARLIEST)
    broker.resets.apply(broker.resets.plan_undo("g", first.number))
    move(broker, LATEST)
    kept = broker.resets.history("g")
    assert [each.number for each in kept] == [3, 2, 1]
    assert [each.undone_by for each in kept] == [0, 0, 2]
    broker = engine.crash()
    assert broker.resets.history("g") == kept
    broker._store.journal.compact()
    broker = engine.crash()
    assert broker.resets.history("g") == kept
    assert broker.commit_offset("g", "orders", 0, 0) is False, "nobody was told yet"
    assert move(broker, EARLIEST).number == 4


def test_a_snapshot_brings_each_reset_back_as_it_was():
    history, other = ResetHistory(), ResetHistory()
    history.add("g", Reset(9, 0, "earliest", []))
    history.add("g", Reset(6, 0, "undo", [], undoes=9))
    history.add("g", Reset(11, 0, "undo", [], undoes=9))
    history.add("g", Reset(6, 0, "undo", [], undoes=9))
    for group, reset in history.everything():
        other.keep(group, reset)
    assert other.of_group("g") == history.of_group("g")


def test_the_history_is_bounded_by_resets_and_by_queues(broker, send):
    send("a")
    broker.create_group(GroupConfig("g"))
    for _ in range(RESETS_KEPT_MAX + 5):
        move(broker, LATEST, queues=[0])
    kept = broker.resets.history("g")
    assert (len(kept), kept[0].number) == (RESETS_KEPT_MAX, RESETS_KEPT_MAX + 5)
    broker.create_topic(TopicConfig("wide", read_queues=1024, write_queues=1024))
    for _ in range(20):
        move(broker, EARLIEST, ["wide"])
    kept = broker.resets.history("g")
    assert sum(len(each.queues) for each in kept) <= QUEUES_KEPT_MAX
    with pytest.raises(NotFound):
        broker.resets.plan_undo("g", 1)


def test_what_is_deleted_takes_its_past_along(engine, broker, send):
    send("a", topic="one")
    send("b", topic="two")
    broker.create_group(GroupConfig("g"))
    reset = move(broker, LATEST, ["one", "two"])
    broker.delete_topic("one")
    assert {each.topic for each in broker.resets.get("g", reset.number).queues} == {"two"}
    broker.delete_topic("two")
    with pytest.raises(Conflict, match="gone"):
        broker.resets.plan_undo("g", reset.number)
    assert engine.crash().resets.get("g", reset.number).queues == []
    engine.broker.delete_group("g")
    engine.broker.create_group(GroupConfig("g"))
    assert engine.broker.resets.history("g") == []


def test_an_undo_leaves_out_queues_that_the_topic_no_longer_has(broker):
    broker.create_topic(TopicConfig("t", read_queues=4, write_queues=2))
    broker.create_group(GroupConfig("g"))
    reset = move(broker, LATEST, ["t"])
    broker.change_topic("t", read_queues=2)
    plan = broker.resets.plan_undo("g", reset.number)
    assert [each.note for each in plan.preview().queues] == ["", "", "queue_gone", "queue_gone"]
    undone = broker.resets.apply(plan)
    assert [each.queue for each in undone.queues] == [0, 1]


def test_listeners_hear_of_a_reset_and_of_its_undo(broker, send):
    send("a")
    consume(broker, 1)
    heard = []
    broker.events.subscribe(heard.append)
    reset = move(broker, EARLIEST)
    broker.resets.apply(broker.resets.plan_undo("g", reset.number))
    told = [event for event in heard if isinstance(event, OffsetsReset)]
    assert [(each.number, each.to, each.undoes, each.queue_count) for each in told] == [
        (1, "earliest", 0, 4),
        (2, "undo 1", 1, 4),
    ]
    assert told[0].topics == ("orders",)


# -- refusals ---------------------------------------------------------------------------------


def test_wrong_names_and_values_are_refused_by_field(broker, send):
    send("a")
    broker.create_group(GroupConfig("g"))
    resets = broker.resets
    for error, field, call in (
        (GroupNotFound, "group", lambda: resets.plan("x", ["orders"], EARLIEST)),
        (TopicNotFound, "topic", lambda: resets.plan("g", ["nowhere"], EARLIEST)),
        (QueueNotFound, "queues", lambda: resets.plan("g", ["orders"], EARLIEST, queues=[4])),
        (Invalid, "topics", lambda: resets.plan("g", [], EARLIEST)),
        (Invalid, "topics", lambda: resets.plan("g", ["%RETRY%other"], EARLIEST)),
        (Invalid, "queues", lambda: resets.plan("g", ["orders", "b"], EARLIEST, queues=[0])),
        (Invalid, "value", lambda: resets.plan("g", ["orders"], at(-1))),
        (GroupNotFound, "group", lambda: resets.plan("g", ["orders"], ResetTarget(ResetTo.GROUP))),
        (NotFound, "id", lambda: resets.plan_undo("g", 7)),
        (GroupNotFound, "group", lambda: resets.history("x")),
    ):
        with pytest.raises(error) as caught:
            call()
        assert caught.value.field == field


def test_one_reset_moves_a_bounded_number_of_queues(broker, monkeypatch):
    monkeypatch.setattr(resets_module, "QUEUES_MAX", 3)
    broker.create_topic(TopicConfig("t", read_queues=4, write_queues=4))
    broker.create_group(GroupConfig("g"))
    with pytest.raises(Invalid, match="queues"):
        broker.resets.plan("g", ["t"], EARLIEST)


def test_a_group_that_is_deleted_after_its_preview_is_not_brought_back(broker, send):
    send("a")
    broker.create_group(GroupConfig("g"))
    plan = broker.resets.plan("g", ["orders"], LATEST)
    shown = plan.preview()
    broker.delete_group("g")
    with pytest.raises(GroupNotFound):
        broker.resets.apply(plan, precondition=shown.precondition)
    assert broker.committed_offset("g", "orders", 0) is None
