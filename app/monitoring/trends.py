"""Sparklines of the lag of many groups over the last day, for lists.

All lines of a page are read from the history of lag on disk in one pass, off the event loop, and
cached for a quarter of an hour. A page takes those that are ready within a moment and marks the
others, which appear at its next refresh.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.monitoring import sparkline
from app.monitoring.sparkline import Sparkline
from app.tasks import settle
from engine.broker import LagStatistics

SPAN_MS = 86_400_000
POINTS = 48
STEP_MS = SPAN_MS // POINTS
FRESH_MS = STEP_MS // 2
CACHE_MAX = 3_000
GROUPS_MAX = 200  # of one page
WAIT_S = 0.05


@dataclass(frozen=True)
class Trend:
    """A group's lag over a day: the highest of each half hour, None where nothing was sampled.

    `is_read` is False while it waits to be read. `change` is the last known value less the first.
    """

    is_read: bool = False
    values: Sequence[int | None] = ()
    line: Sparkline | None = None
    points: int = 0
    low: int = 0
    high: int = 0
    first: int = 0
    last: int = 0

    @property
    def hours(self) -> float:
        """The number of hours with known lag."""
        return self.points * 24 / POINTS

    @property
    def change(self) -> int:
        return self.last - self.first


UNREAD = Trend()


class Trends:
    """At most 3,000 lines are cached; one query runs at a time, for a page's groups."""

    def __init__(self, lags: Callable[[], LagStatistics], now_ms: Callable[[], int]) -> None:
        self._lags = lags
        self._now_ms = now_ms
        self._cache: OrderedDict[str, tuple[int, Trend]] = OrderedDict()
        self._reading: asyncio.Future[None] | None = None

    async def of(self, groups: Sequence[str], wait_s: float = WAIT_S) -> dict[str, Trend]:
        """The lines of these groups, those of one page, as far as they are read within `wait_s`."""
        now_ms = self._now_ms()
        old = [name for name in groups[:GROUPS_MAX] if not self._is_fresh(name, now_ms)]
        if old:
            if self._reading is None or self._reading.done():
                self._reading = self._read(old, now_ms)
            await asyncio.wait([self._reading], timeout=wait_s)
        return {name: self._cache[name][1] for name in groups if name in self._cache}

    def _is_fresh(self, group: str, now_ms: int) -> bool:
        entry = self._cache.get(group)
        return entry is not None and 0 <= now_ms - entry[0] < FRESH_MS

    def _read(self, groups: Sequence[str], now_ms: int) -> "asyncio.Future[None]":
        is_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        to_ms = (now_ms // STEP_MS + 1) * STEP_MS

        def done(histories: Mapping[str, Sequence[int | None]]) -> None:
            for group, values in histories.items():
                self._keep(group, now_ms, trend(values))
            settle(is_done, None)

        self._lags().lag_peaks(
            groups, done, from_ms=max(0, to_ms - SPAN_MS), to_ms=to_ms, step_ms=STEP_MS
        )
        return is_done

    def _keep(self, group: str, now_ms: int, value: Trend) -> None:
        self._cache.pop(group, None)
        self._cache[group] = (now_ms, value)
        if len(self._cache) > CACHE_MAX:
            self._cache.popitem(last=False)


def trend(values: Sequence[int | None]) -> Trend:
    """The little line of these values, with gaps for times without samples. Pure."""
    points = [value for value in values if value is not None]
    if not points:
        return Trend(is_read=True, values=values)
    return Trend(
        is_read=True,
        values=values,
        line=sparkline.line(values) if len(points) > 1 else None,
        points=len(points),
        low=min(points),
        high=max(points),
        first=points[0],
        last=points[-1],
    )
