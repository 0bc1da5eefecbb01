"""Figures for rules, read from the broker a few names at a time; nothing is kept."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from app.administration import Administration
from app.db.alert_rows import RuleRow
from app.pause import Pause
from app.services.alerts.machine import Reading
from app.services.alerts.rules import is_exact, matches
from app.services.reports.reports import Reports
from engine.broker import GroupLag, TopicStats
from engine.clock import Clock
from engine.errors import Busy, EngineError, GroupNotFound
from kitemq.model.alerts import RuleKind


class Readings:
    """Reads the broker's figures for rules."""

    def __init__(
        self, administration: Administration, data: Path, reports: Reports, clock: Clock
    ) -> None:
        self._administration = administration
        self._data = data
        self._clock = clock
        self._reports = reports

    async def read(self, rule: RuleRow, lags: dict[str, GroupLag | None]) -> list[Reading]:
        """The rule's readings; `lags` caches the lags of rules read before it.

        Raises Busy while the engine does not answer.
        """
        kind = RuleKind(rule.kind)
        if kind is RuleKind.DISK:
            return [await self._disk(rule)]
        if kind is RuleKind.ENGINE:
            return [reading async for reading in self._engine()]
        if kind is RuleKind.NO_DATA:
            return await self._topics(rule)
        if kind in (RuleKind.REPORT_FAILED, RuleKind.REPORT_AGE):
            return await self._of_reports(rule, kind)
        return await self._groups(rule, kind, lags)

    # -- groups -----------------------------------------------------------------------------------

    async def _groups(
        self, rule: RuleRow, kind: RuleKind, lags: dict[str, GroupLag | None]
    ) -> list[Reading]:
        read = {
            RuleKind.LAG: self._lag,
            RuleKind.LAG_AGE: self._lag_age,
            RuleKind.DEAD_LETTERS: self._dead_letters,
        }[kind]
        readings: list[Reading] = []
        detail = f"no group matches {rule.group_pattern}"
        pause = Pause()
        for group in await self._administration.groups():
            if matches(rule.group_pattern, group.name):
                if group.name not in lags:
                    lags[group.name] = await self._lag_of(group.name)
                lag = lags[group.name]
                if lag is not None:
                    with suppress(GroupNotFound):  # deleted since another rule read its lag
                        reading = await read(rule, group.name, lag)
                        # Of many groups, those that read nothing yet are idle: nothing to watch.
                        if reading.is_over is not None or is_exact(rule.group_pattern):
                            readings.append(reading)
                        else:
                            detail = f"no group reads a topic like {rule.topic_pattern} yet"
            await pause.when_due()
        return readings or [Reading("", None, None, detail)]

    async def _lag_of(self, group: str) -> GroupLag | None:
        try:
            return await self._administration.lag(group)
        except Busy:
            raise
        except EngineError:
            return None  # deleted since the names were listed

    async def _lag(self, rule: RuleRow, group: str, lag: GroupLag) -> Reading:
        queues = [queue for queue in lag.queues if matches(rule.topic_pattern, queue.topic)]
        if not queues:
            return Reading(group, None, None, f"reads no topic like {rule.topic_pattern}")
        count = sum(queue.count for queue in queues)
        return Reading(group, count, count > rule.threshold, f"{count:,} unread")

    async def _lag_age(self, rule: RuleRow, group: str, lag: GroupLag) -> Reading:
        queues = [queue for queue in lag.queues if matches(rule.topic_pattern, queue.topic)]
        if not queues:
            return Reading(group, None, None, f"reads no topic like {rule.topic_pattern}")
        oldest_ms = min((q.oldest_ms for q in queues if q.oldest_ms is not None), default=None)
        if oldest_ms is None:
            return Reading(group, 0, False, "nothing is unread")
        age_s = max(0, self._clock.now_ms() - oldest_ms) // 1000
        return Reading(
            group, age_s, age_s > rule.threshold, f"oldest unread message: {_length(age_s)}"
        )

    async def _dead_letters(self, rule: RuleRow, group: str, lag: GroupLag) -> Reading:
        """Open dead letters of the window, counted as on the page of dead letters."""
        count = closed = 0
        if lag.dead:
            since_ms = self._clock.now_ms() - rule.window_s * 1000
            arrived = await self._administration.dead_letters.arrived(group, [since_ms])
            count, closed = arrived.open, arrived.count - arrived.open
        detail = f"{count:,} new dead letters within {_length(rule.window_s)}"
        if closed:
            detail += f", {closed:,} more are resent or dismissed"
        return Reading(
            group, count, count > rule.threshold, f"{detail}; {lag.dead_open:,} open in all"
        )

    # -- topics -----------------------------------------------------------------------------------

    async def _topics(self, rule: RuleRow) -> list[Reading]:
        readings: list[Reading] = []
        pause = Pause()
        for name in await self._topic_names(rule.topic_pattern):
            stats = await self._stats_of(name)
            if stats is not None:
                readings.append(self._silence(rule, name, stats))
            await pause.when_due()
        return readings or [Reading("", None, True, f"no topic matches {rule.topic_pattern}")]

    async def _topic_names(self, pattern: str) -> list[str]:
        if is_exact(pattern):
            return [pattern]
        topics = await self._administration.topics()
        return [topic.name for topic in topics if matches(pattern, topic.name)]

    async def _stats_of(self, topic: str) -> TopicStats | None:
        try:
            return await self._administration.topic_stats(topic)
        except Busy:
            raise
        except EngineError:
            return None

    def _silence(self, rule: RuleRow, name: str, stats: TopicStats) -> Reading:
        last_ms = max((queue.last_stored_ms or 0 for queue in stats.queues), default=0)
        # Of a topic that never got anything nothing is missed before the rule itself is old enough.
        since_ms = last_ms or rule.created_ms
        age_s = max(0, self._clock.now_ms() - since_ms) // 1000
        detail = f"last message: {_length(age_s)} ago" if last_ms else "holds no message"
        return Reading(name, age_s, age_s > rule.threshold, detail)

    # -- reports ----------------------------------------------------------------------------------

    async def _of_reports(self, rule: RuleRow, kind: RuleKind) -> list[Reading]:
        try:
            schedules = await self._reports.schedules()
            fresh = {each.job: await self._reports.fresh_ms(each.job) for each in schedules}
        except EngineError as error:
            return [Reading("reports", None, None, error.detail)]
        if kind is RuleKind.REPORT_FAILED:
            return [self._failed(rule, each.job) for each in schedules]
        enabled = [each.job for each in schedules if each.is_enabled]
        readings = [self._age(rule, job, fresh[job]) for job in enabled]
        return readings or [Reading("reports", None, None, "no report is scheduled")]

    def _failed(self, rule: RuleRow, job: str) -> Reading:
        figures = self._reports.figures[job]
        count = figures.failures
        detail = f"{count:,} failed, the last: {figures.last_error}" if count else "none failed"
        return Reading(job, count, count > rule.threshold, detail)

    def _age(self, rule: RuleRow, job: str, fresh_ms: int | None) -> Reading:
        if fresh_ms is None:
            return Reading(job, None, None, "it has no figures yet")
        age_s = max(0, self._clock.now_ms() - fresh_ms) // 1000
        detail = f"does not cover the last {_length(age_s)}"
        return Reading(job, age_s, age_s > rule.threshold, detail)

    # -- the server -------------------------------------------------------------------------------

    async def _disk(self, rule: RuleRow) -> Reading:
        try:
            usage = await asyncio.to_thread(shutil.disk_usage, self._data)
        except OSError as error:
            return Reading("disk", None, None, f"the disk could not be asked: {error}")
        percent = round(100 * usage.used / max(1, usage.used + usage.free))
        detail = f"{percent} % used, {usage.free / 2**30:,.1f} GiB free"
        return Reading("disk", percent, percent > rule.threshold, detail)

    async def _engine(self) -> AsyncIterator[Reading]:
        health = await self._administration.health()
        for name, text in {**health.warnings, **health.failures}.items():
            if name != "damage":
                yield Reading(name, 1, True, text)
        if health.damages:
            yield Reading("log", len(health.damages), True, health.warnings["damage"])


def _length(seconds: int) -> str:
    """A length of time in the unit that people say."""
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds // length_s:,} {unit}"
    return f"{seconds:,} s"
