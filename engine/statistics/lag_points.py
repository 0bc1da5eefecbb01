"""Reduces samples to points: the maximum and mean of each span of time; gaps stay gaps."""

from collections.abc import Callable, Iterable, Sequence
from operator import mul

import msgspec

from engine.errors import Invalid
from engine.statistics.lag_block import Block
from engine.statistics.lag_round import NOT_SAMPLED, LagColumn, LagRound
from engine.statistics.values import LagName, LagPoint

POINTS_MAX = 2_000


def _earliest(times_ms: Iterable[int]) -> int:
    """The earliest time; 0 stands for none."""
    return min(filter(None, times_ms), default=0)


# How the rows of a query are taken together: the group's own figures stand in each of its rows.
NUMBERS: dict[LagColumn, Callable[[Iterable[int]], int]] = {
    LagColumn.COUNT: sum,
    LagColumn.INFLIGHT: sum,
    LagColumn.COMMITTED: sum,
    LagColumn.MAX_OFFSET: sum,
    LagColumn.RETRY_WAITING: max,
    LagColumn.DEAD: max,
    LagColumn.OLDEST_MS: _earliest,
}


class LagQuery(msgspec.Struct, frozen=True):
    """Of one group, one of its topics or one of its queues; times are ms, `to_ms` is past the end.

    At most `points_max` points; each begins at a multiple of `step_ms`.
    """

    group: str
    topic: str | None
    queue: int | None
    from_ms: int
    to_ms: int
    step_ms: int

    def wants(self, name: LagName) -> bool:
        return (
            name.group == self.group
            and self.topic in (None, name.topic)
            and self.queue in (None, name.queue)
        )


def query(
    group: str,
    topic: str | None,
    queue: int | None,
    from_ms: int,
    to_ms: int,
    points_max: int,
    interval_ms: int,
) -> LagQuery:
    """The query, whose step is a multiple of the sampling interval; Invalid names what is wrong."""
    if queue is not None and topic is None:
        raise Invalid("a queue without its topic", field="topic", remedy="name the topic too")
    if not 0 <= from_ms < to_ms:
        raise Invalid(
            f"from {from_ms} to {to_ms} ms is no stretch of time",
            field="from_ms",
            remedy="give from_ms and a later to_ms, in ms since 1970 UTC",
        )
    if not 1 <= points_max <= POINTS_MAX:
        raise Invalid(
            f"{points_max} points", field="points_max", remedy=f"choose 1 to {POINTS_MAX}"
        )
    # One less, as the stretch may begin and end within a point.
    steps = max(1, points_max - 1)
    step_ms = -(-(to_ms - from_ms) // (steps * interval_ms)) * interval_ms
    if points_max == 1:  # a single point, wherever it begins
        step_ms = (to_ms // interval_ms + 1) * interval_ms
    return LagQuery(group, topic, queue, from_ms, to_ms, step_ms)


class _Stretch:
    """The samples of one point."""

    __slots__ = ("age_ms", "count", "count_sum", "dead", "inflight", "last", "retries", "samples")

    def __init__(self) -> None:
        self.samples = self.count = self.count_sum = self.dead = self.age_ms = 0
        self.inflight = self.retries = NOT_SAMPLED
        self.last = (-1, 0, 0)  # when, committed, max offset

    def add(self, at_ms: int, numbers: Sequence[int]) -> None:
        """All wanted rows at one time; `numbers` are in the order of `NUMBERS`."""
        count, inflight, committed, max_offset, retries, dead, oldest_ms = numbers
        self.samples += 1
        self.count_sum += count
        self.count = max(self.count, count)
        self.inflight = max(self.inflight, inflight)
        self.retries = max(self.retries, retries)
        self.dead = max(self.dead, dead)
        if oldest_ms:
            self.age_ms = max(self.age_ms, at_ms - oldest_ms)
        self.last = max(self.last, (at_ms, committed, max_offset))

    def point(self, at_ms: int) -> LagPoint:
        return LagPoint(
            at_ms=at_ms,
            samples=self.samples,
            count_max=self.count,
            count_avg=self.count_sum / self.samples,
            oldest_age_max_ms=self.age_ms,
            inflight_max=self.inflight if self.inflight >= 0 else None,
            retry_waiting_max=self.retries if self.retries >= 0 else None,
            dead_max=self.dead,
            committed=self.last[1],
            max_offset=self.last[2],
        )


class Points:
    """Collects samples, in any order, for the points of one query."""

    def __init__(self, query: LagQuery) -> None:
        self._query = query
        self._stretches: dict[int, _Stretch] = {}

    def add_block(self, block: Block) -> None:
        """What the query wants of a block; only those columns and rows are unpacked."""
        rows = [row for row, name in enumerate(block.names) if self._query.wants(name)]
        if not rows:
            return
        columns = block.columns((LagColumn.PRESENT, *NUMBERS))
        present = [block.row(columns[LagColumn.PRESENT], row) for row in rows]
        together = []
        for column, join in NUMBERS.items():
            # A sample that is missing counts as zeros.
            parts = [
                map(mul, block.row(columns[column], row), there)
                for row, there in zip(rows, present, strict=True)
            ]
            together.append(map(join, zip(*parts, strict=True)))
        is_there = map(any, zip(*present, strict=True))
        for at_ms, known, numbers in zip(
            block.times_ms, is_there, zip(*together, strict=True), strict=True
        ):
            if known:
                self._add(at_ms, numbers)

    def add_round(self, one: LagRound) -> None:
        """The same of a round that is in memory."""
        wants = self._query.wants
        rows = [one.row(at) for at, name in enumerate(one.names) if wants(name)]
        if rows:
            numbers = [join([row[column] for row in rows]) for column, join in NUMBERS.items()]
            self._add(one.at_ms, numbers)

    def points(self) -> list[LagPoint]:
        """A point for every step, those without a sample too."""
        query = self._query
        first = query.from_ms // query.step_ms * query.step_ms
        points = []
        for at_ms in range(first, query.to_ms, query.step_ms):
            stretch = self._stretches.get(at_ms)
            points.append(LagPoint(at_ms, 0) if stretch is None else stretch.point(at_ms))
        return points

    def _add(self, at_ms: int, numbers: Sequence[int]) -> None:
        query = self._query
        if query.from_ms <= at_ms < query.to_ms:
            begin_ms = at_ms // query.step_ms * query.step_ms
            stretch = self._stretches.get(begin_ms)
            if stretch is None:
                stretch = self._stretches[begin_ms] = _Stretch()
            stretch.add(at_ms, numbers)
