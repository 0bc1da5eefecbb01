"""Dead letters that a person let rest: marked with a note, left out of jobs, never deleted."""

import random
from collections import Counter
from pathlib import Path

import pytest

from engine.broker import (
    Broker,
    DeadLetterConditions,
    DeadLetterState,
    GroupConfig,
    Nack,
    ReplayTo,
    TopicConfig,
)
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.errors import GroupNotFound, Invalid, Refused
from engine.message import Durability, Message
from engine.replay import dismissals, selection_planner
from engine.replay.dismissed_offsets import DismissedOffsets, DismissedRange, DismissNote
from engine.store.pool import InlinePool
from tests.simulation.disk import Disk


def dismiss(desk, *runs, note="known, fixed in 4.2", by="eva"):
    return desk.broker.dead_letters.dismiss("g", runs, note=note, by=by)


def marked(desk):
    """Offsets of the dead letters that are dismissed."""
    snapshot = desk.broker.dead_letters.snapshot("g")
    return [offset for offset in range(snapshot.first, snapshot.end) if snapshot.has(offset)]


def test_a_dismissed_dead_letter_stays_and_says_who_let_it_rest(dead):
    done = dismiss(dead, range(3, 5), range(7, 8))
    assert (done.count, done.note, done.by) == (3, "known, fixed in 4.2", "eva")
    letters = dead.broker.dead_letters
    page = letters.page("g")
    assert page.count == 10
    assert [each.message.offset for each in page.items if each.dismissed] == [7, 4, 3]
    assert letters.get("g", 3).dismissed == DismissNote(done.id, done.note, "eva", done.at_ms)
    assert letters.get("g", 5).dismissed is None
    assert letters.state_counts("g").dismissed == letters.tally("g").dismissed == 3
    assert letters.tally("g").reasons == {"rejected": 10}
    assert letters.tally("g", state=DeadLetterState.OPEN).reasons == {"rejected": 7}
    snapshot = letters.page("g", state=DeadLetterState.DISMISSED).items
    assert [each.message.offset for each in snapshot] == [7, 4, 3]
    assert len(letters.page("g", state=DeadLetterState.OPEN).items) == 7


def test_what_is_dismissed_already_keeps_its_first_note(dead):
    first = dismiss(dead, range(2, 4))
    second = dismiss(dead, range(5), note="all of that week")
    assert second.count == 3
    assert dead.broker.dead_letters.get("g", 2).dismissed.note == first.note
    found = dead.broker.dead_letters.snapshot("g").dismissals()
    assert [(each.id, each.count) for each in found] == [(second.id, 3), (first.id, 2)]


def test_restoring_takes_the_mark_off(dead):
    dismiss(dead, range(10))
    letters = dead.broker.dead_letters
    assert letters.restore("g", [range(4, 6), range(9, 12)]) == 3
    assert marked(dead) == [0, 1, 2, 3, 6, 7, 8]
    assert letters.restore("g", [range(4, 6)]) == 0
    assert letters.restore("g", [range(100)]) == 7
    assert letters.snapshot("g").dismissals() == []


def test_only_what_is_there_is_dismissed(dead):
    assert dismiss(dead, range(8, 100), range(6, 9)).count == 4
    dead.broker.send([Message("orders", b"late")])
    dead.kill()
    assert marked(dead) == [6, 7, 8, 9]
    with pytest.raises(GroupNotFound):
        dead.broker.dead_letters.dismiss("nobody", [range(1)], note="x", by="eva")


@pytest.mark.parametrize("note", ["", "   ", "two\nlines", "x" * 501])
def test_a_note_says_something_on_one_line(dead, note):
    with pytest.raises(Invalid, match="note"):
        dismiss(dead, range(2), note=note)
    assert marked(dead) == []


