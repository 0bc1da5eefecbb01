"""Dead letters that a person has decided to let rest, each with a note, kept in the journal.

A dismissed dead letter stays where it is: nothing is deleted, it only asks for nobody's attention,
and jobs leave it out unless they name it. To restore it takes the mark off again.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from engine.errors import Invalid, Refused
from engine.runs import Runs, iter_runs
from engine.store.journal import Journal, JournalEntry
from engine.topic.catalog import Catalog

DISMISSALS_MAX = 10_000  # kept, of all groups together
SPANS_MAX = 100_000  # stretches of offsets, of all groups together
NOTE_CHARS_MAX = 500

BoundsOf = Callable[[str], tuple[int, int]]


class DeadDismissed(JournalEntry, frozen=True, tag="dead_dismissed"):
    """These offsets of a dead-letter topic were dismissed; runs of (first, count)."""

    topic: str
    since_position: int
    id: str
    note: str
    by: str
    at_ms: int
    runs: Runs


class DeadRestored(JournalEntry, frozen=True, tag="dead_restored"):
    """These offsets are dismissed no more; runs of (first, count)."""

    topic: str
    runs: Runs


class DismissNote(msgspec.Struct, frozen=True):
    """Who dismissed something, when, and why."""

    id: str
    note: str
    by: str
    at_ms: int


class Span(NamedTuple):
    """Offsets `first` to `end` - 1, with the note they were dismissed with."""

    first: int
    end: int
    note: DismissNote


class Pile:
    """What is dismissed of one topic: spans in order, none over another."""

    def __init__(self, since_position: int) -> None:
        self.since_position = since_position  # tells the topic from a later one of its name
        self.spans: list[Span] = []

    def add(self, runs: Iterable[range], note: DismissNote) -> None:
        """Dismiss what of these ascending runs is not dismissed yet."""
        new = [Span(each.start, each.stop, note) for run in runs for each in self.free(run)]
        self.spans = sorted(self.spans + new)

    def take(self, runs: Iterable[range]) -> None:
        """Take these ascending runs out."""
        for run in runs:
            low, high = self._reach(run.start, run.stop)
            left = [
                Span(first, end, span.note)
                for span in self.spans[low:high]
                for first, end in (
                    (span.first, min(span.end, run.start)),
                    (max(span.first, run.stop), span.end),
                )
                if first < end
            ]
            self.spans[low:high] = left

    def free(self, run: range) -> list[range]:
        """What of a run is not dismissed."""
        found: list[range] = []
        start = run.start
        for span in self.within(run.start, run.stop):
            if start < span.first:
                found.append(range(start, span.first))
            start = span.end
        if start < run.stop:
            found.append(range(start, run.stop))
        return found

    def within(self, first: int, end: int) -> Iterator[Span]:
        """The spans, cut to the offsets `first` to `end` - 1."""
        low, high = self._reach(first, end)
        for span in self.spans[low:high]:
            yield Span(max(span.first, first), min(span.end, end), span.note)

    def count(self, first: int, end: int) -> int:
        """How many of these offsets are dismissed."""
        return sum(span.end - span.first for span in self.within(first, end))

    def _reach(self, first: int, end: int) -> tuple[int, int]:
        """Which spans touch the offsets `first` to `end` - 1."""
        low = bisect_right(self.spans, first, key=lambda span: span.end)
        return low, max(low, bisect_right(self.spans, end - 1, key=lambda span: span.first))


class Dismissals:
    """Register it before the journal is loaded, `settle` it after recovery."""

    def __init__(self, journal: Journal, catalog: Catalog, bounds_of: BoundsOf) -> None:
        """`bounds_of` gives the first offset that a topic keeps, and the one after the last."""
        self._journal = journal
        self._catalog = catalog
        self._bounds_of = bounds_of
        self._piles: dict[str, Pile] = {}
        self._newest = 0
        journal.register((DeadDismissed, DeadRestored), self._apply, self._snapshot)

    # -- looking ------------------------------------------------------------------------------

    def pile(self, topic: str) -> Pile:
        """What is dismissed of a topic as it is now; an empty one where nothing is."""
        config = self._catalog.find(topic)
        pile = self._piles.get(topic)
        if pile is None or config is None or pile.since_position < config.since_position:
            return Pile(0 if config is None else config.since_position)
        return pile

    def topics(self) -> list[str]:
        """The topics of which something is dismissed, or was."""
        return list(self._piles)

    def notes(self, topic: str, first: int, end: int) -> dict[int, DismissNote]:
        """The offsets `first` to `end` - 1 that are dismissed, each with its note."""
        return {
            offset: span.note
            for span in self.pile(topic).within(first, end)
            for offset in range(span.first, span.end)
        }

    # -- changing -----------------------------------------------------------------------------

    def dismiss(
        self, topic: str, runs: Sequence[range], *, note: str, by: str, now_ms: int
    ) -> tuple[DismissNote, int]:
        """Dismiss what of these is not yet; how many that were. Raises Invalid, Refused."""
        note = note.strip()
        check_note(note)
        pile = self.pile(topic)
        new = [each for run in runs for each in pile.free(run)]
        kept = DismissNote(f"{max(now_ms, self._newest + 1):012x}", note, by, now_ms)
        if new:
            self._make_room(len(new))
            entry = DeadDismissed(
                topic, pile.since_position, kept.id, note, by, now_ms, _runs_of(new)
            )
            self._write(entry)
        return kept, sum(map(len, new))

    def restore(self, topic: str, runs: Sequence[range]) -> int:
        """Take the marks off again; how many there were."""
        pile = self.pile(topic)
        marked = [
            range(span.first, span.end) for run in runs for span in pile.within(run.start, run.stop)
        ]
        if marked:
            self._write(DeadRestored(topic, _runs_of(marked)))
        return sum(map(len, marked))

    def settle(self) -> None:
        """After recovery: what a power loss took is not dismissed where offsets are given anew."""
        for topic, pile in list(self._piles.items()):
            if pile is not self.pile(topic):
                continue
            end = self._bounds_of(topic)[1]
            if pile.spans and pile.spans[-1].end > end:
                self._write(DeadRestored(topic, [end, pile.spans[-1].end - end]))

    # -- inside -------------------------------------------------------------------------------

    def _make_room(self, count: int) -> None:
        if self._has_room(count):
            return
        self._tidy()
        if not self._has_room(count):
            raise Refused(
                f"at most {DISMISSALS_MAX:,} dismissals and {SPANS_MAX:,} stretches of offsets"
                " are kept",
                field="offsets",
                remedy="restore some, or dismiss neighbours together: all, or by time",
            )

    def _has_room(self, count: int) -> bool:
        spans = sum(len(pile.spans) for pile in self._piles.values())
        ids = {span.note.id for pile in self._piles.values() for span in pile.spans}
        return spans + count <= SPANS_MAX and len(ids) < DISMISSALS_MAX

    def _tidy(self) -> None:
        """Forget what retention took, and topics that are no more: offsets never come back."""
        for topic, pile in list(self._piles.items()):
            if pile is not self.pile(topic):
                del self._piles[topic]
                continue
            pile.take([range(self._bounds_of(topic)[0])])

    def _write(self, entry: JournalEntry) -> None:
        self._journal.append(entry, is_lasting=True)
        self._apply(entry)

    def _apply(self, entry: JournalEntry) -> None:
        match entry:
            case DeadDismissed():
                pile = self._piles.get(entry.topic)
                if pile is None or pile.since_position < entry.since_position:
                    pile = self._piles[entry.topic] = Pile(entry.since_position)
                note = DismissNote(entry.id, entry.note, entry.by, entry.at_ms)
                self._newest = max(self._newest, int(entry.id, 16))
                pile.add(iter_runs(entry.runs), note)
            case DeadRestored() if entry.topic in self._piles:
                self._piles[entry.topic].take(iter_runs(entry.runs))

    def _snapshot(self) -> Iterable[JournalEntry]:
        self._tidy()
        for topic, pile in self._piles.items():
            runs: dict[DismissNote, list[range]] = {}
            for span in pile.spans:
                runs.setdefault(span.note, []).append(range(span.first, span.end))
            for note, found in runs.items():
                yield DeadDismissed(
                    topic,
                    pile.since_position,
                    note.id,
                    note.note,
                    note.by,
                    note.at_ms,
                    _runs_of(found),
                )


def check_note(note: str) -> None:
    """Invalid for a note that says nothing, or too much."""
    if not note or len(note) > NOTE_CHARS_MAX or not note.isprintable():
        raise Invalid(
            f"a note has 1 to {NOTE_CHARS_MAX} printable characters, on one line",
            field="note",
            remedy="say in a few words why nothing is to be done",
        )


def _runs_of(ranges: Iterable[range]) -> Runs:
    return [number for each in ranges for number in (each.start, len(each))]
