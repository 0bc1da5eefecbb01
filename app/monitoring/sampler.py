"""Samples every topic and group in small steps beside the traffic.

Asking the broker about ten thousand topics takes longer than one request may block the event loop,
so a background task walks over them and yields every few milliseconds. Lists are sorted by its
results, whose age they show; the visible rows are read anew.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from app.administration import Administration
from app.monitoring.forecast import UNKNOWN, Forecast, forecast
from app.monitoring.group_status import GroupCondition, GroupStanding, standing_of
from app.monitoring.meter import Meter
from app.pause import Pause
from app.services.topic_kinds import USER_KINDS, kind_of
from app.tasks import end_tasks
from engine.broker import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    GroupConfig,
    GroupLag,
    TopicConfig,
    TopicStats,
    is_system_topic,
    total,
)
from engine.errors import EngineError, NotFound

log = logging.getLogger("kitemq.console")

INTERVAL_S = 5.0
# The walk may take this part of the loop's time at most, however many names there are.
SHARE_MAX = 0.1
DAY_MS = 24 * 3_600_000
HISTORY_STEP_MS = 30_000
TOTALS_STEP_MS = 10_000
TOTALS_STEPS = 90  # a quarter of an hour
HISTORY_STEPS = 31  # a quarter of an hour
GROWTH_SPAN_MS = 120_000
GROWTH_MIN = 100


class TopicFigures(msgspec.Struct, frozen=True, gc=False):
    """One topic, all its queues together; messages and bytes accepted per second."""

    kind: str
    messages: int
    last_ms: int | None
    rate: float | None
    bytes_rate: float | None


class GroupFigures(msgspec.Struct, frozen=True, gc=False):
    """One consumer group, all its topics together; `lag_by_topic` says where it stands.

    `rate` is acknowledged per second. Pulling consumers commit offsets and acknowledge nothing:
    what they pull is `consumed`.
    """

    lag: int
    oldest_ms: int | None
    inflight: int | None
    retry_waiting: int | None
    dead: int
    lag_by_topic: Mapping[str, int]
    rate: float | None = 0.0
    consumed: float | None = 0.0
    members: int = 0
    dead_new: int = 0  # of the dead, those of the last 24 hours

    @property
    def pace(self) -> float | None:
        """Acknowledged per second, or consumed where nobody counts acknowledgements."""
        return self.consumed if self.rate is None else self.rate

    @property
    def unread(self) -> int | None:
        """The lag; None while the group has no offset in any queue."""
        return self.lag if self.lag_by_topic else None


NO_FIGURES = GroupFigures(0, None, 0, 0, 0, {})


class Totals(msgspec.Struct, frozen=True, gc=False):
    """Sums over all topics and groups at one time; `topics` are those of users.

    A sum is None where a part of it is unknown. `p99_ms` is the time from a message's birth to its
    acknowledgement; None if unknown, as `disk_free_bytes` is.
    """

    at_ms: int = 0
    topics: int = 0
    groups: int = 0
    idle: int | None = 0
    messages: int | None = 0
    lag: int | None = 0
    inflight: int | None = 0
    retry_waiting: int | None = 0
    dead: int | None = 0
    log_bytes: int | None = 0
    disk_free_bytes: int | None = None
    p99_ms: int | None = None


NO_TOTALS = Totals()


@dataclass(frozen=True)
class Snapshot:
    """One finished walk, never changed again; names that came later are not in it."""

    taken_ms: int = 0
    topics: Mapping[str, TopicFigures] = field(default_factory=dict)
    groups: Mapping[str, GroupFigures] = field(default_factory=dict)
    # Topic to the lag of each group that reads it.
    lags: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Groups whose lag grows, and by how much.
    growth: Mapping[str, int] = field(default_factory=dict)
    # The forecast of each group's catching up.
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    totals: Totals = NO_TOTALS
    dead: int = 0  # open dead letters, also of deleted groups; at least so many while `away`
    # Why the figures of a topic or group are unknown.
    unknown_topics: Mapping[str, str] = field(default_factory=dict)
    unknown_groups: Mapping[str, str] = field(default_factory=dict)
    # Those that were asked for.
    _standings: dict[GroupConfig, GroupStanding] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def away(self) -> str:
        """Why some figures are unknown; "" if all are known."""
        return next(chain(self.unknown_topics.values(), self.unknown_groups.values()), "")

    def forecast(self, group: str) -> Forecast:
        """Unknown for a group that is newer than the walk."""
        return self.forecasts.get(group, UNKNOWN)

    def standing(self, group: GroupConfig, figures: GroupFigures | None = None) -> GroupStanding:
        """A group's status by newer `figures`, or by those of the walk."""
        if figures is None:  # lists ask for that of every group
            known = self._standings.get(group)
            if known is None:
                figures = self.groups.get(group.name) or NO_FIGURES
                known = self._standings[group] = self._standing(group, figures)
            return known
        return self._standing(group, figures)

    def _standing(self, group: GroupConfig, figures: GroupFigures) -> GroupStanding:
        topics = figures.lag_by_topic.keys() - {RETRY_PREFIX + group.name}
        are_paused = bool(topics) and topics <= set(group.paused_topics)
        return standing_of(
            GroupCondition(
                is_paused=are_paused or not group.consume_enabled,
                members=figures.members,
                unread=figures.unread,
                inflight=figures.inflight,
                oldest_age_ms=max(0, self.taken_ms - (figures.oldest_ms or self.taken_ms)),
                rate=figures.consumed,
                forecast=self.forecast(group.name).of_lag(figures.unread),
                growth=self.growth.get(group.name, 0),
            )
        )

    def readers(self, topic: str) -> Mapping[str, int]:
        """The groups that read a topic, and how many messages each has still to read."""
        return self.lags.get(topic, {})

    def worst_lag(self, topic: str) -> int | None:
        """The lag of the group furthest behind; None without any group."""
        return max(self.readers(topic).values(), default=None)