def test_jobs_leave_out_what_is_dismissed_unless_it_is_named(dead):
    dismiss(dead, range(3, 5), range(9, 10))
    assert dead.run().totals == {"sent": 7}
    assert dead.run(ranges=[(0, 2, 6)]).totals == {"sent": 2}
    assert dead.run(with_dismissed=True).totals == {"sent": 10}
    assert dead.run(places=[(0, 3), (0, 5)]).totals == {"sent": 2}
    job = dead.run(dry_run=True)
    dead.broker.dead_letters.restore("g", [range(10)])
    assert dead.broker.replays.begin(job.id).selected == 7  # frozen when the job was made


def test_dismissals_outlive_a_restart_and_a_compaction(dead):
    dismiss(dead, range(2, 5))
    dismiss(dead, range(7, 9), note="another")
    dead.broker.dead_letters.restore("g", [range(3, 4)])
    for is_compacted in (False, True):
        if is_compacted:
            dead.broker._store.journal.compact()
            dead.engine.tick()
        dead.engine.restart()
        assert marked(dead) == [2, 4, 7, 8]
        found = dead.broker.dead_letters.snapshot("g").dismissals()
        assert [(each.note, each.by, each.count) for each in found] == [
            ("another", "eva", 2),
            ("known, fixed in 4.2", "eva", 2),
        ]


def test_a_later_topic_of_the_name_has_nothing_dismissed(dead):
    dismiss(dead, range(10))
    dead.broker.delete_group("g")
    dead.broker.delete_topic("%DLQ%g")
    dead.broker.create_group(GroupConfig("g"))
    dead.broker.send([Message("orders", b"new life")])
    dead.kill()
    assert marked(dead) == []
    dead.broker._store.journal.compact()
    dead.engine.tick()
    dead.engine.restart()
    assert marked(dead) == []
    assert dismiss(dead, range(1)).count == 1


def test_there_is_a_limit_and_a_way_out(dead, monkeypatch):
    monkeypatch.setattr(dismissals, "SPANS_MAX", 3)
    dismiss(dead, range(1), range(2, 3), range(4, 5))
    with pytest.raises(Refused, match="stretches"):
        dismiss(dead, range(6, 7))
    dead.broker.dead_letters.restore("g", [range(1)])
    assert dismiss(dead, range(6, 7)).count == 1
    monkeypatch.setattr(dismissals, "DISMISSALS_MAX", 2)
    with pytest.raises(Refused, match="2 dismissals"):
        dismiss(dead, range(8, 9))


def test_restoring_that_cuts_stretches_to_pieces_has_the_same_limit(dead, monkeypatch):
    monkeypatch.setattr(dismissals, "SPANS_MAX", 3)
    dismiss(dead, range(9))
    letters = dead.broker.dead_letters
    with pytest.raises(Refused, match="stretches"):
        letters.restore("g", [range(at, at + 1) for at in (1, 3, 5)])
    assert len(marked(dead)) == 9
    assert letters.restore("g", [range(1, 2), range(3, 4)]) == 2
    with pytest.raises(Refused, match="stretches"):
        letters.restore("g", [range(6, 7)])
    monkeypatch.setattr(dismissals, "SPANS_MAX", 1)  # whoever has more may always restore
    assert letters.restore("g", [range(2, 3)]) == 1
    assert letters.restore("g", [range(9)]) == 6


