"""The finished (released, recalled, moved) messages: a floor, and marks above it.

Everything before the floor is finished. Above it each offset up to the last finished one has a
mark of one byte; the deliverer keeps that stretch short by moving old messages to the queue's end.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.finished_offsets import FinishedOffsets, check_marks
from engine.legality import NUMBER_MAX, check_number, check_runs
from engine.message import SOURCE, StoredMessage
from engine.run_length import iter_runs, to_runs
from engine.schedule.timer import TIMER_QUEUE
from engine.store.journal import Journal, JournalEntry
from engine.topic.names import TIMER_TOPIC

SOURCE_PREFIX = f"@{TIMER_TOPIC}@{TIMER_QUEUE}@"
NOWHERE = -1


class TimerMove(NamedTuple):
    """A record that came from the timer queue: what it left, and where it lies itself.

    `root` is the offset of an earlier record, see `source_text`; `own` that of this, if it waits.
    """

    offset: int
    root: int
    own: int
    position: int
    end: int


class TimersFinished(JournalEntry, frozen=True, tag="timers_finished"):
    """These need no release any more: first offset and count, again and again.

    `record_end` is where the log ended after what they became was written, 0 if it was nothing.
    """

    runs: list[int]
    record_end: int = 0

    @property
    def follows(self) -> int:
        return self.record_end


class TimersCut(JournalEntry, frozen=True, tag="timers_cut"):
    """The timer queue ends at `offset`: a power loss took what came after."""

    offset: int


class TimersKept(JournalEntry, frozen=True, tag="timers_kept"):
    """All of it: the floor, and the marks above it, compressed."""

    floor: int
    marks: bytes


class TimerProgress:
    """Kept in the journal; a change is in force once its verb returned."""

    def __init__(
        self, journal: Journal, offset_max: Callable[[], int] = lambda: NUMBER_MAX
    ) -> None:
        """No message of the timer queue has an offset past `offset_max`."""
        self._journal = journal
        self._offset_max = offset_max
        self._stretch = FinishedOffsets()
        self._moves: list[TimerMove] = []  # what recovery found
        kinds = (TimersFinished, TimersCut, TimersKept)
        journal.register(kinds, self._apply, self._snapshot, self._check)

    def replayed(self, message: StoredMessage) -> None:
        """Recovery found this record: if it came from the timer queue, its place is finished."""
        source = message.properties.get(SOURCE, "")
        if source.startswith(SOURCE_PREFIX):
            offset, root = _parse_source(source)
            own = message.offset if message.topic == TIMER_TOPIC else NOWHERE
            end = message.position + message.size_bytes
            self._moves.append(TimerMove(offset, root, own, message.position, end))

    def settle(self, first: int, end: int, position_of: Callable[[int], int]) -> None:
        """After recovery: the timer queue holds offsets `first` to `end` - 1, nothing else.

        `position_of` tells where the record of an offset lies, a negative number for nowhere.
        """
        if self._stretch.end > end:
            self._write(TimersCut(end))
        if self.floor < first:
            self._write(TimersFinished([self.floor, first - self.floor]))
        left = {
            offset
            for offset, position in _left(self._moves)
            if not self.is_finished(offset) and 0 <= position_of(offset) < position
        }
        if left:
            self.finish(list(left), record_end=max(move.end for move in self._moves))
        self._moves = []

    @property
    def floor(self) -> int:
        """Everything before it is finished."""
        return self._stretch.floor

    def is_finished(self, offset: int) -> bool:
        return self._stretch.is_finished(offset)

    def unfinished(self, count_max: int, end: int) -> list[int]:
        """The first offsets before `end` that are not finished, at most `count_max`."""
        return self._stretch.unfinished(self.floor, count_max, end)

    def finish(self, offsets: Sequence[int], *, record_end: int = 0) -> None:
        """These are finished; `record_end` as in TimersFinished, and then it cannot be refused.

        Raises DiskFull or Corrupt, and nothing has changed.
        """
        self._write(TimersFinished(to_runs(sorted(set(offsets))), record_end))

    def _write(self, entry: TimersFinished | TimersCut) -> None:
        is_owed = isinstance(entry, TimersFinished) and entry.record_end > 0
        self._journal.append(entry, is_owed=is_owed)
        self._apply(entry)

    def _check(self, entry: TimersFinished | TimersCut | TimersKept) -> None:
        """Raises Illegal for what the queue cannot hold: a mark costs a byte of memory."""
        most = self._offset_max()
        if isinstance(entry, TimersKept):
            check_number("floor", entry.floor, most)
            check_marks(entry.marks, most - entry.floor)
        elif isinstance(entry, TimersCut):
            check_number("offset", entry.offset)
        else:
            check_number("record_end", entry.record_end)
            check_runs(entry.runs, most)

    def _apply(self, entry: TimersFinished | TimersCut | TimersKept) -> None:
        if isinstance(entry, TimersKept):
            self._stretch = FinishedOffsets(entry.floor, zlib.decompress(entry.marks))
        elif isinstance(entry, TimersCut):
            self._stretch.cut(entry.offset)
        else:
            for run in iter_runs(entry.runs):
                self._stretch.mark(run.start, len(run))

    def _snapshot(self) -> Iterable[JournalEntry]:
        return [TimersKept(self.floor, zlib.compress(self._stretch.marks, 1))]


def source_text(stored: StoredMessage, flushed: int) -> str:
    """Names the place that a record leaves, and its root; the log is on disk up to `flushed`.

    A power loss may take a record in the middle of a message's way and leave one after it, which
    is then the proof for the ones before: the root is the last of those that no loss can take.
    """
    source = stored.properties.get(SOURCE, "")
    is_safe = stored.position + stored.size_bytes <= flushed
    root = stored.offset
    if not is_safe and source.startswith(SOURCE_PREFIX):
        root = _parse_source(source)[1]
    return f"{SOURCE_PREFIX}{stored.offset},{root}"


def _parse_source(text: str) -> tuple[int, int]:
    offset, _, root = text.removeprefix(SOURCE_PREFIX).partition(",")
    return int(offset), int(root)


def _left(moves: Sequence[TimerMove]) -> Iterator[tuple[int, int]]:
    """Offsets that a record at a later position proves to be left behind, and that position."""
    newest: dict[int, int] = {}
    for move in moves:
        newest[move.root] = max(move.position, newest.get(move.root, 0))
    for move in moves:
        yield move.offset, move.position
        yield move.root, newest[move.root]
        if move.own >= 0:
            yield move.own, newest[move.root]
