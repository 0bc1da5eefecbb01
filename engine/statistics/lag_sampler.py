"""Takes a round of lag samples every interval, a few groups in each tick."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from engine.clock import Clock
from engine.errors import EngineError
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.statistics.lag_round import RoundBuilder
from engine.statistics.lag_statistics import LagStatistics
from engine.statistics.values import LagOf

ROWS_PER_TICK = 100

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
        history: LagStatistics,
        clock: Clock,
        *,
        lags: LagSources,
        active_ms: ActiveMs,
        has_room: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._history = history
        self._clock = clock
        self._lags = lags
        self._active_ms = active_ms
        self._has_room = has_room
        self._due_s = clock.monotonic_s() + history.interval_s
        self._round: RoundBuilder | None = None
        self._rest: Iterator[str] = iter(())

    def tick(self) -> float:
        """Sample up to a hundred queues; seconds until there is more to do."""
        if not self._history.interval_s:
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
        self._due_s = max(self._due_s + self._history.wait_s(len(finished)), now_s)
        if len(finished) and self._has_room():
            self._history.keep(finished)
        return self._due_s - now_s

    def _sample(self, round_: RoundBuilder, group: str) -> int:
        """How much work it was, in rows; a group without any is not free either."""
        try:
            lag = self._lags.lag_of(group)
        except EngineError:
            return 1  # deleted meanwhile
        members, resets = self._lags.members_of(group), self._lags.resets_of(group)
        return max(1, round_.add(group, lag, members, resets, self._active_ms))