@pytest.mark.parametrize("seed", range(5))
def test_a_pile_is_the_set_of_its_offsets(seed):
    """Against a plain dictionary, over many steps."""
    chance = random.Random(seed)
    dismissed_offsets, model = DismissedOffsets(0), {}
    notes = [DismissNote(str(number), "", "", 0) for number in range(5)]
    for _ in range(400):
        first = chance.randrange(60)
        run = range(first, first + chance.randrange(1, 12))
        if chance.random() < 0.6:
            note = chance.choice(notes)
            dismissed_offsets = dismissed_offsets.adding(
                DismissedRange(each.start, each.stop, note) for each in dismissed_offsets.free(run)
            )
            model = dict.fromkeys(run, note) | model
        else:
            dismissed_offsets = dismissed_offsets.without([run])
            model = {offset: note for offset, note in model.items() if offset not in run}
        low = chance.randrange(70)
        high = low + chance.randrange(30)
        found = {
            n: s.note for s in dismissed_offsets.within(low, high) for n in range(s.first, s.end)
        }
        assert found == {n: note for n, note in model.items() if low <= n < high}
        free = [offset for each in dismissed_offsets.free(range(low, high)) for offset in each]
        assert free == [offset for offset in range(low, high) if offset not in model]
        assert dismissed_offsets.count(low, high) == len(found)
        told = Counter(note for n, note in model.items() if low <= n < high)
        assert dismissed_offsets.tally(low, high) == told
        assert [dismissed_offsets.note_of(n) for n in range(80)] == [
            model.get(n) for n in range(80)
        ]
        kept = DismissedOffsets.unpacked(0, dismissed_offsets.from_offset(low).packed())
        assert list(kept.within(low, 80)) == list(dismissed_offsets.within(low, 80))


