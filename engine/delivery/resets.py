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

from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.context import EngineContext
from engine.delivery.changes import GroupReset, OffsetMove, Reset
from engine.delivery.group import GroupCatalog, Mode
from engine.delivery.offsets import ConsumerOffsets
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import QueueProgress
from engine.delivery.reset_plan import (
    STAY,
    VALUE_MAX,
    Goal,
    OffsetsMoved,
    Place,
    QueueMove,
    ResetNote,
    ResetPlan,
    ResetPreview,
    ResetTarget,
    ResetTo,
    check_value,
    token_of,
)
from engine.delivery.start import Starts
from engine.errors import Conflict, Invalid, NotFound, QueueNotFound, Refused
from engine.events import OffsetsReset
from engine.legality import QUEUE_MAX
from engine.topic.names import RETRY_PREFIX, retry_topic

TOPICS_MAX = 64
QUEUES_MAX = 1024  # as many as one topic can have: some 10 ms of work


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
        check_value(target)
        if target.to is ResetTo.GROUP:
            self._groups.get(target.group)
        places = self._places(group, topics, queues, target)
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
        reset = self.get(group, number)
        if reset.undone_by:
            raise Conflict(
                f"reset {number} of group {group!r} was undone by reset {reset.undone_by}",
                field="id",
                remedy=f"undo reset {reset.undone_by} to have it again",
            )
        if not reset.queues:
            raise Conflict(f"the topics of reset {number} are gone", field="id")
        before = {(each.topic, each.queue): each.before for each in reset.queues}

        def goal(place: Place, progress: QueueProgress | None) -> Goal:
            is_there = place[1] < self._catalog.get(place[0]).read_queues
            return Goal(before[place]) if is_there else Goal(None, ResetNote.QUEUE_GONE)

        expected = token_of(group, [(each.topic, each.queue, each.after) for each in reset.queues])
        return ResetPlan(
            self.preview,
            group,
            list(before),
            f"undo {number}",
            goal,
            undoes=number,
            expected=expected,
        )

    def plan_offsets(self, group: str, goals: Mapping[Place, int | None]) -> ResetPlan:
        """A reset of each queue to an offset of its own; None leaves a queue where it is.

        At most 1,024 queues at once. Raises as `plan` does.
        """
        self._check_shared(group)
        if not 0 < len(goals) <= QUEUES_MAX:
            raise Invalid(
                f"{len(goals)} queues in one plan, it must be 1 to {QUEUES_MAX}",
                field="queues",
                remedy="divide the plan",
            )
        for (_, queue), offset in goals.items():
            if not 0 <= queue <= QUEUE_MAX or abs(offset or 0) > VALUE_MAX:
                raise Invalid(
                    f"offset {offset} of queue {queue}"[:100],
                    field="queues",
                    remedy=f"name queues from 0 on, and offsets up to {VALUE_MAX}",
                )
        for topic in dict.fromkeys(topic for topic, _ in goals):
            self._catalog.get(topic)
            _check_topic(group, topic, ResetTarget(ResetTo.OFFSET))

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
            precondition=token_of(
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
        required = precondition or plan.expected
        if not required and not force:
            raise Invalid(
                "a reset needs the precondition of its preview",
                field="precondition",
                remedy="give what the preview says, or use force to move whatever the offsets are",
            )
        preview = plan.preview()
        if plan.undoes and self.get(plan.group, plan.undoes).undone_by:
            raise Conflict(f"reset {plan.undoes} was undone meanwhile", field="id")
        if not force and preview.precondition != required:
            raise OffsetsMoved(
                f"the offsets of group {plan.group!r} are not those of the precondition", preview
            )
        moved = [
            OffsetMove(each.topic, each.queue, each.current, each.target)
            for each in preview.queues
            if each.moves
        ]
        if not moved:
            raise Refused("no queue would move", field="to", remedy="see the notes of the preview")
        return self._carry_out(plan, moved)

    def get(self, group: str, number: int) -> Reset:
        """A reset of the past; raises GroupNotFound, NotFound where it is not remembered."""
        self._groups.get(group)
        reset = self._progress_store.resets.find(group, number)
        if reset is None:
            raise NotFound(
                f"group {group!r} has no reset {number}",
                field="id",
                remedy="the history lists those that are remembered",
            )
        return reset

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

    def _places(
        self, group: str, topics: Sequence[str], queues: Sequence[int], target: ResetTarget
    ) -> list[Place]:
        names = list(dict.fromkeys(topics))
        if not 0 < len(names) <= TOPICS_MAX:
            raise Invalid(
                f"{len(names)} topics, it must be 1 to {TOPICS_MAX}",
                field="topics",
                remedy="name the topics to move in",
            )
        if queues and len(names) > 1:
            raise Invalid(
                "queues of several topics", field="queues", remedy="name one topic with its queues"
            )
        for name in names:
            _check_topic(group, name, target)
        places = [place for name in names for place in self._queues_of(name, queues)]
        if len(places) > QUEUES_MAX:
            raise Invalid(
                f"{len(places)} queues in one reset, {QUEUES_MAX} is the most",
                field="topics",
                remedy="name fewer topics at once",
            )
        return places

    def _queues_of(self, topic: str, queues: Sequence[int]) -> Iterator[Place]:
        count = self._catalog.get(topic).read_queues
        for queue in sorted(set(queues)) or range(count):
            if not 0 <= queue < count:
                raise QueueNotFound(
                    f"topic {topic!r} has no queue {queue}",
                    field="queues",
                    remedy=f"choose 0 to {count - 1}",
                )
            yield topic, queue

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
        goal, note = plan.goal(place, progress)
        first, end = self._store.bounds(topic, queue)
        moves = note not in (ResetNote.NO_PLACE, ResetNote.QUEUE_GONE)
        current = None if progress is None else progress.floor
        target = goal if moves else current
        if moves and goal is not None:
            target = min(max(goal, first), end)
            if target != goal:
                note = ResetNote.BEFORE_OLDEST if goal < first else ResetNote.PAST_END
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
            note=note,
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


def _check_topic(group: str, topic: str, target: ResetTarget) -> None:
    if topic.startswith(RETRY_PREFIX) and topic != retry_topic(group):
        raise Invalid(
            f"{topic!r} is the retry topic of another group",
            field="topics",
            remedy=f"this group's own is {retry_topic(group)!r}",
        )
    if target.to is ResetTo.GROUP and topic == retry_topic(group):
        raise Invalid(
            "another group has no place in this group's retry topic",
            field="topics",
            remedy="leave it out, or move it to the latest",
        )


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
