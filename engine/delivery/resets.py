"""Offset resets: previewed first, carried out in one step, and undone on request.

A reset names topics and a place (`ResetTarget`). A `ResetPlan` works out what that means for each
queue, a bounded number of queues in a step; `preview` says what would happen and holds a token of
the offsets it saw; `apply` moves all queues with one entry of the journal, unless these offsets
are others by now. What was delivered is forgotten: its receipts are stale, its messages come (or
do not come) again from the new place. Waiting receives and pulls are woken.

A pulling client keeps its own place and does not know yet: until it pulls once more, and is told
OFFSET_RESET with the new offset, what it commits does not count. A client that receives needs no
such answer. Source: docs/rocketmq-rules.md#offsets-and-resets.

Retries are messages of their own in the group's retry topic. A reset leaves them alone unless it
names that topic, and no reset reaches those that still wait for their delay: they come, besides
what is read again.
"""

from collections.abc import Callable, Mapping, Sequence

from engine.context import EngineContext
from engine.delivery.changes import GroupReset, OffsetMove, Reset
from engine.delivery.group import GroupCatalog, Mode
from engine.delivery.offsets import ConsumerOffsets
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import QueueProgress
from engine.delivery.reset_plan import (
    STAY,
    Goal,
    Place,
    QueueMove,
    ResetNote,
    ResetPlan,
    ResetPreview,
    ResetTarget,
    ResetTo,
    check_reset,
    check_reset_goals,
    reset_moves,
    reset_places,
    reset_token,
)
from engine.delivery.start import Starts
from engine.errors import Conflict, Refused
from engine.events import OffsetsReset


