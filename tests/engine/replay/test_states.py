"""States of dead letters: open, resent, dismissed; counted from bits, kept by the journal."""

import random

import pytest

from engine.broker import DeadLetterConditions, DeadLetterState, GroupConfig, ReplayTo, StateCounts
from engine.errors import Illegal, Invalid
from engine.message import Message
from engine.replay import job_store, resent
from engine.replay.conditions import error_class_of, error_line_of, fits_error
from engine.replay.dismissed_offsets import DismissedOffsets, DismissedRange, DismissNote
from engine.replay.offset_bits import CHUNK, OffsetBits
from engine.replay.resent import DeadResent
from engine.replay.states import LetterStates

OPEN, RESENT, DISMISSED = DeadLetterState


def counts(desk):
    found = desk.broker.dead_letters.state_counts("g")
    return found.open, found.resent, found.dismissed


def offsets(desk, state):
    items = desk.broker.dead_letters.page("g", state=state, count_max=200).items
    assert all(each.state is state for each in items)
    return sorted(each.message.offset for each in items)


def test_a_job_makes_dead_letters_resent_and_a_note_dismissed(dead):
    assert counts(dead) == (10, 0, 0)
    dead.run(places=[(0, 2), (0, 3), (0, 4)])
    dead.broker.dead_letters.dismiss("g", [range(4, 6)], note="known", by="eva")
    assert counts(dead) == (6, 2, 2)
    assert offsets(dead, RESENT) == [2, 3]
    assert offsets(dead, DISMISSED) == [4, 5]
    lag = dead.broker.lag("g")
    assert (lag.dead, lag.resent, lag.dismissed, lag.dead_open) == (10, 2, 2, 6)
    assert dead.broker.dead_letters.state_counts("g").open == 6
    arrived = dead.broker.dead_letters.arrived("g", [0])
    assert (arrived.count, arrived.open) == (10, 6)
    dead.broker.dead_letters.restore("g", [range(10)])
    assert counts(dead) == (7, 3, 0)  # what a job sent stays resent


def test_a_dry_run_and_what_a_job_leaves_out_stay_open(dead):
    dead.run(dry_run=True)
    dead.run(filter="odd", places=[(0, 1), (0, 2)])
    assert counts(dead) == (9, 1, 0)


def test_a_group_may_count_what_is_resent_as_dismissed(dead):
    dead.run(places=[(0, 2), (0, 3)])
    dead.broker.change_group("g", dismiss_when_resent=True)
    assert counts(dead) == (8, 0, 2)
    assert offsets(dead, DISMISSED) == [2, 3]
    assert dead.broker.dead_letters.get("g", 2).dismissed is None  # nobody gave a note
    dead.broker.change_group("g", dismiss_when_resent=False)
    assert counts(dead) == (8, 2, 0)


def test_a_job_over_the_open_ones_leaves_out_those_that_were_sent(dead):
    dead.run(places=[(0, 2), (0, 3)])
    dead.broker.dead_letters.dismiss("g", [range(1)], note="known", by="eva")
    assert dead.run(dead_letter_state=OPEN).totals == {"sent": 7, "filtered": 2}
    assert counts(dead) == (0, 9, 1)
    assert dead.run(dead_letter_state=RESENT, dry_run=True).totals == {"eligible": 9}
    totals = dead.run(dead_letter_state=DISMISSED, dry_run=True).totals
    assert totals == {"eligible": 1, "filtered": 9}


def test_states_outlive_restarts_compactions_and_the_jobs(dead, monkeypatch):
    dead.run(places=[(0, 2), (0, 3)])
    monkeypatch.setattr(job_store, "JOBS_MAX", 1)
    dead.run(places=[(0, 5)])
    dead.run(places=[(0, 7)], dry_run=True)
    for is_compacted in (False, True, False):
        if is_compacted:
            dead.broker._store.journal.compact()
            dead.engine.tick()
        dead.engine.restart()
        assert offsets(dead, RESENT) == [2, 3, 5]
    assert dead.broker.dead_letters.get("g", 2).redriven_by == []  # its job is forgotten


