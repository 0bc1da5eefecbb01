"""Selections and outcomes, against the plainest thing that could hold them."""

import random

import pytest

from engine.replay.outcomes import CHUNK, OutcomeLog, ReplayOutcome
from engine.replay.selection import FrozenSelection, OffsetRange, merged, pack, runs_of


@pytest.mark.parametrize("seed", range(30))
def test_a_selection_is_the_places_in_order(seed):
    chance = random.Random(seed)
    places = [(chance.randrange(4), chance.randrange(60)) for _ in range(chance.randrange(1, 120))]
    plain = sorted(set(places))
    frozen = FrozenSelection.unpack(pack(runs_of(places)))
    assert frozen.count == len(plain)
    assert [frozen.place(index) for index in range(frozen.count)] == plain
    start, count = chance.randrange(frozen.count), chance.randrange(1, 50)
    stretched = [
        (piece.nth + number, piece.queue, offset)
        for piece in frozen.stretches(start, count)
        for number, offset in enumerate(piece.offsets)
    ]
    assert stretched == [
        (index, *plain[index]) for index in range(start, min(start + count, len(plain)))
    ]
    for queue in range(5):
        first = chance.randrange(60)
        end = first + chance.randrange(30)
        within = [
            (piece.nth + number, piece.queue, offset)
            for piece in frozen.within(queue, first, end)
            for number, offset in enumerate(piece.offsets)
        ]
        assert within == [
            (index, *place)
            for index, place in enumerate(plain)
            if place[0] == queue and first <= place[1] < end
        ]
    for queue in frozen.queues:
        assert frozen.end_of(queue) == max(at for each, at in plain if each == queue) + 1
    assert frozen.index_of(9, 0) is None


def test_ranges_that_touch_or_overlap_become_one():
    ranges = [
        OffsetRange(1, 5, 5),
        OffsetRange(0, 0, 3),
        OffsetRange(0, 3, 2),
        OffsetRange(0, 1, 1),
        OffsetRange(1, 9, 4),
        OffsetRange(2, 0, 0),
    ]
    assert merged(ranges) == [OffsetRange(0, 0, 5), OffsetRange(1, 5, 8)]


@pytest.mark.parametrize("count", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 17])
def test_outcomes_are_found_again_across_chunks(count):
    chance = random.Random(count)
    plain = bytes(chance.choices(list(ReplayOutcome), k=count))
    log = OutcomeLog()
    for start in range(0, count, 1000):
        log.add(plain[start : start + 1000])
    for each in (log, OutcomeLog(*log.packed)):
        assert each.count == count
        assert each.between(0, count + 5) == plain
        assert each.between(count // 3, count // 2) == plain[count // 3 : count // 2]
        assert [each.totals[code] for code in ReplayOutcome] == [
            plain.count(code) for code in ReplayOutcome
        ]
        found = list(each.find(ReplayOutcome.EXPIRED, count // 4, count))
        assert found == [
            index for index in range(count // 4, count) if plain[index] == ReplayOutcome.EXPIRED
        ]
