"""The pending messages in order of time, 16 bytes each, found by bisection.

A sorted list cut into blocks of two arrays (due times, queue offsets). Adding, removing and taking
from the front cost the same few microseconds whether a hundred wait or a million, for the next
second or over the whole year; nothing is ever scanned or spread out.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

BLOCK_COUNT_MAX = 1024
BLOCK_COUNT_MIN = 128  # a smaller block is joined to its neighbour, so that few hold little


class Pending(NamedTuple):
    """A message that waits: when it is due, and its offset in the timer queue."""

    due_ms: int
    offset: int


START = Pending(-(1 << 62), -1)


class TimerAgenda:
    """Pending messages by due time, then by offset. Each offset is added at most once."""

    def __init__(self) -> None:
        self._dues: list[array[int]] = []
        self._offsets: list[array[int]] = []
        self._firsts: list[Pending] = []  # of each block
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def first(self) -> Pending | None:
        """What is due first."""
        return self._firsts[0] if self._firsts else None

    def add(self, pending: Pending) -> None:
        """Put one in its place."""
        self._count += 1
        if not self._firsts:
            self._dues.append(array("q"))
            self._offsets.append(array("q"))
            self._firsts.append(pending)
        block = max(0, bisect_right(self._firsts, pending) - 1)
        dues, offsets = self._dues[block], self._offsets[block]
        at = _place(dues, offsets, pending)
        dues.insert(at, pending.due_ms)
        offsets.insert(at, pending.offset)
        if at == 0:
            self._firsts[block] = pending
        if len(dues) > BLOCK_COUNT_MAX:
            self._split(block)

    def load(self, dues: "array[int]", offsets: "array[int]") -> None:
        """Fill an empty agenda with many at once; offsets ascend."""
        assert not self._firsts
        order = sorted(range(len(dues)), key=dues.__getitem__)  # stable: equal times keep theirs
        for start in range(0, len(order), BLOCK_COUNT_MAX // 2):
            block = order[start : start + BLOCK_COUNT_MAX // 2]
            self._dues.append(array("q", map(dues.__getitem__, block)))
            self._offsets.append(array("q", map(offsets.__getitem__, block)))
            self._firsts.append(self._first_of(-1))
        self._count = len(order)

    def remove(self, pending: Pending) -> bool:
        """Take one out; False when it is not there."""
        block = bisect_right(self._firsts, pending) - 1
        if block < 0:
            return False
        dues, offsets = self._dues[block], self._offsets[block]
        at = _place(dues, offsets, pending)
        if at == len(dues) or (dues[at], offsets[at]) != pending:
            return False
        del dues[at], offsets[at]
        self._count -= 1
        if len(dues) < BLOCK_COUNT_MIN:
            self._shrunk(block)
        elif at == 0:
            self._firsts[block] = Pending(dues[0], offsets[0])
        return True

    def due(self, now_ms: int, count_max: int) -> list[Pending]:
        """What is due at `now_ms`, first things first, at most `count_max`; it stays here."""
        return [each for each in self.after(START, count_max) if each.due_ms <= now_ms]

    def after(self, place: Pending, count_max: int) -> list[Pending]:
        """What comes after `place`, which itself need not be there, at most `count_max`."""
        items: list[Pending] = []
        block = max(0, bisect_right(self._firsts, place) - 1)
        while block < len(self._firsts) and len(items) < count_max:
            dues, offsets = self._dues[block], self._offsets[block]
            at = _place(dues, offsets, Pending(place.due_ms, place.offset + 1))
            end = at + count_max - len(items)
            items += map(Pending, dues[at:end], offsets[at:end])
            block += 1
        return items

    def counts_before(self, times_ms: Sequence[int]) -> list[int]:
        """How many are due before each of these times."""
        before = list(accumulate(map(len, self._dues), initial=0))
        counts: list[int] = []
        for time_ms in times_ms:
            block = max(0, bisect_right(self._firsts, Pending(time_ms, -1)) - 1)
            dues = self._dues[block] if self._dues else ()
            counts.append(before[block] + bisect_left(dues, time_ms))
        return counts

    def _split(self, block: int) -> None:
        half = len(self._dues[block]) // 2
        for column in (self._dues, self._offsets):
            column.insert(block + 1, column[block][half:])
            del column[block][half:]
        self._firsts.insert(block + 1, self._first_of(block + 1))

    def _shrunk(self, block: int) -> None:
        """Join a small block to a neighbour that has room, and drop an empty one."""
        into = block - 1 if block else 1
        if not self._dues[block]:
            del self._dues[block], self._offsets[block], self._firsts[block]
            return
        if into < len(self._dues) and len(self._dues[into]) <= BLOCK_COUNT_MAX // 2:
            block, removed = min(into, block), max(into, block)
            for column in (self._dues, self._offsets):
                column[block].extend(column.pop(removed))
            del self._firsts[removed]
        self._firsts[block] = self._first_of(block)

    def _first_of(self, block: int) -> Pending:
        return Pending(self._dues[block][0], self._offsets[block][0])


def _place(dues: "array[int]", offsets: "array[int]", pending: Pending) -> int:
    """Where in a block `pending` is, or belongs."""
    low = bisect_left(dues, pending.due_ms)
    high = bisect_right(dues, pending.due_ms, low)
    return bisect_left(offsets, pending.offset, low, high)
