"""Takes a round of lag samples every interval, a few groups in each tick."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from engine.clock import Clock
from engine.errors import EngineError
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.statistics.lag_history import LagHistoryStore
from engine.statistics.lag_round import LagRound, RoundBuilder
from engine.statistics.values import LagOf

ROWS_PER_TICK = 100
ROWS_PER_INTERVAL = 2_000  # with more, rounds are further apart in proportion

ActiveMs = Callable[[str, str, int], int]


class LagSources(NamedTuple):
    """Answers about groups: their names, and of one its lag, its members and its last reset."""

    groups: Callable[[], list[str]]
    lag_of: LagOf
    members_of: Callable[[str], int | None]
    resets_of: Callable[[str], int]


class LagSampler(Service):
    """A round's samples bear one time, that of its beginning; an interval of 0 takes none."""

    name = "lag history"

    def __init__(
        self,
        history: LagHistoryStore,
        clock: Clock,
        *,
        interval_s: float,
        lags: LagSources,
        active_ms: ActiveMs,
        has_room: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._history = history
        self._clock = clock
        self.interval_s = interval_s
        self._lags = lags
        self._active_ms = active_ms
        self._has_room = has_room
        self._due_s = clock.monotonic_s() + interval_s
        self._round: RoundBuilder | None = None
        self._rest: Iterator[str] = iter(())
        self._last: LagRound | None = None

    def tick(self) -> float:
        """Sample up to a hundred queues; seconds until there is more to do."""
        if not self.interval_s:
            return IDLE_WAIT_MAX_S
        now_s = self._clock.monotonic_s()
        if self._round is None:
            if now_s < self._due_s:
                return self._due_s - now_s
            self._round = RoundBuilder(self._clock.now_ms())
            self._rest = iter(self._lags.groups())
        rows = 0
        for group in self._rest:
            rows += self._sample(self._round, group)
            if rows >= ROWS_PER_TICK:
                return 0.0
        finished, self._round = self._round, None
        wait_s = self.interval_s * max(1.0, len(finished) / ROWS_PER_INTERVAL)
        self._due_s = max(self._due_s + wait_s, now_s)
        if len(finished) and self._has_room():
            self._last = finished.finish(self._last)
            self._history.append(self._last)
        return self._due_s - now_s

    def recent(self) -> LagRound | None:
        """The last round that was taken since the start."""
        return self._last

    def _sample(self, round_: RoundBuilder, group: str) -> int:
        """How much work it was, in rows; a group without any is not free either."""
        try:
            lag = self._lags.lag_of(group)
        except EngineError:
            return 1  # deleted meanwhile
        members, resets = self._lags.members_of(group), self._lags.resets_of(group)
        return max(1, round_.add(group, lag, members, resets, self._active_ms))