def topic_figures(
    topic: TopicConfig, stats: TopicStats, rate: float | None, bytes_rate: float | None
) -> TopicFigures:
    """The sums of a topic's queues."""
    times = [queue.last_stored_ms for queue in stats.queues if queue.last_stored_ms]
    return TopicFigures(kind_of(topic), stats.messages, max(times, default=None), rate, bytes_rate)


def group_figures(
    lag: GroupLag, rate: float | None, consumed: float | None, members: int
) -> GroupFigures:
    """The sums of a group's queues, beside its rates and the number of its members."""
    by_topic: dict[str, int] = {}
    for queue in lag.queues:
        by_topic[queue.topic] = by_topic.get(queue.topic, 0) + queue.count
    # Not from the age, which another clock's tick made: lists would differ at every look.
    oldest = (queue.oldest_ms for queue in lag.queues if queue.oldest_ms is not None)
    return GroupFigures(
        lag=lag.count,
        oldest_ms=min(oldest, default=None),
        inflight=lag.inflight,
        retry_waiting=lag.retry_waiting,
        dead=lag.dead_open,
        lag_by_topic=by_topic,
        rate=rate,
        consumed=consumed,
        members=members,
    )


class History:
    """A group's lag every half minute, for the last quarter of an hour."""

    def __init__(self) -> None:
        self._values: deque[tuple[int, int]] = deque(maxlen=HISTORY_STEPS)

    def add(self, at_ms: int, lag: int) -> None:
        if not self._values or at_ms - self._values[-1][0] >= HISTORY_STEP_MS:
            self._values.append((at_ms, lag))

    def lags(self) -> list[int]:
        return [lag for _, lag in self._values]

    def forecast(self, now_ms: int, lag: int) -> Forecast:
        """The time when the lag is gone if it goes on changing like this."""
        return forecast([*self._values, (now_ms, lag)])

    def growth(self, now_ms: int, lag: int) -> int:
        """By how much it grew over the kept time; 0 unless it did so clearly, and still does."""
        earlier = [value for at_ms, value in self._values if now_ms - at_ms >= GROWTH_SPAN_MS]
        if not lag or not earlier:
            return 0
        values = [value for _, value in self._values]
        grown, grown_lately = lag - min(values), lag - earlier[-1]
        # What stays at its highest does not grow any more: a tenth of it is of the last minutes.
        is_rising = lag >= max(values) and grown_lately >= max(1, grown // 10)
        return grown if is_rising and grown >= max(GROWTH_MIN, lag // 10) else 0


class Sampler:
    """Keeps the newest `Snapshot` and each group's lag history."""

    def __init__(
        self, administration: Administration, meter: Meter, now_ms: Callable[[], int]
    ) -> None:
        self._administration = administration
        self.meter = meter
        self._now_ms = now_ms
        self._running: asyncio.Task[None] | None = None
        self._walking: asyncio.Task[None] | None = None
        self._histories: dict[str, History] = {}
        self._totals: deque[Totals] = deque(maxlen=TOTALS_STEPS)
        self._walk_s = 0.0  # duration of the last walk
        self.snapshot = Snapshot()

    def start(self) -> None:
        """Start walking."""
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the walks."""
        await end_tasks(self._running, self._walking)

    async def _run(self) -> None:
        """Walk for as long as the server lives; a failed walk is logged and tried again."""
        while True:
            began_s = time.monotonic()
            try:
                await self.refresh()
            except (EngineError, OSError) as error:  # files: while a standby loads anew
                log.warning("the console could not read the broker's figures: %s", error)
            took_s = time.monotonic() - began_s
            await asyncio.sleep(max(INTERVAL_S, took_s / SHARE_MAX))

    async def refresh(self) -> None:
        """Take a new snapshot, or wait for the one that is being taken."""
        if self._walking is None or self._walking.done():
            self._walking = asyncio.create_task(self._walk())
        await asyncio.shield(self._walking)

    async def fresh(self, age_max_ms: int, wait_s: float = 0.1) -> Snapshot:
        """A snapshot of at most the given age, if one is ready within `wait_s`; else the last.

        While walks take longer than that, callers do not wait: walks follow each other anyway.
        """
        is_old = self._now_ms() - self.snapshot.taken_ms > age_max_ms
        if is_old and self._walk_s <= wait_s:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.refresh(), wait_s)
        return self.snapshot

    async def read(self, group: str, lag: GroupLag | None = None) -> GroupFigures:
        """A group's figures of now; `lag` if it was read already. Raises GroupNotFound."""
        lag = lag or await self._administration.lag(group)
        members, rate = self._administration.members, self.meter.group_rate(group)
        consumed = rate or self.meter.group_out_rate(group)
        # Where acknowledgements are counted, what is delivered is not yet consumed.
        is_delivered = consumed and rate == 0
        if is_delivered and not any(each.is_pulling for each in await members.of(group)):
            consumed = 0.0
        return group_figures(lag, rate, consumed, await members.count(group))

    def lag_history(self, group: str) -> list[int]:
        """The group's lag every half minute, oldest first; [] before the first walk."""
        history = self._histories.get(group)
        return history.lags() if history else []

    def totals_history(self) -> list[Totals]:
        """The totals every ten seconds for a quarter of an hour, oldest first."""
        return list(self._totals)

    async def _walk(self) -> None:
        began_s = time.monotonic()
        pause = Pause()
        unknown_topics: dict[str, str] = {}
        unknown_groups: dict[str, str] = {}
        topics = await self._walk_topics(pause, unknown_topics)
        groups = await self._walk_groups(pause, unknown_groups)
        lags: dict[str, dict[str, int]] = {}
        growth: dict[str, int] = {}
        forecasts: dict[str, Forecast] = {}
        histories: dict[str, History] = {}
        taken_ms = self._now_ms()
        for name, figures in groups.items():
            for topic, count in figures.lag_by_topic.items():
                lags.setdefault(topic, {})[name] = count
            history = histories[name] = self._histories.get(name) or History()
            history.add(taken_ms, figures.lag)
            forecasts[name] = history.forecast(taken_ms, figures.lag)
            grown = history.growth(taken_ms, figures.lag)
            if grown:
                growth[name] = grown
            await pause.when_due()
        self._histories = histories
        totals = await self._sum(topics, groups, unknown_topics, unknown_groups, taken_ms)
        await pause.when_due()
        dead_of_deleted = await self._dead_of_deleted(topics, groups.keys() | unknown_groups)
        await pause.when_due()
        if not self._totals or taken_ms - self._totals[-1].at_ms >= TOTALS_STEP_MS:
            self._totals.append(totals)
        self.snapshot = Snapshot(
            taken_ms=taken_ms,
            topics=topics,
            groups=groups,
            lags=lags,
            growth=growth,
            forecasts=forecasts,
            totals=totals,
            dead=sum(each.dead for each in groups.values()) + dead_of_deleted,
            unknown_topics=unknown_topics,
            unknown_groups=unknown_groups,
        )
        self._walk_s = time.monotonic() - began_s

    async def _walk_topics(self, pause: Pause, unknown: dict[str, str]) -> dict[str, TopicFigures]:
        figures: dict[str, TopicFigures] = {}
        for topic in await self._administration.topics(system=True):
            try:
                stats = await self._administration.topic_stats(topic.name)
            except NotFound:
                continue  # deleted since the walk began
            except EngineError as error:
                unknown[topic.name] = error.detail
                continue
            rate = self.meter.topic_rate(topic.name)
            bytes_rate = self.meter.topic_bytes_rate(topic.name)
            figures[topic.name] = topic_figures(topic, stats, rate, bytes_rate)
            await pause.when_due()
        return figures

    async def _walk_groups(self, pause: Pause, unknown: dict[str, str]) -> dict[str, GroupFigures]:
        figures: dict[str, GroupFigures] = {}
        for group in await self._administration.groups():
            try:
                lag = await self._administration.lag(group.name)
                read = await self.read(group.name, lag)
                dead_new = await self._dead_new(group.name, lag)
            except NotFound:
                continue  # deleted since the walk began
            except EngineError as error:
                unknown[group.name] = error.detail
                continue
            figures[group.name] = msgspec.structs.replace(read, dead_new=dead_new)
            await pause.when_due()
        return figures

    async def _sum(
        self,
        topics: Mapping[str, TopicFigures],
        groups: Mapping[str, GroupFigures],
        unknown_topics: Collection[str],
        unknown_groups: Collection[str],
        taken_ms: int,
    ) -> Totals:
        health = await self._administration.health()
        own = sum(each.kind in USER_KINDS for each in topics.values())
        totals = Totals(
            at_ms=taken_ms,
            topics=own + sum(not is_system_topic(name) for name in unknown_topics),
            groups=len(groups) + len(unknown_groups),
            messages=None if unknown_topics else sum(each.messages for each in topics.values()),
            idle=None,
            lag=None,
            inflight=None,
            retry_waiting=None,
            dead=None,
            log_bytes=health.log_bytes,
            disk_free_bytes=health.disk_free_bytes,
            p99_ms=self.meter.p99_ms(),
        )
        if unknown_groups:
            return totals
        figures = groups.values()
        return msgspec.structs.replace(
            totals,
            idle=sum(not each.lag and not each.consumed for each in figures),
            lag=sum(each.lag for each in figures),
            inflight=total(each.inflight for each in figures),
            retry_waiting=total(each.retry_waiting for each in figures),
            dead=sum(each.dead for each in figures),
        )

    async def _dead_of_deleted(
        self, topics: Mapping[str, TopicFigures], groups: Collection[str]
    ) -> int:
        """Open dead letters whose groups are gone; those of the others are in their figures."""
        names = (
            name.removeprefix(DEAD_LETTER_PREFIX)
            for name, each in topics.items()
            if each.kind == "DLQ"
        )
        count = self._administration.dead_letters.state_counts
        dead = 0
        for name in names:
            if name not in groups:
                with contextlib.suppress(EngineError):  # unknown just now
                    dead += (await count(name)).open
        return dead

    async def _dead_new(self, group: str, lag: GroupLag) -> int:
        if not lag.dead_open:
            return 0
        yesterday_ms = self._now_ms() - DAY_MS
        return (await self._administration.dead_letters.arrived(group, [yesterday_ms])).open
