"""Immutable snapshot of the dismissed dead letters of a group, for work off the event loop.

Nothing is read from the store, so tens of thousands of ranges can be looked through on another
thread.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from engine.replay.dismissals import DismissalPlan, plan_dismissal, plan_restoration
from engine.replay.dismissed_offsets import DismissedOffsets, DismissNote


class DismissalSummary(msgspec.Struct, frozen=True):
    """What was dismissed together, as far as it still is and is kept: `count` dead letters."""

    id: str
    note: str
    by: str
    at_ms: int
    count: int


class DismissalSnapshot:
    """Of the dead letters from offset `first` to `end` - 1, which are what the group has."""

    def __init__(
        self, topic: str, dismissed_offsets: DismissedOffsets, first: int, end: int
    ) -> None:
        self.first = first
        self.end = end
        self._topic = topic
        self._dismissed_offsets = dismissed_offsets

    @property
    def count(self) -> int:
        """How many dead letters are dismissed."""
        return self._dismissed_offsets.count(self.first, self.end)

    def counts(self, runs: Iterable[range]) -> tuple[int, int]:
        """How many dead letters lie in these runs, in any order, and how many are dismissed."""
        ranges = self._ranges_in_topic(runs)
        return sum(map(len, ranges)), sum(
            self._dismissed_offsets.count(run.start, run.stop) for run in ranges
        )

    def has(self, offset: int) -> bool:
        """Whether this dead letter is dismissed."""
        return self._dismissed_offsets.note_of(offset) is not None

    def dismissals(self) -> list[DismissalSummary]:
        """What was dismissed together, the newest first."""
        counts = self._dismissed_offsets.tally(self.first, self.end)
        newest = sorted(counts.items(), key=lambda pair: pair[0].id, reverse=True)
        return [summary_of(note, count) for note, count in newest]

    def of(self, dismissal_id: str) -> tuple[DismissNote | None, list[range]]:
        """The note of a dismissal, and the ranges that are still dismissed by it."""
        note: DismissNote | None = None
        runs: list[range] = []
        for span in self._dismissed_offsets.within(self.first, self.end):
            if span.note.id == dismissal_id:
                note = span.note
                runs.append(range(span.first, span.end))
        return note, runs

    def plan_dismissal(self, runs: Iterable[range], note: DismissNote) -> DismissalPlan:
        """A plan to dismiss those of these runs, in any order, that are open."""
        return self._trimmed(
            plan_dismissal(self._topic, self._dismissed_offsets, self._ranges_in_topic(runs), note)
        )

    def plan_restoration(self, runs: Iterable[range]) -> DismissalPlan:
        """A plan to restore those of these runs, in any order, that are dismissed."""
        return self._trimmed(
            plan_restoration(self._topic, self._dismissed_offsets, self._ranges_in_topic(runs))
        )

    def _trimmed(self, plan: DismissalPlan) -> DismissalPlan:
        """Without what retention took the dead letters of, and with its bits made here."""
        return replace(plan, after=plan.after.from_offset(self.first).with_bits())

    def _ranges_in_topic(self, runs: Iterable[range]) -> list[range]:
        """The runs cut to what is kept, ascending and none over another."""
        ranges: list[range] = []
        done = self.first
        for run in sorted(runs, key=lambda run: run.start):
            first, end = max(run.start, done), min(run.stop, self.end)
            if first < end:
                ranges.append(range(first, end))
                done = end
        return ranges


def summary_of(note: DismissNote, count: int) -> DismissalSummary:
    """How many one note stands for."""
    return DismissalSummary(note.id, note.note, note.by, note.at_ms, count)
