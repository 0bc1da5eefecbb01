"""The frozen selection of a job: its messages as (queue, offset), each with an index from 0.

Queue by queue, offsets ascending. Nothing that arrives later is swept in. Kept as runs of offsets
without a gap, so that a time range of millions is a few numbers.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

NUMBER_BYTES = 8


class OffsetRange(NamedTuple):
    """Offsets `first` to `first` + `length` - 1 of one queue."""

    queue: int
    first: int
    length: int


class SelectedRange(NamedTuple):
    """These offsets of one queue; `nth` is the index of the first."""

    nth: int
    queue: int
    offsets: range


class FrozenSelection:
    """Never changes; `count` messages, of which index `i` is the one at `place(i)`."""

    def __init__(self, runs: Iterable[OffsetRange]) -> None:
        """`runs` are ordered by queue and offset, and do not overlap."""
        self._take(array("q", chain.from_iterable(runs)))

    @classmethod
    def unpack(cls, data: bytes) -> "FrozenSelection":
        """What `pack` gave."""
        numbers = array("q")
        numbers.frombytes(data)
        frozen = cls.__new__(cls)
        frozen._take(numbers)
        return frozen

    def _take(self, numbers: "array[int]") -> None:
        self._queues = numbers[::3]
        self._firsts = numbers[1::3]
        # Index of each run's first message, and after the last one's.
        self._begins = array("q", accumulate(numbers[2::3], initial=0))
        self.count = self._begins.pop()
        # Queue to the slice of its runs.
        self._bounds = {
            queue: (bisect_left(self._queues, queue), bisect_right(self._queues, queue))
            for queue in dict.fromkeys(self._queues)
        }

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        return 3 * NUMBER_BYTES * len(self._firsts)

    @property
    def queues(self) -> list[int]:
        """The queues of which it has messages."""
        return list(self._bounds)

    def end_of(self, queue: int) -> int:
        """One past its last offset in a queue."""
        last = self._bounds[queue][1] - 1
        return self._firsts[last] + self._count_of(last)

    def place(self, index: int) -> tuple[int, int]:
        """Queue and offset of the message with this index."""
        run = bisect_right(self._begins, index) - 1
        return self._queues[run], self._firsts[run] + index - self._begins[run]

    def index_of(self, queue: int, offset: int) -> int | None:
        """The index of a place; None where it was not chosen."""
        return next((each.nth for each in self.within(queue, offset, offset + 1)), None)

    def stretches(self, index: int, count_max: int) -> Iterator[SelectedRange]:
        """At most `count_max` messages from an index on, in pieces without a gap."""
        run = bisect_right(self._begins, index) - 1
        end = min(self.count, index + count_max)
        while index < end:
            first = self._firsts[run] + index - self._begins[run]
            count = min(self._begins[run] + self._count_of(run), end) - index
            yield SelectedRange(index, self._queues[run], range(first, first + count))
            index += count
            run += 1

    def within(self, queue: int, first: int, end: int) -> Iterator[SelectedRange]:
        """What it has of the offsets `first` to `end` - 1 of a queue."""
        low, high = self._bounds.get(queue, (0, 0))
        run = max(low, bisect_right(self._firsts, first, low, high) - 1)
        while run < high and self._firsts[run] < end:
            start = max(first, self._firsts[run])
            stop = min(end, self._firsts[run] + self._count_of(run))
            if start < stop:
                index = self._begins[run] + start - self._firsts[run]
                yield SelectedRange(index, queue, range(start, stop))
            run += 1

    def _count_of(self, run: int) -> int:
        is_last = run + 1 == len(self._begins)
        return (self.count if is_last else self._begins[run + 1]) - self._begins[run]


def pack(runs: Iterable[OffsetRange]) -> bytes:
    """Queue, first offset and count of each run, 8 bytes each in the machine's order."""
    return array("q", chain.from_iterable(runs)).tobytes()


def unpack(data: bytes) -> list[OffsetRange]:
    """What `pack` was given."""
    numbers = array("q")
    numbers.frombytes(data)
    return list(map(OffsetRange, numbers[::3], numbers[1::3], numbers[2::3]))


def runs_of(places: Iterable[tuple[int, int]]) -> list[OffsetRange]:
    """Places as (queue, offset), in any order and perhaps twice, as runs."""
    runs: list[OffsetRange] = []
    for queue, offset in sorted(set(places)):
        if runs and runs[-1].queue == queue and runs[-1].first + runs[-1].length == offset:
            runs[-1] = runs[-1]._replace(length=runs[-1].length + 1)
        else:
            runs.append(OffsetRange(queue, offset, 1))
    return runs


def merged(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Ranges in any order, perhaps overlapping or empty, as runs."""
    runs: list[OffsetRange] = []
    for run in sorted(ranges):
        if run.length <= 0:
            continue
        last = runs[-1] if runs else None
        if last is not None and last.queue == run.queue and run.first <= last.first + last.length:
            length = max(last.length, run.first + run.length - last.first)
            runs[-1] = last._replace(length=length)
        else:
            runs.append(run)
    return runs


def count_of(runs: Sequence[OffsetRange]) -> int:
    """How many messages."""
    return sum(run.length for run in runs)
