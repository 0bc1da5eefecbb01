"""The messages taken out of a delay level before their turn: recalled, delivered or moved.

A level is released from its head on, so that one offset is its progress. What leaves it out of turn
is marked here, in the journal, until the level passes it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from engine.errors import Busy
from engine.legality import OFFSETS_MAX, check_number
from engine.store.journal import Journal, JournalEntry

TAKEN_MAX = 100_000  # marks of all levels together
RETRY_AFTER_S = 60.0
OFFSET_END = 1 << 62  # after every offset


class LevelTaken(JournalEntry, frozen=True, tag="level_taken"):
    """These messages of a level are not released when they are due.

    `record_end` is where the log ended after what they became was written, 0 if it was nothing.
    """

    queue: int
    offsets: list[int]
    record_end: int = 0

    @property
    def follows(self) -> int:
        return self.record_end


class LevelCut(JournalEntry, frozen=True, tag="level_cut"):
    """The queue of a level ends at `offset`: a power loss took what came after."""

    queue: int
    offset: int


class TakenOffsets:
    """Kept in the journal; a change is in force once its verb returned."""

    def __init__(self, journal: Journal, queues: int) -> None:
        self._journal = journal
        self._offsets: list[list[int]] = [[] for _ in range(queues)]  # ascending
        self._passed = [0] * queues  # by level: all before is past, and has no marks
        kinds = (LevelTaken, LevelCut)
        journal.register(kinds, self._apply, self._snapshot, self._check)

    def settle(self, end_of: Callable[[int], int]) -> None:
        """After recovery: forget the marks past the end of each queue."""
        for queue, offsets in enumerate(self._offsets):
            if offsets and offsets[-1] >= end_of(queue):
                self._write(LevelCut(queue, end_of(queue)))

    def is_taken(self, queue: int, offset: int) -> bool:
        offsets = self._offsets[queue]
        at = bisect_left(offsets, offset)
        return at < len(offsets) and offsets[at] == offset

    def count(self, queue: int, *, before: int = OFFSET_END) -> int:
        """Number of marks in a queue before an offset, all ahead of what its level has passed."""
        return bisect_left(self._offsets[queue], before)

    def check_room(self) -> None:
        """Raises Busy while there are as many marks as there may be."""
        if sum(map(len, self._offsets)) >= TAKEN_MAX:
            raise Busy(
                f"{TAKEN_MAX:,} messages were taken out of delay levels before their turn",
                retry_after_s=RETRY_AFTER_S,
            )

    def take(self, queue: int, offsets: Sequence[int], *, record_end: int = 0) -> None:
        """Mark these; with a `record_end` it cannot be refused, else DiskFull or Corrupt."""
        self._write(LevelTaken(queue, list(offsets), record_end))

    def passed(self, queue: int, offset: int) -> None:
        """The level has passed what lies before `offset`, and its marks with it."""
        self._passed[queue] = offset
        offsets = self._offsets[queue]
        del offsets[: bisect_left(offsets, offset)]

    def _write(self, entry: LevelTaken | LevelCut) -> None:
        is_owed = isinstance(entry, LevelTaken) and entry.record_end > 0
        self._journal.append(entry, is_owed=is_owed)
        self._apply(entry)

    def _check(self, entry: LevelTaken | LevelCut) -> None:
        """Raises Illegal for a level that there is not, and for no offset."""
        check_number("queue", entry.queue, len(self._offsets) - 1)
        if isinstance(entry, LevelCut):
            check_number("offset", entry.offset)
        else:
            check_number("record_end", entry.record_end)
            check_number("count", len(entry.offsets), OFFSETS_MAX)
            for offset in entry.offsets:
                check_number("offsets", offset)

    def _apply(self, entry: LevelTaken | LevelCut) -> None:
        offsets = self._offsets[entry.queue]
        if isinstance(entry, LevelCut):
            del offsets[bisect_left(offsets, entry.offset) :]
            return
        for offset in entry.offsets:
            at = bisect_left(offsets, offset)
            is_new = at == len(offsets) or offsets[at] != offset
            if is_new and offset >= self._passed[entry.queue]:
                offsets.insert(at, offset)

    def _snapshot(self) -> Iterable[JournalEntry]:
        marks = enumerate(self._offsets)
        return [LevelTaken(queue, offsets) for queue, offsets in marks if offsets]