class OffsetResets:
    """Plans, applies, remembers and undoes resets; `wake_pulls` wakes a queue's waiting pulls."""

    def __init__(
        self,
        context: EngineContext,
        groups: GroupCatalog,
        progress_store: ProgressStore,
        offsets: ConsumerOffsets,
        starts: Starts,
        wake_pulls: Callable[[str, int], None],
    ) -> None:
        self._store = context.store
        self._catalog = context.catalog
        self._groups = groups
        self._progress_store = progress_store
        self._offsets = offsets
        self._starts = starts
        self._clock = context.clock
        self._events = context.events
        self._wake_pulls = wake_pulls

    def plan(
        self,
        group: str,
        topics: Sequence[str],
        target: ResetTarget,
        *,
        queues: Sequence[int] = (),
    ) -> ResetPlan:
        """A reset of all read queues of `topics` (1 to 64), or of `queues` of a single topic.

        The group's own retry topic is moved only if it is named. At most 1,024 queues at once.
        Raises GroupNotFound, TopicNotFound, QueueNotFound, Invalid (topics, queues, value), and
        Refused for a broadcast group, each of whose clients keeps a place of its own.
        """
        self._check_shared(group)
        names = check_reset(group, topics, target, queues)
        if target.to is ResetTo.GROUP:
            self._groups.get(target.group)
        there = {name: range(self._catalog.get(name).read_queues) for name in names}
        places = reset_places(there, queues)
        goals: dict[Place, Goal] = {}

        def search(place: Place) -> None:
            goals[place] = self._at_time(place, target.value)

        def goal(place: Place, progress: QueueProgress | None) -> Goal:
            if target.to is ResetTo.TIME:
                return goals[place]
            return self._goal(target, place, progress)

        is_searched = target.to is ResetTo.TIME
        return ResetPlan(
            self.preview, group, places, str(target), goal, search=search if is_searched else None
        )

    def plan_undo(self, group: str, number: int) -> ResetPlan:
        """A reset back to where a former one found the group.

        Without a precondition it asks that the group is still where that reset put it. Raises
        NotFound where it is not remembered, Conflict where it was undone, or its topics are gone.
        """
        self._groups.get(group)
        reset = self._progress_store.resets.undoable(group, number)
        if not reset.queues:
            raise Conflict(f"the topics of reset {number} are gone", field="id")
        before = {(each.topic, each.queue): each.before for each in reset.queues}

        def goal(place: Place, progress: QueueProgress | None) -> Goal:
            is_there = place[1] < self._catalog.get(place[0]).read_queues
            return Goal(before[place]) if is_there else Goal(None, ResetNote.QUEUE_GONE)

        after = [(each.topic, each.queue, each.after) for each in reset.queues]
        return ResetPlan(
            self.preview,
            group,
            list(before),
            f"undo {number}",
            goal,
            undoes=number,
            expected=reset_token(group, after),
        )

    def plan_offsets(self, group: str, goals: Mapping[Place, int | None]) -> ResetPlan:
        """A reset of each queue to an offset of its own; None leaves a queue where it is.

        At most 1,024 queues at once. Raises as `plan` does.
        """
        self._check_shared(group)
        for topic in check_reset_goals(group, goals):
            self._catalog.get(topic)

        def goal(place: Place, progress: QueueProgress | None) -> Goal:
            is_there = 0 <= place[1] < self._catalog.get(place[0]).read_queues
            if not is_there:
                return Goal(None, ResetNote.QUEUE_GONE)
            offset = goals[place]
            return STAY if offset is None else Goal(offset)

        return ResetPlan(self.preview, group, list(goals), "plan", goal)

    def preview(self, plan: ResetPlan) -> ResetPreview:
        """Preview a whole plan as of now. Raises TopicNotFound, GroupNotFound for what is gone."""
        self._groups.get(plan.group)
        queues = [self._move(plan, place) for place in plan.places]
        return ResetPreview(
            group=plan.group,
            to=plan.to,
            queues=queues,
            precondition=reset_token(
                plan.group, [(each.topic, each.queue, each.current) for each in queues]
            ),
            retry_waiting=self._offsets.retry_waiting(plan.group),
        )

    def apply(self, plan: ResetPlan, *, precondition: str = "", force: bool = False) -> Reset:
        """Move the group: all queues of the plan, or none, also across a crash.

        `precondition` is that of a preview; with `force` the offsets may be any. "latest" is the
        end as it is now. Raises OffsetsMoved (with a fresh preview), Refused where no queue would
        move, Conflict for an undo that was done meanwhile, Invalid without precondition or force;
        DiskFull leaves all as it was.
        """
        preview = plan.preview()
        if plan.undoes and self.get(plan.group, plan.undoes).undone_by:
            raise Conflict(f"reset {plan.undoes} was undone meanwhile", field="id")
        moved = reset_moves(preview, precondition or plan.expected, force=force)
        return self._carry_out(plan, moved)

    def get(self, group: str, number: int) -> Reset:
        """A reset of the past; raises GroupNotFound, NotFound where it is not remembered."""
        self._groups.get(group)
        return self._progress_store.resets.get(group, number)

    def history(self, group: str) -> Sequence[Reset]:
        """A group's resets, newest first, at most 100; raises GroupNotFound."""
        self._groups.get(group)
        return self._progress_store.resets.of_group(group)

    # -- inside ----------------------------------------------------------------------------------

    def _carry_out(self, plan: ResetPlan, moved: list[OffsetMove]) -> Reset:
        now_ms, group = self._clock.now_ms(), plan.group
        number = self._progress_store.resets.next_number(group)
        reset = Reset(number, now_ms, plan.to, moved, plan.undoes)
        self._progress_store.write(GroupReset(group, reset))
        for each in moved:
            self._wake_pulls(each.topic, each.queue)
        if self._events.has_subscribers:
            topics = tuple({each.topic: None for each in moved})
            self._events.emit(
                OffsetsReset(
                    at_ms=now_ms,
                    group=group,
                    topics=topics,
                    queue_count=len(moved),
                    number=number,
                    to=plan.to,
                    undoes=plan.undoes,
                )
            )
        return reset

    def _check_shared(self, group: str) -> None:
        if self._groups.get(group).mode is Mode.BROADCAST:
            raise Refused(
                f"the group {group!r} broadcasts: each of its clients keeps a place of its own",
                field="group",
                remedy="let the client commit another offset",
            )

    def _at_time(self, place: Place, at_ms: int) -> Goal:
        first, end = self._store.bounds(*place)
        offset = self._store.offset_at_time(*place, at_ms)
        if offset >= end > first:
            return Goal(offset, ResetNote.PAST_END)
        if 0 < offset == first:
            oldest_ms = self._stored_ms(place, first)
            if oldest_ms is not None and oldest_ms > at_ms:
                return Goal(offset, ResetNote.BEFORE_OLDEST)
        return Goal(offset)

    def _goal(self, target: ResetTarget, place: Place, progress: QueueProgress | None) -> Goal:
        first, end = self._store.bounds(*place)
        if target.to is ResetTo.EARLIEST:
            return Goal(first)
        if target.to is ResetTo.LATEST:
            return Goal(end)
        if target.to is ResetTo.OFFSET:
            return Goal(target.value)
        if target.to is ResetTo.SHIFT:
            # From the first that is kept, where retention has taken what comes before.
            return STAY if progress is None else Goal(max(progress.floor, first) + target.value)
        other = self._progress_store.find(target.group, *place)
        return STAY if other is None else Goal(other.floor)

    def _move(self, plan: ResetPlan, place: Place) -> QueueMove:
        topic, queue = place
        self._catalog.get(topic)
        progress = self._progress_store.find(plan.group, topic, queue)
        first, end = self._store.bounds(topic, queue)
        goal = plan.goal(place, progress).within(first, end)
        moves = goal.moves
        current = None if progress is None else progress.floor
        target = goal.offset if moves else current
        begin = first if target is not None and progress is not None else self._begin(plan, place)
        redelivered, skipped = _counts(
            progress, begin, begin if target is None else target, first, end
        )
        return QueueMove(
            topic=topic,
            queue=queue,
            min_offset=first,
            max_offset=end,
            current=current,
            target=target,
            moves=moves,
            note=goal.note,
            redelivered=redelivered if moves else 0,
            skipped=skipped if moves else 0,
            inflight=_inflight(progress) if moves else 0,
            target_stored_ms=None
            if target is None or target >= end
            else self._stored_ms(place, target),
        )

    def _begin(self, plan: ResetPlan, place: Place) -> int:
        """First offset of the group in a queue that it has not consumed."""
        config = self._groups.get(plan.group)
        return self._starts.received(config.start, config.start_at_ms, *place)

    def _stored_ms(self, place: Place, offset: int) -> int | None:
        entries = self._store.entries(*place, offset, 1)
        return self._store.stored_ms_at(entries[0]) if entries else None


def _counts(
    progress: QueueProgress | None, begin: int, target: int, first: int, end: int
) -> tuple[int, int]:
    """How many are redelivered, and how many are never read, when a queue goes to `target`."""
    cursor = max(first, begin if progress is None else progress.cursor)
    slots = () if progress is None else [each for each in progress.slots if each >= first]
    before = sum(each < target for each in slots)
    skipped = before + max(0, min(target, end) - cursor)
    redelivered = max(0, min(cursor, end) - max(target, first)) - (len(slots) - before)
    return max(0, redelivered), skipped


def _inflight(progress: QueueProgress | None) -> int:
    return 0 if progress is None else sum(1 for slot in progress.slots.values() if slot.serial)
