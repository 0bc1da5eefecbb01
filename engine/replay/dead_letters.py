"""Lists dead letters with their cause and with what was done about them."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import msgspec

from engine.clock import Clock
from engine.errors import GroupNotFound, MessageNotFound
from engine.message import (
    FAILED_CLIENT,
    FAILED_ERROR,
    FAILED_REASON,
    REDRIVEN_JOB,
    StoredMessage,
)
from engine.replay.conditions import DeadLetterConditions, error_class_of, origin_of
from engine.replay.copying import origin_id_of, times_of
from engine.replay.dismissal_snapshot import DismissalSnapshot, DismissalSummary, summary_of
from engine.replay.dismissals import DismissalPlan, DismissalStore
from engine.replay.dismissed_offsets import DismissNote
from engine.replay.marks import ReplayMarks
from engine.replay.states import DeadLetterState, DeadLetterStates, LetterStates, StateCounts
from engine.store.consume_queue import QueueEntry
from engine.store.store import Store
from engine.topic.catalog import Catalog
from engine.topic.names import GROUP_QUEUE, dead_letter_topic

PAGE_MAX = 200
EXAMINED_MAX = 500  # for one page ...
EXAMINED_BYTES_MAX = 1024 * 1024  # ... and their records' size, but for the first
SWEPT_MAX = 200  # in one step over many
STEPS_MAX = 100
ANY = DeadLetterConditions()
READ_AT_ONCE = 50  # a page that has enough reads no more than these in vain


class DeadLetter(msgspec.Struct, frozen=True):
    """One dead letter. `failures` counts its deliveries, `reason` is a Reason's value.

    `offset` is its number among those of its group. Here these lie in one queue, and it is that of
    the message.

    `error_class` is the class that the error names, empty where it names none.

    `origin_id` is the offset id of the record first sent. `redriven_by` are the jobs that sent it
    again from here; `redriven_from` is the job that sent it before it came back dead, and
    `redrive_count` how many jobs had by then. `dismissed` has the user and the reason.
    """

    message: StoredMessage
    offset: int
    reason: str
    error: str
    client: str
    failures: int
    origin_topic: str
    origin_id: str
    redriven_by: list[str]
    redriven_from: str
    redrive_count: int
    state: DeadLetterState
    error_class: str
    dismissed: DismissNote | None = None


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Dead letters, the newest first; ask again `after` the offset `next`, None at the end.

    `count` is how many the group has, without conditions.
    """

    items: list[DeadLetter]
    next: int | None
    count: int


class DeadLetterTally(msgspec.Struct, frozen=True):
    """How many of the dead letters looked at have what; go on `after` the offset `next`."""

    examined: int
    reasons: dict[str, int]
    error_classes: dict[str, int]
    topics: dict[str, int]
    clients: dict[str, int]
    redriven: int
    returned: int
    dismissed: int
    next: int | None


class DeadLetterSweep(msgspec.Struct, frozen=True):
    """Offsets that meet the conditions, the newest first; go on `after` the offset `next`."""

    offsets: list[int]
    next: int | None


class DeadLetterArrivals(msgspec.Struct, frozen=True):
    """Dead letters of a time: how many in each step of it, in all, and waiting for a decision."""

    steps: list[int]
    count: int
    open: int