def test_a_snapshot_of_an_older_version_gives_the_states_of_the_jobs_that_it_has(dead, monkeypatch):
    dead.run(places=[(0, 2), (0, 3)])
    monkeypatch.setattr(resent.ResentStore, "_snapshot", lambda store: ())
    dead.broker._store.journal.compact()
    dead.engine.tick()
    dead.engine.restart()
    assert offsets(dead, RESENT) == [2, 3]


def test_a_later_topic_of_the_name_has_nothing_resent(dead):
    dead.run()
    dead.broker.delete_group("g")
    dead.broker.delete_topic("%DLQ%g")
    dead.broker.create_group(GroupConfig("g"))
    dead.broker.send([Message("orders", b"new life")])
    dead.kill()
    assert (counts(dead)[0] > 0, counts(dead)[1]) == (True, 0)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_offsets_that_a_power_loss_took_are_open_when_given_anew(desk, is_compacted):
    broker, engine = desk.broker, desk.engine
    broker.send([Message("orders", b"%d" % number) for number in range(4)])
    desk.kill()
    for _ in range(3):
        engine.tick(2)  # these are on the disk, what follows is not
    end = broker._store.written
    broker.send([Message("orders", b"%d" % number) for number in range(4, 8)])
    desk.kill()
    desk.run(places=[(0, 2), (0, 6)], to=ReplayTo.ORIGIN)
    assert offsets(desk, RESENT) == [2, 6]
    if is_compacted:
        broker._store.journal.compact()
        engine.tick()
    engine.close()
    log = sorted((engine.root / "commitlog").iterdir())[0]
    data = bytearray(log.read_bytes())
    data[end:] = bytes(len(data) - end)
    log.write_bytes(data)
    engine.start()
    desk.broker.send([Message("orders", b"new") for _ in range(6)])
    desk.kill()
    assert 6 not in offsets(desk, RESENT)
    desk.broker._store.journal.compact()
    engine.tick()
    engine.restart()
    assert 6 not in offsets(desk, RESENT)


@pytest.mark.parametrize("seed", range(20))
def test_bits_count_and_list_what_a_set_does(seed):
    chance = random.Random(seed)
    first, end = chance.randrange(CHUNK), chance.randrange(CHUNK, 3 * CHUNK)
    sent, rest = OffsetBits(), set()
    for _ in range(30):
        at, length = chance.randrange(3 * CHUNK), chance.randrange(1, 300)
        pattern = chance.getrandbits(length)
        sent.add(at, pattern)
        rest |= {at + bit for bit in range(length) if pattern >> bit & 1}
    starts = sorted(chance.sample(range(0, 3 * CHUNK, 500), 40))
    note = DismissNote("0", "n", "eva", 0)
    spans = [DismissedRange(at, at + chance.randrange(1, 500), note) for at in starts]
    if seed % 3 == 0:
        spans = [DismissedRange(CHUNK - 5, 2 * CHUNK + 5, note)]
    notes = {offset for span in spans for offset in range(span.first, span.end)}
    settles = bool(seed % 2)
    dismissed = notes | rest if settles else notes
    expected = {DISMISSED: dismissed, RESENT: rest - dismissed}
    here = set(range(first, end))
    expected[OPEN] = here - dismissed - rest
    cut = chance.choice([first, end - 7, 2 * CHUNK])
    sent = OffsetBits.unpacked(sent.packed())
    states = LetterStates(first, end, (sent, DismissedOffsets(0, spans)), settles=settles)
    found = states.counts()
    for state in DeadLetterState:
        assert getattr(found, state) == len(expected[state] & here), state
        runs = [offset for run in states.runs(state, cut) for offset in run]
        assert runs == sorted(each for each in expected[state] & here if each < cut), state
    for offset in chance.sample(range(first, end), 50):
        assert offset in expected[states.of(offset)]
    sent.drop_from(cut)
    assert sent.end == max((each + 1 for each in rest if each < cut), default=0)


def test_a_million_are_counted_without_a_scan():
    sent = OffsetBits()
    sent.add(0, int("01" * 500_000, 2))
    note = DismissNote("0", "n", "eva", 0)
    dismissed = DismissedOffsets(
        0, [DismissedRange(at, at + 10, note) for at in range(0, 1_000_000, 100)]
    ).with_bits()
    states = LetterStates(0, 1_000_000, (sent, dismissed), settles=False)
    assert states.counts() == StateCounts(open=450_000, resent=450_000, dismissed=100_000)


