"""Asks the engine for the history of lag, and keeps the answers for as long as nothing is new.

A month of samples is read from thousands of packed blocks; a page that refreshes itself every few
seconds must not do that each time.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from app.tasks import settle
from engine.broker import LagHistoryPage, LagHistoryRetention, LagStatistics

CACHE_MAX = 64
FRESH_MIN_MS = 10_000
FRESH_STEPS = 10  # an answer stays for this part of its step


@dataclass(frozen=True)
class LagSpan:
    """A chart's time range and the width of its points; it ends at `to_ms`, or now for 0."""

    name: str
    label: str
    length_ms: int
    step_ms: int
    to_ms: int = 0


@dataclass(frozen=True)
class LagOf:
    """Whose lag: a group's, in one topic or one queue of it if named."""

    group: str
    topic: str = ""
    queue: int | None = None


SPANS = (
    LagSpan("15m", "15 min", 900_000, 10_000),
    LagSpan("1h", "1 h", 3_600_000, 20_000),
    LagSpan("24h", "24 h", 86_400_000, 300_000),
    LagSpan("7d", "7 d", 7 * 86_400_000, 1_800_000),
    LagSpan("30d", "30 d", 30 * 86_400_000, 7_200_000),
)
OWN = "own"
OWN_MIN_MS, OWN_MAX_MS = 60_000, 366 * 86_400_000
POINTS_MAX = 360
STEPS_MS = (10_000, 20_000, 60_000, *(span.step_ms for span in SPANS[2:]))


def own_span(from_ms: int, to_ms: int, label: str) -> LagSpan:
    """A fixed range with the finest points that POINTS_MAX allows, widened to whole points."""
    to_ms = max(to_ms, from_ms + OWN_MIN_MS)
    length_ms = min(to_ms - from_ms, OWN_MAX_MS)
    fitting = (each for each in STEPS_MS if length_ms <= each * POINTS_MAX)
    step_ms = next(fitting, -(-length_ms // (POINTS_MAX * STEPS_MS[-1])) * STEPS_MS[-1])
    end_ms = -(-to_ms // step_ms) * step_ms
    begin_ms = (to_ms - length_ms) // step_ms * step_ms
    return LagSpan(OWN, label, end_ms - begin_ms, step_ms, end_ms)


class LagReader:
    """At most 64 answers are kept, and the same question is under way only once."""

    def __init__(self, lags: Callable[[], LagStatistics], now_ms: Callable[[], int]) -> None:
        self._lags = lags
        self._now_ms = now_ms
        self._cache: dict[tuple[LagOf, LagSpan], tuple[int, asyncio.Future[LagHistoryPage]]] = {}

    def keeping(self) -> LagHistoryRetention:
        """How the history of lag is stored, and since when."""
        return self._lags().lag_keeping()

    async def read(self, whose: LagOf, span: LagSpan) -> LagHistoryPage:
        """Points up to now that begin at whole steps; at most a tenth of a step old."""
        now_ms = self._now_ms()
        turn = now_ms // max(FRESH_MIN_MS, span.step_ms // FRESH_STEPS)
        entry = self._cache.get((whose, span))
        if entry is None or entry[0] != turn:
            entry = (turn, self._ask(whose, span, now_ms))
            self._cache.pop((whose, span), None)
            self._cache[whose, span] = entry
            if len(self._cache) > CACHE_MAX:
                del self._cache[next(iter(self._cache))]
        return await asyncio.shield(entry[1])

    def _ask(self, whose: LagOf, span: LagSpan, now_ms: int) -> asyncio.Future[LagHistoryPage]:
        future: asyncio.Future[LagHistoryPage] = asyncio.get_running_loop().create_future()
        to_ms = span.to_ms or (now_ms // span.step_ms + 1) * span.step_ms
        self._lags().lag_history(
            whose.group,
            partial(settle, future),
            from_ms=max(0, to_ms - span.length_ms),
            to_ms=to_ms,
            topic=whose.topic or None,
            queue=whose.queue,
            points_max=span.length_ms // span.step_ms + 1,
        )
        return future
