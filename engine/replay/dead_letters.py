"""Dead letters as a person looks at them: each with its cause, and what was done about it."""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from engine.clock import Clock
from engine.delivery.filter import ALL_TEXT, parse_filter
from engine.errors import GroupNotFound, MessageNotFound
from engine.message import (
    FAILED_CLIENT,
    FAILED_ERROR,
    FAILED_REASON,
    REDRIVEN_JOB,
    StoredMessage,
)
from engine.replay.copying import origin_id_of, origin_of, times_of
from engine.replay.dismissals import Dismissals, DismissNote, Span
from engine.replay.marks import Marks
from engine.replay.selection import Run, merged
from engine.store.consume_queue import Entry
from engine.store.store import Store
from engine.topic.catalog import Catalog
from engine.topic.names import dead_letter_topic

QUEUE = 0
PAGE_MAX = 200
EXAMINED_MAX = 500  # for one page ...
EXAMINED_BYTES_MAX = 1024 * 1024  # ... and their records' size, but for the first


class DeadLetter(msgspec.Struct, frozen=True):
    """One dead letter. `failures` counts its deliveries, `reason` is a Reason's value.

    `origin_id` is the offset id of the record first sent. `redriven_by` are the jobs that sent it
    again from here; `returned_from` is the job that sent it before it came back dead, and `times`
    how many jobs had by then. `dismissed` says who let it rest, and why.
    """

    message: StoredMessage
    reason: str
    error: str
    client: str
    failures: int
    origin_topic: str
    origin_id: str
    redriven_by: list[str]
    returned_from: str
    times: int
    dismissed: DismissNote | None = None


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Dead letters, the newest first; ask again `after` the offset `next`, None at the end.

    `count` is how many the group has, without conditions.
    """

    items: list[DeadLetter]
    next: int | None
    count: int


class Tally(msgspec.Struct, frozen=True):
    """How many of the dead letters looked at have what; go on `after` the offset `next`."""

    examined: int
    reasons: dict[str, int]
    topics: dict[str, int]
    clients: dict[str, int]
    redriven: int
    returned: int
    dismissed: int
    next: int | None


class Dismissed(msgspec.Struct, frozen=True):
    """What was dismissed together, as far as it still is and is kept: `count` dead letters."""

    id: str
    note: str
    by: str
    at_ms: int
    count: int


class DeadLetters:
    """To look at them, and to let them rest; to send them again is a replay job."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        marks: Marks,
        dismissals: Dismissals,
        clock: Clock,
        *,
        has_group: Callable[[str], bool],
        check_running: Callable[[], None],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._marks = marks
        self._dismissals = dismissals
        self._clock = clock
        self._has_group = has_group
        self._check_running = check_running

    def page(
        self,
        group: str,
        *,
        after: int | None = None,
        count_max: int = 50,
        reason: str = "",
        topic: str = "",
        filter: str = ALL_TEXT,
        dismissed: bool | None = None,
    ) -> DeadLetterPage:
        """Dead letters of a group, those that meet all conditions, at most 200.

        At most 500 and 1 MiB are looked at, so a page may be short or empty although `next` says
        that there is more. Raises GroupNotFound, Invalid.
        """
        match = parse_filter(filter)
        name, first, end = self._bounds(group)
        count_max = max(1, min(count_max, PAGE_MAX))
        items: list[DeadLetter] = []
        offset = end if after is None else min(after, end)
        pile = self._dismissals.pile(name)
        for stored, at in self._newest_first(name, first, offset):
            offset = at
            if stored is None or not match.matches(stored):
                continue
            if dismissed is not None and dismissed is not bool(pile.count(at, at + 1)):
                continue
            if reason and stored.properties.get(FAILED_REASON, "") != reason:
                continue
            if topic and origin_of(stored) != topic:
                continue
            items.append(self._shown(stored))
            if len(items) == count_max:
                break
        return DeadLetterPage(
            self._marked(name, items), offset if offset > first else None, end - first
        )

    def get(self, group: str, offset: int) -> DeadLetter:
        """One dead letter; raises GroupNotFound, MessageNotFound."""
        name, first, end = self._bounds(group)
        if first <= offset < end:
            for stored, at in self._newest_first(name, offset, offset + 1):
                if stored is not None and at == offset:
                    return self._marked(name, [self._shown(stored)])[0]
        raise MessageNotFound(
            f"the group {group!r} has no dead letter at offset {offset}",
            field="offset",
            remedy="list them",
        )

    def tally(
        self,
        group: str,
        *,
        after: int | None = None,
        count_max: int = EXAMINED_MAX,
        with_dismissed: bool = True,
    ) -> Tally:
        """Counts over the newest, at most 500 and 1 MiB in one call. Raises GroupNotFound.

        Without the dismissed ones causes and returns are counted over the others alone.
        """
        name, first, end = self._bounds(group)
        reasons, topics, clients = Counter[str](), Counter[str](), Counter[str]()
        offset = start = end if after is None else max(first, min(after, end))
        returned = 0
        pile = self._dismissals.pile(name)
        for stored, at in self._newest_first(name, max(first, start - count_max), start):
            offset = at
            if stored is None or (pile.count(at, at + 1) and not with_dismissed):
                continue
            properties = stored.properties
            reasons[properties.get(FAILED_REASON, "")] += 1
            topics[origin_of(stored)] += 1
            clients[properties.get(FAILED_CLIENT, "")] += 1
            returned += REDRIVEN_JOB in properties
        redriven = len(self._marks.within(name, QUEUE, offset, start))
        dismissed = pile.count(offset, start)
        following = offset if offset > first else None
        return Tally(
            start - offset, reasons, topics, clients, redriven, returned, dismissed, following
        )

    # -- letting them rest ----------------------------------------------------------------------

    def bounds(self, group: str) -> tuple[int, int]:
        """The first offset that is kept, and the one after the last. Raises GroupNotFound."""
        return self._bounds(group)[1:]

    def dismissed_count(self, group: str) -> int:
        """How many of the dead letters that are kept are dismissed; 0 for an unknown group."""
        name = dead_letter_topic(group)
        return self._dismissals.pile(name).count(*self._store.bounds(name, QUEUE))

    def dismissed_total(self) -> int:
        """How many dead letters of all groups are dismissed."""
        return sum(
            self._dismissals.pile(name).count(*self._store.bounds(name, QUEUE))
            for name in self._dismissals.topics()
        )

    def dismissed_within(self, group: str, first: int, end: int) -> list[Span]:
        """Which of these offsets are dismissed, in stretches, oldest first."""
        return list(self._dismissals.pile(dead_letter_topic(group)).within(first, end))

    def dismissals(self, group: str) -> list[Dismissed]:
        """What was dismissed together, the newest first. Raises GroupNotFound."""
        counts: Counter[DismissNote] = Counter()
        name, first, end = self._bounds(group)
        for span in self._dismissals.pile(name).within(first, end):
            counts[span.note] += span.end - span.first
        newest = sorted(counts.items(), key=lambda pair: pair[0].id, reverse=True)
        return [_dismissed(note, count) for note, count in newest]

    def dismiss(self, group: str, runs: Sequence[range], *, note: str, by: str) -> Dismissed:
        """Let these dead letters rest; `count` are those that did not yet. Nothing is deleted.

        Of `runs` of offsets, in any order, those that are not kept count for nothing. Raises
        GroupNotFound, Invalid for the note, Refused where too much is dismissed, DiskFull.
        """
        self._check_running()
        name, first, end = self._bounds(group)
        kept, count = self._dismissals.dismiss(
            name, _within(runs, first, end), note=note, by=by, now_ms=self._clock.now_ms()
        )
        return _dismissed(kept, count)

    def restore(self, group: str, runs: Sequence[range]) -> int:
        """Have these looked at again; how many were dismissed. Raises GroupNotFound, DiskFull."""
        self._check_running()
        name, first, end = self._bounds(group)
        return self._dismissals.restore(name, _within(runs, first, end))

    # -- inside -------------------------------------------------------------------------------

    def _bounds(self, group: str) -> tuple[str, int, int]:
        """Dead letters outlive their group."""
        name = dead_letter_topic(group)
        if self._catalog.find(name) is None:
            if not self._has_group(group):
                raise GroupNotFound(
                    f"there is no consumer group {group!r}",
                    field="group",
                    remedy="check its spelling",
                )
            return name, 0, 0
        return name, *self._store.bounds(name, QUEUE)

    def _newest_first(
        self, name: str, first: int, end: int
    ) -> list[tuple[StoredMessage | None, int]]:
        """The records before `end` down to `first`, as far as the limits allow, and offsets."""
        start = max(first, end - EXAMINED_MAX)
        entries = self._store.entries(name, QUEUE, start, end - start) if start < end else []
        taken: list[Entry] = []
        size_bytes = 0
        for entry in reversed(entries):
            size_bytes += entry.size_bytes
            if taken and size_bytes > EXAMINED_BYTES_MAX:
                break
            taken.append(entry)
        taken.reverse()
        read = self._store.read_entries(taken)
        pairs = [(stored, entry.offset) for stored, entry in zip(read, taken, strict=True)]
        return pairs[::-1]

    def _shown(self, stored: StoredMessage) -> DeadLetter:
        properties = stored.properties
        return DeadLetter(
            stored,
            properties.get(FAILED_REASON, ""),
            properties.get(FAILED_ERROR, ""),
            properties.get(FAILED_CLIENT, ""),
            stored.attempt - 1,
            origin_of(stored),
            origin_id_of(stored),
            [],
            properties.get(REDRIVEN_JOB, ""),
            times_of(stored),
        )

    def _marked(self, name: str, items: list[DeadLetter]) -> list[DeadLetter]:
        if not items:
            return items
        offsets = [item.message.offset for item in items]
        marks = self._marks.within(name, QUEUE, min(offsets), max(offsets) + 1)
        notes = self._dismissals.notes(name, min(offsets), max(offsets) + 1)
        return [
            msgspec.structs.replace(
                item,
                redriven_by=marks.get(item.message.offset, []),
                dismissed=notes.get(item.message.offset),
            )
            for item in items
        ]


def _dismissed(note: DismissNote, count: int) -> Dismissed:
    return Dismissed(note.id, note.note, note.by, note.at_ms, count)


def _within(runs: Sequence[range], first: int, end: int) -> list[range]:
    """The runs cut to what is kept, ascending and none over another."""
    cut = (
        Run(QUEUE, low, min(run.stop, end) - low)
        for run in runs
        for low in (max(run.start, first),)
    )
    return [range(run.first, run.first + run.length) for run in merged(cut)]