@pytest.mark.parametrize(
    ("error", "line", "name"),
    [
        ("KeyError: 'lender'", "KeyError: 'lender'", "KeyError"),
        ("java.net.ConnectException: refused", "java.net.ConnectException: refused",
         "ConnectException"),
        ("ValueError('bad')", "ValueError('bad')", "ValueError"),
        ("TimeoutError", "TimeoutError", "TimeoutError"),
        ("Traceback (most recent call last):\n  x\nruntime.Boom: no\n", "runtime.Boom: no", "Boom"),
        ("TypeError: a\nmore", "TypeError: a", "TypeError"),
        ("no such street", "no such street", ""),
        ("No such street", "No such street", ""),
        ("boom: x", "boom: x", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_an_error_names_its_class_and_its_main_line(error, line, name):
    assert (error_line_of(error), error_class_of(error)) == (line, name)


def test_a_line_is_named_whole_or_by_its_beginning():
    assert fits_error("TimeoutError: 3 s", "TimeoutError: 3 s")
    assert not fits_error("TimeoutError: 3", "TimeoutError: 3 s")
    assert fits_error("TimeoutError: *", "TimeoutError: 3 s")


def test_dead_letters_are_cut_by_error_and_a_job_sends_exactly_the_cut(desk, send):
    errors = ["KeyError: 'a'", "KeyError: 'b'", "TimeoutError: 3 s", ""]
    for number, error in enumerate(errors * 2):
        send(str(number))
        desk.kill(error=error)
    letters = desk.broker.dead_letters
    for conditions, expected in (
        ({"error_class": "KeyError"}, [0, 1, 4, 5]),
        ({"error_class": "Key"}, []),
        ({"error": "KeyError: 'b'"}, [1, 5]),
        ({"error": "Key*"}, [0, 1, 4, 5]),
        ({"error_class": "TimeoutError", "client": "worker-1"}, [2, 6]),
        ({"client": "worker-2"}, []),
        ({"failures": 1}, list(range(8))),
        ({"failures": 2}, []),
    ):
        page = letters.page("g", DeadLetterConditions(**conditions))
        assert [each.message.offset for each in reversed(page.items)] == expected, conditions
        totals = desk.run(dry_run=True, **conditions).totals
        assert totals.get("eligible", 0) == len(expected), conditions
    assert letters.tally("g").error_classes == {"KeyError": 4, "TimeoutError": 2, "": 2}
    assert letters.get("g", 2).error_class == "TimeoutError"
    job = desk.run(error_class="TimeoutError")
    assert job.totals == {"sent": 2, "filtered": 6}
    desk.engine.restart()
    assert desk.broker.replays.get(job.id).error_class == "TimeoutError"
    assert offsets(desk, RESENT) == [2, 6]
    with pytest.raises(Invalid, match="error_class"):
        desk.run(error_class="x" * 1025)


def test_bits_that_no_topic_can_have_are_illegal():
    good = OffsetBits({3: 1}).packed()
    resent._check(DeadResent("%DLQ%g", 0, good))
    for chunks in ({-1: good[3]}, {1 << 60: good[3]}, {3: b"x"}, {3: good[3][:-1]}):
        with pytest.raises(Illegal):
            resent._check(DeadResent("%DLQ%g", 0, chunks))


def test_marks_name_each_dead_letter_that_is_not_open_and_change_with_it(dead):
    letters = dead.broker.dead_letters
    before = letters.states("g").mark(0)
    dead.run(places=[(0, 2), (0, 3)])
    letters.dismiss("g", [range(3, 6)], note="known", by="eva")
    states = letters.states("g")
    assert states.marked(0) == {2: RESENT, 3: DISMISSED, 4: DISMISSED, 5: DISMISSED}
    assert states.marked(4) == {4: DISMISSED, 5: DISMISSED}
    assert states.mark(0) not in (before, letters.states("g").mark(5))
