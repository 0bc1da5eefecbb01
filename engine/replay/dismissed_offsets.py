"""The dismissed offsets of one dead letter topic: ranges in order, each with its note. Immutable.

Dismissing and restoring make a new value, so a change over tens of thousands of ranges can be
planned on another thread while the owner's goes on.
"""

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from operator import sub
from typing import NamedTuple

import msgspec

from engine.errors import Illegal
from engine.legality import check_all, check_columns
from engine.replay.offset_bits import OffsetBits

NUMBER_BYTES = 8
WHICH_BYTES = 4


class DismissNote(msgspec.Struct, frozen=True):
    """User, time and reason of a dismissal."""

    id: str
    note: str
    by: str
    at_ms: int


class DismissedRange(NamedTuple):
    """Offsets `first` to `end` - 1, with the note they were dismissed with."""

    first: int
    end: int
    note: DismissNote


class PackedDismissals(msgspec.Struct, frozen=True):
    """A pile as bytes: 8 for each first offset and end, 4 for the number of its note."""

    notes: list[DismissNote]
    firsts: bytes
    ends: bytes
    which: bytes


class DismissedOffsets:
    """Spans in ascending order, none over another. To count takes no longer for many of them."""

    def __init__(self, since_position: int, spans: Iterable[DismissedRange] = ()) -> None:
        """`spans` ascend; where two lie over each other, the first has it.

        `since_position` tells the topic from a later one of its name.
        """
        numbers: dict[DismissNote, int] = {}
        firsts, ends, which = array("q"), array("q"), array("i")
        done = 0
        for first, end, note in spans:
            if end > done:
                firsts.append(max(first, done))
                ends.append(end)
                which.append(numbers.setdefault(note, len(numbers)))
                done = end
        self._set(since_position, list(numbers), firsts, ends, which)

    def _set(
        self,
        since_position: int,
        notes: list[DismissNote],
        firsts: "array[int]",
        ends: "array[int]",
        which: "array[int]",
    ) -> None:
        self.since_position = since_position
        self._notes = notes
        self._firsts = firsts
        self._ends = ends
        self._which = which
        # How many offsets all spans before each one have.
        self._before = array("q", accumulate(map(sub, ends, firsts), initial=0))
        self.note_count = len(set(which))

    def __len__(self) -> int:
        return len(self._firsts)

    # -- looking ------------------------------------------------------------------------------

    def is_same(self, other: "DismissedOffsets") -> bool:
        """Whether nothing was dismissed or restored between this and another."""
        is_empty = not len(self) and not len(other)
        return self is other or (is_empty and self.since_position == other.since_position)

    @property
    def end(self) -> int:
        """One past the last offset that is dismissed; 0 where none is."""
        return self._ends[-1] if self._ends else 0

    def note_of(self, offset: int) -> DismissNote | None:
        """The note of an offset; None where it is not dismissed."""
        at = bisect_right(self._ends, offset)
        is_in = at < len(self._firsts) and self._firsts[at] <= offset
        return self._notes[self._which[at]] if is_in else None

    @cached_property
    def bits(self) -> OffsetBits:
        """The same as bits; made once, of tens of thousands of spans in some milliseconds."""
        bits = OffsetBits()
        bits.add_ranges(zip(self._firsts, self._ends, strict=True))
        return bits

    def with_bits(self) -> "DismissedOffsets":
        """This one, its bits made: a plan does it beside the owner's thread."""
        _ = self.bits
        return self

    def count(self, first: int, end: int) -> int:
        """How many of these offsets are dismissed."""
        return max(0, self._below(end) - self._below(first))

    def within(self, first: int, end: int) -> Iterator[DismissedRange]:
        """The spans, cut to the offsets `first` to `end` - 1."""
        for at in range(*self._reach(first, end)):
            note = self._notes[self._which[at]]
            yield DismissedRange(max(self._firsts[at], first), min(self._ends[at], end), note)

    def free(self, run: range) -> Iterator[range]:
        """What of a run is not dismissed."""
        start = run.start
        for at in range(*self._reach(run.start, run.stop)):
            if start < self._firsts[at]:
                yield range(start, self._firsts[at])
            start = self._ends[at]
        if start < run.stop:
            yield range(start, run.stop)

    def tally(self, first: int, end: int) -> dict[DismissNote, int]:
        """How many of these offsets each note has."""
        low, high = self._reach(first, end)
        counts = Counter[int]()
        for number, start, stop in zip(
            self._which[low:high], self._firsts[low:high], self._ends[low:high], strict=True
        ):
            counts[number] += min(stop, end) - max(start, first)
        return {self._notes[number]: count for number, count in counts.items()}

    # -- changing -----------------------------------------------------------------------------

    def adding(self, more: Iterable[DismissedRange]) -> "DismissedOffsets":
        """This one and ascending spans of what is not dismissed yet."""
        return DismissedOffsets(self.since_position, heapq.merge(self._all(), more, key=_first_of))

    def without(self, runs: Iterable[range]) -> "DismissedOffsets":
        """What is left where these ascending runs are restored."""
        return DismissedOffsets(self.since_position, self._left(runs))

    def from_offset(self, first: int) -> "DismissedOffsets":
        """Without the spans that end before an offset: retention took what they were about."""
        low = bisect_right(self._ends, first)
        if not low:
            return self
        dismissed_offsets = DismissedOffsets.__new__(DismissedOffsets)
        dismissed_offsets._set(
            self.since_position,
            self._notes,
            self._firsts[low:],
            self._ends[low:],
            self._which[low:],
        )
        if "bits" in self.__dict__:  # what they have before `first` is never looked at
            dismissed_offsets.bits = self.bits
        return dismissed_offsets

    def packed(self) -> PackedDismissals:
        """All of it, to be kept."""
        return PackedDismissals(
            self._notes, self._firsts.tobytes(), self._ends.tobytes(), self._which.tobytes()
        )

    @classmethod
    def unpacked(cls, since_position: int, packed: PackedDismissals) -> "DismissedOffsets":
        """What `packed` gave."""
        firsts, ends, which = array("q"), array("q"), array("i")
        firsts.frombytes(packed.firsts)
        ends.frombytes(packed.ends)
        which.frombytes(packed.which)
        dismissed_offsets = cls.__new__(cls)
        dismissed_offsets._set(since_position, packed.notes, firsts, ends, which)
        return dismissed_offsets

    # -- inside -------------------------------------------------------------------------------

    def _all(self) -> Iterator[DismissedRange]:
        for first, end, number in zip(self._firsts, self._ends, self._which, strict=True):
            yield DismissedRange(first, end, self._notes[number])

    def _left(self, runs: Iterable[range]) -> Iterator[DismissedRange]:
        """The spans without the runs, both walked through once."""
        taking = iter(runs)
        run = next(taking, None)
        for first, end, note in self._all():
            start = first
            while run is not None and run.start < end:
                if start < run.start:
                    yield DismissedRange(start, run.start, note)
                start = max(start, run.stop)
                if run.stop >= end:
                    break
                run = next(taking, None)
            if start < end:
                yield DismissedRange(start, end, note)

    def _below(self, offset: int) -> int:
        """How many offsets under this one are dismissed."""
        at = bisect_left(self._firsts, offset)
        if not at:
            return 0
        below: int = self._before[at]
        return below - max(0, self._ends[at - 1] - offset)

    def _reach(self, first: int, end: int) -> tuple[int, int]:
        """Which spans touch the offsets `first` to `end` - 1."""
        if first >= end:
            return 0, 0
        return bisect_right(self._ends, first), bisect_left(self._firsts, end)


def check_packed(packed: PackedDismissals) -> None:
    """Raises Illegal for bytes that are no pile's."""
    check_columns(NUMBER_BYTES, firsts=packed.firsts, ends=packed.ends)
    check_columns(WHICH_BYTES, which=packed.which)
    firsts, ends, which = array("q"), array("q"), array("i")
    firsts.frombytes(packed.firsts)
    ends.frombytes(packed.ends)
    which.frombytes(packed.which)
    if len(which) != len(firsts):
        raise Illegal(f"{len(which)} notes for {len(firsts)} stretches")
    check_all("which", which, len(packed.notes) - 1)
    before = 0
    for first, end in zip(firsts, ends, strict=True):
        if not before <= first < end:
            raise Illegal(f"a stretch from {first} to {end} does not follow one to {before}")
        before = end


def _first_of(span: DismissedRange) -> int:
    return span.first
