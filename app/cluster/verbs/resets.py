"""Resets of groups of a cluster: each queue is looked at and moved by its own broker.

A broker keeps the new place beside the group's offset until the group reads the queue again: it
takes no commit meanwhile, gives POP its messages from there, and tells a pulling client in the
answer to its next pull. So consumers of either kind may stay connected. Nothing is moved unless all
brokers of the topics are there and work this way (`useServerSideResetOffset`). What goes away
between the look and the move is named. Source: Apache's AdminBrokerProcessor.resetOffsetInner.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from msgspec.structs import replace

from app.administration import ResetIncomplete, ResetOrder, ResetVerbs
from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.reset_log import ResetLog
from app.cluster.routes import ClusterQueue
from app.cluster.traffic import ClusterTraffic
from app.cluster.verbs.group_lists import ClusterGroupLists
from app.cluster.verbs.part import ClusterPart, all_of
from app.cluster.verbs.topic_lists import ClusterTopicLists
from engine.broker import (
    RETRY_PREFIX,
    STAY,
    Goal,
    OffsetMove,
    QueueMove,
    QueueStats,
    Reset,
    ResetNote,
    ResetPreview,
    ResetTarget,
    ResetTo,
    check_reset,
    check_reset_goals,
    reset_moves,
    reset_places,
    reset_token,
)
from engine.errors import Busy, Conflict, EngineError, Refused, TopicNotFound

log = logging.getLogger("kitemq.cluster")

SERVER_SIDE = "useServerSideResetOffset"
QUEUES_NAMED = 16  # in the text of an error


class ClusterResets(ClusterPart, ResetVerbs):
    """`ResetVerbs` of a cluster; what was reset is noted in `ResetLog`."""

    def __init__(
        self,
        catalog: ClusterCatalog,
        topics: ClusterTopicLists,
        groups: ClusterGroupLists,
        traffic: ClusterTraffic,
        past: ResetLog,
    ) -> None:
        ClusterPart.__init__(self, catalog)
        self._topics, self._groups, self._traffic, self._past = topics, groups, traffic, past

    @property
    def _engine(self) -> NoReturn:
        raise not_supported("has no such verb", field="id", remedy="use the cluster's tools")

    async def get(self, group: str, number: int) -> Reset:
        """A reset of the past; GroupNotFound, NotFound, Busy."""
        await self._catalog.group(group)
        return await self._past.get(group, number)

    async def history(self, group: str) -> Sequence[Reset]:
        """A group's resets, newest first; GroupNotFound, Busy."""
        await self._catalog.group(group)
        return await self._past.history(group)

    async def preview(self, group: str, order: ResetOrder | int) -> ResetPreview:
        """As declared; Busy while a broker is away, as its queues cannot be looked at."""
        await self._catalog.group(group)
        if isinstance(order, int):
            return await self._preview_undo(group, await self._past.undoable(group, order))
        goals = {(topic, queue): offset for topic, queue, offset in order.goals}
        own = await self._own_retries(group, {*order.topics, *(topic for topic, _ in goals)})
        if goals:
            names = check_reset_goals(group, goals, own)
        else:
            names = check_reset(group, order.topics, order.target, order.queues, own)
        if order.target.to is ResetTo.GROUP:
            await self._catalog.group(order.target.group)
        stats = await all_of(self._topics.current_stats(name) for name in names)
        there = {
            name: {queue.queue: queue for queue in each.queues}
            for name, each in zip(names, stats, strict=True)
        }
        places = list(goals) or reset_places(there, order.queues)
        queues = await all_of(
            self._move(group, order, (topic, queue), there[topic].get(queue), goals)
            for topic, queue in places
        )
        return ResetPreview(
            group=group,
            to="plan" if goals else str(order.target),
            queues=queues,
            precondition=reset_token(
                group, [(each.topic, each.queue, each.current) for each in queues]
            ),
            retry_waiting=None,
        )

    async def apply(
        self, group: str, order: ResetOrder | int, *, precondition: str, force: bool
    ) -> Reset:
        """As declared; Refused where a broker does not reset by itself."""
        preview = await self.preview(group, order)
        undoes = order if isinstance(order, int) else 0
        if undoes and not precondition:  # the group must be where that reset put it
            undone = (await self._past.get(group, undoes)).queues
            precondition = reset_token(
                group, [(each.topic, each.queue, each.after) for each in undone]
            )
        moves = reset_moves(preview, precondition, force=force)
        places = [self._numbers.place(each.topic, each.queue) for each in moves]
        await all_of(self._check_broker(each) for each in {place.broker for place in places})
        failures = await all_of(
            self._reset(group, place, each.after or 0)
            for place, each in zip(places, moves, strict=True)
        )
        self._groups.forget_offsets()
        moved = [each for each, failure in zip(moves, failures, strict=True) if not failure]
        self._traffic.reset(group, moved)
        reset = await self._note(group, preview.to, moved, undoes)
        if any(failures):
            raise _incomplete(moves, failures)
        return reset

    async def _note(self, group: str, to: str, moved: Sequence[OffsetMove], undoes: int) -> Reset:
        """What was made, with number 0 where it could not be noted: made it is all the same."""
        at_ms = self._catalog.now_ms()
        try:
            if moved:
                return await self._past.add(group, at_ms, to, moved, undoes)
        except Busy as error:
            log.error("a reset of group %r is not in its history: %s", group, error.detail)
        return Reset(0, at_ms, to, list(moved), undoes)

    # -- looking --------------------------------------------------------------------------------

    async def _preview_undo(self, group: str, reset: Reset) -> ResetPreview:
        """Back to where a reset found the group; a queue that it had not read before stays."""
        goals: list[tuple[str, int, int | None]] = []
        for topic in dict.fromkeys(each.topic for each in reset.queues):
            with suppress(TopicNotFound):
                await self._topics.current_stats(topic)
                goals += [
                    (each.topic, each.queue, each.before)
                    for each in reset.queues
                    if each.topic == topic
                ]
        if not goals:
            raise Conflict(f"the topics of reset {reset.number} are gone", field="id")
        order = ResetOrder((), ResetTarget(ResetTo.OFFSET), goals=goals)
        return replace(await self.preview(group, order), to=f"undo {reset.number}")

    async def _own_retries(self, group: str, topics: Collection[str]) -> Collection[str]:
        is_needed = any(each.startswith(RETRY_PREFIX) for each in topics)
        return await self._groups.retry_topics(group) if is_needed else ()

    async def _move(
        self,
        group: str,
        order: ResetOrder,
        place: tuple[str, int],
        stats: QueueStats | None,
        goals: Mapping[tuple[str, int], int | None],
    ) -> QueueMove:
        """What happens to a queue, which goes to its goal if there are goals."""
        queue = self._numbers.place(*place)
        first, end = (stats.min_offset, stats.max_offset) if stats else (0, 0)
        with engine_errors():
            current = await self._client.groups.committed(group, queue)
            if stats is None:
                goal = Goal(None, ResetNote.QUEUE_GONE)
            elif goals:
                offset = goals[place]
                goal = STAY if offset is None else Goal(offset)
            else:
                goal = await self._goal(order.target, queue, stats, current)
            goal = goal.within(first, end)
            target = goal.offset if goal.moves else current
            stored_ms = await self._stored_ms(queue, target, end)
        start = min(max(first if current is None else current, first), end)
        forward = target - start if goal.moves and target is not None else 0
        return QueueMove(
            topic=place[0],
            queue=place[1],
            min_offset=first,
            max_offset=end,
            current=current,
            target=target,
            moves=goal.moves,
            note=goal.note,
            redelivered=max(0, -forward),
            skipped=max(0, forward),
            inflight=None,
            target_stored_ms=stored_ms,
        )

    async def _goal(
        self, target: ResetTarget, queue: ClusterQueue, stats: QueueStats, current: int | None
    ) -> Goal:
        first, end = stats.min_offset, stats.max_offset
        if target.to is ResetTo.EARLIEST:
            return Goal(first)
        if target.to is ResetTo.LATEST:
            return Goal(end)
        if target.to is ResetTo.OFFSET:
            return Goal(target.value)
        if target.to is ResetTo.SHIFT:
            return STAY if current is None else Goal(max(current, first) + target.value)
        if target.to is ResetTo.GROUP:
            other = await self._client.groups.committed(target.group, queue)
            return STAY if other is None else Goal(other)
        offset = await self._client.reads.offset_at(queue, target.value)
        if offset >= end > first:
            return Goal(offset, ResetNote.PAST_END)
        oldest_ms = await self._stored_ms(queue, first, end) if 0 < offset <= first else None
        is_gone = oldest_ms is not None and oldest_ms > target.value
        return Goal(offset, ResetNote.BEFORE_OLDEST if is_gone else ResetNote.NONE)

    async def _stored_ms(self, queue: ClusterQueue, offset: int | None, end: int) -> int | None:
        """When the message at an offset was stored; None where there is none."""
        if offset is None or offset >= end:
            return None
        page = await self._client.reads.pull(queue, offset, count_max=1, is_from_master=True)
        return next((each.stored_ms for each in page.messages if each.offset == offset), None)

    # -- moving ---------------------------------------------------------------------------------

    async def _check_broker(self, broker: str) -> None:
        with engine_errors():
            settings = await self._client.settings(broker)
        if settings and settings.get(SERVER_SIDE) != "true":
            raise Refused(
                f"broker {broker} moves no group by itself: {SERVER_SIDE} is not true",
                field="topics",
                remedy=f"set {SERVER_SIDE}=true there, or commit offsets while nobody consumes",
            )

    async def _reset(self, group: str, queue: ClusterQueue, offset: int) -> str:
        """Move one queue; what went wrong, or ""."""
        try:
            with engine_errors():
                await self._client.groups.reset(group, queue, offset)
        except EngineError as error:
            return error.detail
        return ""


def _incomplete(moves: Sequence[OffsetMove], failures: Sequence[str]) -> ResetIncomplete:
    """The queues that moved, and those whose brokers did not say that they did."""
    moved = [each for each, failure in zip(moves, failures, strict=True) if not failure]
    rest = [
        f"{each.topic} {each.queue}"
        for each, failure in zip(moves, failures, strict=True)
        if failure
    ]
    more = f" and {len(rest) - QUEUES_NAMED} more" if len(rest) > QUEUES_NAMED else ""
    return ResetIncomplete(
        f"{len(moved)} of {len(moves)} queues moved; not, or not confirmed: "
        f"{', '.join(rest[:QUEUES_NAMED])}{more} ({next(filter(None, failures))})",
        moved,
    )