class Watched(list):
    """Numbers that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, at):
        Watched.looks += 1
        return super().__getitem__(at)


def test_to_count_takes_a_few_looks_however_many_stretches_there_are():
    note = DismissNote("1", "", "", 0)
    dismissed_offsets = DismissedOffsets(
        0, (DismissedRange(at, at + 1, note) for at in range(0, 200_000, 2))
    )
    for name in ("_firsts", "_ends", "_before"):
        setattr(dismissed_offsets, name, Watched(getattr(dismissed_offsets, name)))
    Watched.looks = 0
    assert (dismissed_offsets.count(1001, 150_000), dismissed_offsets.count(0, 10**9)) == (
        74_499 + 0,
        100_000,
    )
    assert (dismissed_offsets.note_of(1000), dismissed_offsets.note_of(1001)) == (note, None)
    assert 0 < Watched.looks < 200


def test_a_draft_over_what_has_changed_since_is_not_carried_out(dead):
    letters = dead.broker.dead_letters
    first, late = (letters.snapshot("g") for _ in range(2))
    assert letters.commit(first.plan_dismissal([range(3)], letters.new_note("known", "eva")))
    draft = late.plan_dismissal([range(5)], letters.new_note("too late", "eva"))
    assert not letters.commit(draft)
    assert marked(dead) == [0, 1, 2]
    assert letters.commit(
        letters.snapshot("g").plan_dismissal([range(5)], letters.new_note("all", "eva"))
    )
    assert [each.count for each in letters.snapshot("g").dismissals()] == [2, 3]
    assert not letters.commit(first.plan_restoration([range(9)]))


def test_a_sweep_reads_each_dead_letter_once_and_a_page_few_in_vain(dead, send, monkeypatch):
    for number in range(640):
        send(str(number), tag="odd" if number % 2 else "even")
    dead.kill()
    store, asked = dead.broker._store, []
    real = store.read_entries
    monkeypatch.setattr(store, "read_entries", lambda e, *_: asked.extend(e) or real(e))
    letters, found, after = dead.broker.dead_letters, [], None
    while True:
        swept = letters.sweep(
            "g", DeadLetterConditions(filter="even", reason="rejected"), after=after
        )
        found += swept.offsets
        if (after := swept.next) is None:
            break
    assert len(found) == 325
    assert sorted(entry.offset for entry in asked) == list(range(650))
    asked.clear()
    assert len(letters.page("g", count_max=50).items) == len(asked) == 50


def test_a_job_is_refused_where_dismissing_cut_it_to_pieces(dead, monkeypatch):
    monkeypatch.setattr(selection_planner, "STRETCHES_MAX", 3)
    dismiss(dead, *(range(at, at + 1) for at in (2, 4)))
    assert dead.run(dry_run=True).selected == 8
    dismiss(dead, range(6, 7))
    with pytest.raises(Refused, match="3 stretches") as refused:
        dead.run()
    assert refused.value.field == "with_dismissed"
    assert dead.run(with_dismissed=True).selected == 10


def test_many_dismissals_are_read_back_together(dead, monkeypatch):
    """Each by itself would go through all that were read before it."""
    for at in range(10):
        dismiss(dead, range(at, at + 1), note=f"note {at}")
    dead.broker.dead_letters.restore("g", [range(4, 5)])
    built = []
    real = DismissedOffsets.adding
    monkeypatch.setattr(
        DismissedOffsets,
        "adding",
        lambda dismissed_offsets, more: built.append(1) or real(dismissed_offsets, more),
    )
    dead.engine.restart()
    assert marked(dead) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert len(built) == 1
    assert dismiss(dead, range(10), note="again").count == 1


def test_what_arrived_is_counted_by_steps_of_time_and_dismissed_ones_apart(dead, send, clock):
    """Ten died at the beginning."""
    begun_ms = clock.now_ms()
    letters = dead.broker.dead_letters
    for count in (3, 0, 1):
        clock.advance(60)
        for number in range(count):
            send(str(number))
        dead.kill()
    clock.advance(30)
    times = [begun_ms - 1, *(begun_ms + 60_000 * step for step in (1, 2, 3))]
    assert letters.arrived("g", times).steps == [10, 3, 0, 1]
    dismiss(dead, range(9, 12))
    recent = letters.arrived("g", times[1:])
    assert (recent.steps, recent.count, recent.open) == ([3, 0, 1], 4, 2)
    assert letters.arrived("g", [clock.now_ms()]).count == 0
    dead.engine.restart()
    assert dead.broker.dead_letters.arrived("g", times).steps == [10, 3, 0, 1]


class Story:
    """Dead letters on a disk that breaks; some are dismissed, then more die."""

    def __init__(self, seed):
        self.disk = Disk(random.Random(seed))
        self.clock = ManualClock()
        self.start()
        self.broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1))
        self.broker.create_group(GroupConfig("g"))
        self.settle()

    def start(self):
        self.clock.advance(0.5)
        config = EngineConfig(
            data=Path("/data"),
            disk_free_min_bytes=0,
            timer_log_bytes=4096,
            durability=Durability.STORED,
        )
        self.broker = Broker(config, clock=self.clock, pool=InlinePool(), files=self.disk.boot())
        self.broker.start()

    def settle(self):
        for _ in range(3):
            self.clock.advance(1)
            while self.broker.tick() <= 0:
                pass

    def kill(self, bodies):
        self.broker.send([Message("t", body) for body in bodies])
        while deliveries := self.broker.receive("g", {"t": "*"}, count_max=50):
            self.broker.nack("g", [Nack(each.receipt, delay_level=-1) for each in deliveries])
        while self.broker.tick() <= 0:
            pass

    def rested(self):
        """Bodies of the dead letters that are dismissed."""
        items = self.broker.dead_letters.page(
            "g", count_max=200, state=DeadLetterState.DISMISSED
        ).items
        return {each.message.body for each in items}


@pytest.mark.parametrize("seed", range(12))
def test_a_power_loss_never_lets_a_new_dead_letter_rest(seed):
    """Offsets that a power loss took are given anew: the mark must not wait there for others."""
    story = Story(seed)
    story.kill([b"old %d" % number for number in range(6)])
    story.settle()
    story.kill([b"lost %d" % number for number in range(6)])
    story.broker.dead_letters.dismiss("g", [range(3, 12)], note="nothing to do", by="eva")
    story.disk.lose_power()
    story.start()
    kept = story.rested()
    assert all(body.startswith((b"old", b"lost")) for body in kept)
    story.kill([b"new %d" % number for number in range(12)])
    assert story.rested() == kept
    story.settle()
    story.broker.stop()
    story.start()
    assert story.rested() == kept


def test_a_job_of_another_group_is_not_concerned(dead):
    dead.broker.create_topic(TopicConfig("copies", read_queues=1, write_queues=1))
    dismiss(dead, range(10))
    job = dead.run(source="orders", to=ReplayTo.TOPIC, to_name="copies")
    assert job.totals == {"sent": 10}
