"""Dead letters that a person dismissed, each with a note, kept in the journal.

A dismissed dead letter stays where it is and nothing is deleted: it is no longer listed as open,
and replay jobs leave it out unless they name it. Restoring it removes the mark.

A change is planned as a `DismissalPlan`, on any thread. Carrying the plan out is quick, however
many ranges of offsets it has.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.errors import Illegal, Invalid, Refused
from engine.legality import check_number, check_runs
from engine.replay.dismissed_offsets import (
    DismissedOffsets,
    DismissedRange,
    DismissNote,
    PackedDismissals,
    check_packed,
)
from engine.run_length import Runs, iter_runs
from engine.store.journal import Journal, JournalEntry
from engine.topic.catalog import Catalog

DISMISSALS_MAX = 10_000  # kept, of all groups together
SPANS_MAX = 100_000  # stretches of offsets, of all groups together
NOTE_CHARS_MAX = 500
NOTE_ID = re.compile("[0-9a-f]{1,15}")  # ms since 1970 UTC; a shorter one sorts before

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


class DeadPile(JournalEntry, frozen=True, tag="dead_pile"):
    """All that is dismissed of a topic, in a snapshot."""

    topic: str
    since_position: int
    packed: PackedDismissals


@dataclass(frozen=True)
class DismissalPlan:
    """A change of `count` dismissed offsets, from the value `before` to the value `after`."""

    entry: DeadDismissed | DeadRestored
    before: DismissedOffsets
    after: DismissedOffsets
    count: int

    @property
    def is_larger(self) -> bool:
        """Whether more has to be kept afterwards: restoring may cut a stretch in two."""
        more_spans = len(self.after) > len(self.before)
        return more_spans or self.after.note_count > self.before.note_count


def plan_dismissal(
    topic: str, dismissed_offsets: DismissedOffsets, runs: Iterable[range], note: DismissNote
) -> DismissalPlan:
    """To dismiss what of these ascending runs is not dismissed yet. Pure."""
    new = [each for run in runs for each in dismissed_offsets.free(run)]
    entry = DeadDismissed(
        topic=topic,
        since_position=dismissed_offsets.since_position,
        id=note.id,
        note=note.note,
        by=note.by,
        at_ms=note.at_ms,
        runs=_runs_of(new),
    )
    after = (
        dismissed_offsets.adding(DismissedRange(each.start, each.stop, note) for each in new)
        if new
        else dismissed_offsets
    )
    return DismissalPlan(entry, dismissed_offsets, after, sum(map(len, new)))


def plan_restoration(
    topic: str, dismissed_offsets: DismissedOffsets, runs: Iterable[range]
) -> DismissalPlan:
    """To restore what of these ascending runs is dismissed. Pure."""
    marked = [
        range(span.first, span.end)
        for run in runs
        for span in dismissed_offsets.within(run.start, run.stop)
    ]
    after = dismissed_offsets.without(marked) if marked else dismissed_offsets
    return DismissalPlan(
        DeadRestored(topic, _runs_of(marked)), dismissed_offsets, after, sum(map(len, marked))
    )


class DismissalStore:
    """Register it before the journal is loaded, `settle` it after recovery."""

    def __init__(self, journal: Journal, catalog: Catalog, bounds_of: BoundsOf) -> None:
        """`bounds_of` gives the first offset that a topic keeps, and the one after the last."""
        self._journal = journal
        self._catalog = catalog
        self._bounds_of = bounds_of
        self._piles: dict[str, DismissedOffsets] = {}
        # Read from the journal and not in the piles yet: many are put there in one go.
        self._loaded: dict[str, list[DismissedRange]] = {}
        self._newest = 0
        kinds = (DeadDismissed, DeadRestored, DeadPile)
        journal.register(kinds, self._apply, self._snapshot, _check)

    # -- looking ------------------------------------------------------------------------------

    def dismissed_offsets(self, topic: str) -> DismissedOffsets:
        """What is dismissed of a topic as it is now; an empty one where nothing is."""
        self._gather(topic)
        config = self._catalog.find(topic)
        dismissed_offsets = self._piles.get(topic)
        if (
            dismissed_offsets is None
            or config is None
            or dismissed_offsets.since_position < config.since_position
        ):
            return DismissedOffsets(0 if config is None else config.since_position)
        return dismissed_offsets

    def topics(self) -> list[str]:
        """The topics of which something is dismissed, or was."""
        return list(self._piles)

    # -- changing -----------------------------------------------------------------------------

    def new_note(self, note: str, by: str, now_ms: int) -> DismissNote:
        """A note for a dismissal to come, with an id that no other has; Invalid."""
        self._newest = max(now_ms, self._newest + 1)
        return note_of(note, by, now_ms, self._newest)

    def commit(self, plan: DismissalPlan) -> bool:
        """Carry a draft out; False where the pile has changed since. Raises Refused, DiskFull."""
        topic = plan.entry.topic
        if not self.dismissed_offsets(topic).is_same(plan.before):
            return False
        if plan.count:
            if plan.is_larger:
                self._make_room(plan)
            self._journal.append(plan.entry, is_lasting=True)
            self._piles[topic] = plan.after
        return True

    def settle(self) -> None:
        """After recovery: what a power loss took is not dismissed where offsets are given anew."""
        for topic in self.topics():
            dismissed_offsets = self.dismissed_offsets(topic)
            end = self._bounds_of(topic)[1]
            if dismissed_offsets.end > end:
                self.commit(
                    plan_restoration(topic, dismissed_offsets, [range(end, dismissed_offsets.end)])
                )
            self.dismissed_offsets(topic).with_bits()

    # -- inside -------------------------------------------------------------------------------

    def _make_room(self, plan: DismissalPlan) -> None:
        if self._has_room(plan):
            return
        self._tidy()
        if not self._has_room(plan):
            raise Refused(
                f"at most {DISMISSALS_MAX:,} dismissals and {SPANS_MAX:,} stretches of offsets"
                " are kept",
                field="offsets",
                remedy="restore some, or choose neighbours together: all, or by time",
            )

    def _has_room(self, plan: DismissalPlan) -> bool:
        piles = [
            dismissed_offsets
            for topic, dismissed_offsets in self._piles.items()
            if topic != plan.entry.topic
        ]
        piles.append(plan.after)
        notes = sum(dismissed_offsets.note_count for dismissed_offsets in piles)
        return sum(map(len, piles)) <= SPANS_MAX and notes <= DISMISSALS_MAX

    def _tidy(self) -> None:
        """Forget what retention took, and topics that are no more: offsets never come back."""
        for topic in self.topics():
            dismissed_offsets = self.dismissed_offsets(topic)
            if dismissed_offsets is self._piles[topic]:
                self._piles[topic] = dismissed_offsets.from_offset(self._bounds_of(topic)[0])
            else:
                del self._piles[topic]

    def _gather(self, topic: str) -> None:
        """Put what was read from the journal into the pile."""
        spans = self._loaded.pop(topic, None)
        if spans:
            spans.sort(key=lambda span: span.first)
            self._piles[topic] = self._piles[topic].adding(spans)

    def _apply(self, entry: JournalEntry) -> None:
        match entry:
            case DeadPile():
                self._piles[entry.topic] = DismissedOffsets.unpacked(
                    entry.since_position, entry.packed
                )
                ids = [note.id for note in entry.packed.notes]
                self._newest = max([self._newest, *(int(each, 16) for each in ids)])
            case DeadDismissed():
                dismissed_offsets = self._piles.get(entry.topic)
                if (
                    dismissed_offsets is None
                    or dismissed_offsets.since_position < entry.since_position
                ):
                    self._piles[entry.topic] = DismissedOffsets(entry.since_position)
                    self._loaded.pop(entry.topic, None)
                note = DismissNote(entry.id, entry.note, entry.by, entry.at_ms)
                self._newest = max(self._newest, int(entry.id, 16))
                spans = (DismissedRange(run.start, run.stop, note) for run in iter_runs(entry.runs))
                self._loaded.setdefault(entry.topic, []).extend(spans)
            case DeadRestored() if entry.topic in self._piles:
                self._gather(entry.topic)
                self._piles[entry.topic] = self._piles[entry.topic].without(iter_runs(entry.runs))

    def _snapshot(self) -> Iterable[JournalEntry]:
        self._tidy()
        for topic, dismissed_offsets in self._piles.items():
            if len(dismissed_offsets):
                yield DeadPile(topic, dismissed_offsets.since_position, dismissed_offsets.packed())


def _check(entry: DeadDismissed | DeadRestored | DeadPile) -> None:
    """Raises Illegal for a change that no pile can take."""
    if isinstance(entry, DeadPile):
        check_number("since_position", entry.since_position)
        check_packed(entry.packed)
        _check_ids(note.id for note in entry.packed.notes)
        return
    check_runs(entry.runs)
    if isinstance(entry, DeadDismissed):
        check_number("since_position", entry.since_position)
        check_number("at_ms", entry.at_ms)
        _check_ids([entry.id])


def _check_ids(ids: Iterable[str]) -> None:
    for each in ids:
        if not NOTE_ID.fullmatch(each):
            raise Illegal(f"{each[:40]!r} is no id of a note")


def note_of(note: str, by: str, now_ms: int, number: int) -> DismissNote:
    """The note of that number; Invalid."""
    note = note.strip()
    check_note(note)
    return DismissNote(f"{number:012x}", note, by, now_ms)


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