class DeadLetters:
    """Lists, counts and dismisses dead letters; a replay job sends them again."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        marks: ReplayMarks,
        dismissals: DismissalStore,
        states: DeadLetterStates,
        clock: Clock,
        *,
        has_group: Callable[[str], bool],
        check_running: Callable[[], None],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._marks = marks
        self._dismissals = dismissals
        self._states = states
        self._clock = clock
        self._has_group = has_group
        self._check_running = check_running

    def page(
        self,
        group: str,
        conditions: DeadLetterConditions = ANY,
        *,
        after: int | None = None,
        count_max: int = 50,
        state: DeadLetterState | None = None,
    ) -> DeadLetterPage:
        """Dead letters of a group, those that meet all conditions, at most 200.

        At most 500 and 1 MiB are looked at, so a page may be short or empty although `next` says
        that there is more. Raises GroupNotFound, Invalid.
        """
        meets = conditions.matcher()
        name, first, end = self._bounds(group)
        count_max = max(1, min(count_max, PAGE_MAX))
        records: list[StoredMessage] = []
        offset = end if after is None else min(after, end)
        states = self._states.of(name, (first, end))
        for stored, at in self._newest_first(name, first, offset):
            offset = at
            if stored is None or state not in (None, states.of(at)) or not meets(stored):
                continue
            records.append(stored)
            if len(records) == count_max:
                break
        following = offset if offset > first else None
        items = self._as_dead_letters(states, records)
        return DeadLetterPage(items, following, end - first)

    def sweep(
        self,
        group: str,
        conditions: DeadLetterConditions,
        *,
        after: int | None = None,
    ) -> DeadLetterSweep:
        """Which of the next 200 before an offset meet all conditions; reads each of them once.

        Raises GroupNotFound, Invalid.
        """
        meets = conditions.matcher()
        name, first, end = self._bounds(group)
        offset = start = end if after is None else min(after, end)
        offsets: list[int] = []
        for stored, at in self._newest_first(name, max(first, start - SWEPT_MAX), start):
            offset = at
            if stored is not None and meets(stored):
                offsets.append(at)
        return DeadLetterSweep(offsets, offset if offset > first else None)

    def get(self, group: str, offset: int) -> DeadLetter:
        """One dead letter; raises GroupNotFound, MessageNotFound."""
        name, first, end = self._bounds(group)
        if first <= offset < end:
            for stored, at in self._newest_first(name, offset, offset + 1):
                if stored is not None and at == offset:
                    return self._as_dead_letters(self._states.of(name, (first, end)), [stored])[0]
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
        state: DeadLetterState | None = None,
    ) -> DeadLetterTally:
        """Counts over the newest, at most 500 and 1 MiB in one call. Raises GroupNotFound.

        With a state causes and returns are counted over those alone that have it.
        """
        name, first, end = self._bounds(group)
        reasons, topics, clients = Counter[str](), Counter[str](), Counter[str]()
        classes = Counter[str]()
        offset = start = end if after is None else max(first, min(after, end))
        returned = 0
        states = self._states.of(name, (first, start))
        for stored, at in self._newest_first(name, max(first, start - count_max), start):
            offset = at
            if stored is None or state not in (None, states.of(at)):
                continue
            properties = stored.properties
            reasons[properties.get(FAILED_REASON, "")] += 1
            topics[origin_of(stored)] += 1
            clients[properties.get(FAILED_CLIENT, "")] += 1
            classes[error_class_of(properties.get(FAILED_ERROR, ""))] += 1
            returned += REDRIVEN_JOB in properties
        redriven = len(self._marks.within(name, GROUP_QUEUE, offset, start))
        dismissed = states.counts(offset).dismissed
        following = offset if offset > first else None
        return DeadLetterTally(
            examined=start - offset,
            reasons=reasons,
            error_classes=classes,
            topics=topics,
            clients=clients,
            redriven=redriven,
            returned=returned,
            dismissed=dismissed,
            next=following,
        )

    # -- states -------------------------------------------------------------------------------

    def states(self, group: str) -> LetterStates:
        """The state of each dead letter of a group as of now. Raises GroupNotFound."""
        name, first, end = self._bounds(group)
        return self._states.of(name, (first, end))

    def state_counts(self, group: str) -> StateCounts:
        """How many dead letters that are kept have each state; none for an unknown group."""
        name = dead_letter_topic(group)
        return self._states.of(name, self._store.bounds(name, GROUP_QUEUE)).counts()

    # -- dismissing -----------------------------------------------------------------------------

    def bounds(self, group: str) -> tuple[int, int]:
        """The first offset that is kept, and the one after the last. Raises GroupNotFound."""
        return self._bounds(group)[1:]

    def arrived(self, group: str, times_ms: Sequence[int]) -> DeadLetterArrivals:
        """Those that died from each of these ascending times to the next, at most 100, and since.

        Reads the times of a few for each step, however many there are; none where the last one
        died before. Raises GroupNotFound.
        """
        assert 0 < len(times_ms) <= STEPS_MAX, "a few times"
        name, first, end = self._bounds(group)
        last_ms = self._store.last_stored_ms(name, GROUP_QUEUE) or 0
        begins: list[int] = []
        low = first
        for at_ms in times_ms:
            low = end if last_ms < at_ms else self._first_since(name, low, end, at_ms)
            begins.append(low)
        steps = [after - before for before, after in pairwise([*begins, end])]
        counts = self._states.of(name, (first, end)).counts(begins[0])
        return DeadLetterArrivals(steps, counts.total, counts.open)

    def _first_since(self, name: str, low: int, end: int, at_ms: int) -> int:
        """The first offset from `low` on that died at `at_ms` or later."""

        def died_ms(offset: int) -> int:
            entries = self._store.entries(name, GROUP_QUEUE, offset, 1)
            return (self._store.stored_ms_at(entries[0]) or 0) if entries else 0

        # Mostly the steps before have come that far: then one look does instead of twenty.
        is_there = low >= end or died_ms(low) >= at_ms
        return low if is_there else bisect_left(range(end), at_ms, low + 1, key=died_ms)

    def snapshot(self, group: str) -> DismissalSnapshot:
        """The dismissed dead letters of a group as of now. Raises GroupNotFound."""
        name, first, end = self._bounds(group)
        return DismissalSnapshot(name, self._dismissals.dismissed_offsets(name), first, end)

    def new_note(self, note: str, by: str) -> DismissNote:
        """A note for a plan; raises Invalid."""
        return self._dismissals.new_note(note, by, self._clock.now_ms())

    def commit(self, plan: DismissalPlan) -> bool:
        """Carry a plan out; False where something else was dismissed or restored meanwhile.

        Raises Refused where too much is dismissed, DiskFull.
        """
        self._check_running()
        return self._dismissals.commit(plan)

    def dismiss(self, group: str, runs: Sequence[range], *, note: str, by: str) -> DismissalSummary:
        """Dismiss these dead letters; `count` are those that were open. Nothing is deleted.

        Of `runs` of offsets, in any order, those that are not kept count for nothing. Of many
        runs make a plan beside the owner's thread. Raises GroupNotFound, Invalid for the note,
        and what `commit` does.
        """
        snapshot, noted = self.snapshot(group), self.new_note(note, by)
        plan = snapshot.plan_dismissal(runs, noted)
        self.commit(plan)
        return summary_of(noted, plan.count)

    def restore(self, group: str, runs: Sequence[range]) -> int:
        """Restore these dead letters; returns how many were. Raises what `dismiss` does."""
        plan = self.snapshot(group).plan_restoration(runs)
        self.commit(plan)
        return plan.count

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
        return name, *self._store.bounds(name, GROUP_QUEUE)

    def _newest_first(
        self, name: str, first: int, end: int
    ) -> Iterator[tuple[StoredMessage | None, int]]:
        """The records before `end` down to `first`, as far as the limits allow, and offsets.

        They are read as they are asked for, a few at once.
        """
        start = max(first, end - EXAMINED_MAX)
        left_bytes = EXAMINED_BYTES_MAX
        is_first = True
        while start < end:
            low = max(start, end - READ_AT_ONCE)
            batch: list[QueueEntry] = []
            for entry in reversed(self._store.entries(name, GROUP_QUEUE, low, end - low)):
                left_bytes -= entry.size_bytes
                if left_bytes < 0 and not is_first:
                    break
                batch.append(entry)
                is_first = False
            batch.reverse()
            read = self._store.read_entries(batch, (name, GROUP_QUEUE))
            for stored, entry in reversed(list(zip(read, batch, strict=True))):
                yield stored, entry.offset
            if left_bytes < 0:
                return
            end = low

    def _as_dead_letters(
        self, states: LetterStates, records: list[StoredMessage]
    ) -> list[DeadLetter]:
        """Records of one group as dead letters, with what was done about each."""
        if not records:
            return []
        name, offsets = records[0].topic, [stored.offset for stored in records]
        marks = self._marks.within(name, GROUP_QUEUE, min(offsets), max(offsets) + 1)
        dismissed_offsets = self._dismissals.dismissed_offsets(name)
        return [
            msgspec.structs.replace(
                dead_letter_of(stored, stored.offset),
                redriven_by=marks.get(stored.offset, []),
                state=states.of(stored.offset),
                dismissed=dismissed_offsets.note_of(stored.offset),
            )
            for stored in records
        ]


def dead_letter_of(stored: StoredMessage, offset: int) -> DeadLetter:
    """A record as a dead letter of which nothing was done yet."""
    properties = stored.properties
    return DeadLetter(
        message=stored,
        offset=offset,
        reason=properties.get(FAILED_REASON, ""),
        error=properties.get(FAILED_ERROR, ""),
        client=properties.get(FAILED_CLIENT, ""),
        failures=stored.attempt - 1,
        origin_topic=origin_of(stored),
        origin_id=origin_id_of(stored),
        redriven_by=[],
        redriven_from=properties.get(REDRIVEN_JOB, ""),
        redrive_count=times_of(stored),
        state=DeadLetterState.OPEN,
        error_class=error_class_of(properties.get(FAILED_ERROR, "")),
    )
