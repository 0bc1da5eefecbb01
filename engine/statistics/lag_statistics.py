"""The history of lag: rounds of samples are kept, and asked for by group, topic and queue.

Who takes the samples is another matter: `lag_sampler.py` does of the embedded engine's groups.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.config import EngineConfig
from engine.statistics.lag_history import LagHistoryStore
from engine.statistics.lag_peaks import peak_query
from engine.statistics.lag_points import query
from engine.statistics.lag_round import LagRound, RoundBuilder
from engine.statistics.values import LagHistoryPage, LagHistoryRetention
from engine.statistics.windows import TEN_SECONDS_MS
from engine.store.damage import DamageLog
from engine.store.files import Files, OsFiles
from engine.store.pool import Pool

POINTS_DEFAULT = 300
ROWS_PER_INTERVAL = 2_000  # with more, rounds are further apart in proportion


class LagStatistics:
    """`load` it at the start, `close` it at the end; an `interval_s` of 0 keeps no history."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        pool: Pool,
        files: Files | None = None,
        damage_log: DamageLog | None = None,
    ) -> None:
        self.interval_s = config.lag_sample_s
        self._days = config.lag_history_days
        self._lag = LagHistoryStore(
            files or OsFiles(),
            config.data / "lag",
            pool,
            days=config.lag_history_days,
            bytes_max=config.lag_history_bytes_max,
            damage_log=damage_log,
        )
        self._last: LagRound | None = None

    def load(self) -> None:
        """Find the history of lag; before the first round, and it may wait."""
        self._lag.load()

    def close(self) -> None:
        """Let go of the files."""
        self._lag.close()

    def begin_round(self, at_ms: int) -> RoundBuilder:
        """A round whose samples bear one time."""
        return RoundBuilder(at_ms)

    def keep(self, builder: RoundBuilder) -> None:
        """Keep a round that is complete."""
        self._last = builder.finish(self._last)
        self._lag.append(self._last)

    def recent(self) -> LagRound | None:
        """The last round that was kept since the start."""
        return self._last

    def wait_s(self, rows: int) -> float:
        """Time from the beginning of a round of so many rows to that of the next."""
        return self.interval_s * max(1.0, rows / ROWS_PER_INTERVAL)

    def lag_history(
        self,
        group: str,
        done: Callable[[LagHistoryPage], None],
        *,
        from_ms: int,
        to_ms: int,
        topic: str | None = None,
        queue: int | None = None,
        points_max: int = POINTS_DEFAULT,
    ) -> None:
        """A group's lag over time, of one topic or queue of it if named; `done` gets the points.

        Points are `step_ms` apart, a multiple of the sampling interval, and at most `points_max`
        (2,000); one without samples says so. The disk is read in the pool; `done` is called on
        this thread. A group that is gone still has its history. Raises Invalid.
        """
        interval_ms = max(1, round(self.interval_s * 1000)) or TEN_SECONDS_MS
        request = query(
            group=group,
            topic=topic,
            queue=queue,
            from_ms=from_ms,
            to_ms=to_ms,
            points_max=points_max,
            interval_ms=interval_ms,
        )
        self._lag.read(request, done)

    def lag_peaks(
        self,
        groups: Iterable[str],
        done: Callable[[Mapping[str, Sequence[int | None]]], None],
        *,
        from_ms: int,
        to_ms: int,
        step_ms: int,
    ) -> None:
        """The highest lag of up to 500 groups in each step of time, read in one pass.

        A step without samples is None. The disk is read in the pool; `done` is called on this
        thread. Raises Invalid.
        """
        self._lag.read_peaks(peak_query(groups, from_ms, to_ms, step_ms), done)

    def lag_keeping(self) -> LagHistoryRetention:
        """State of the lag history."""
        last, lag = self._last, self._lag
        return LagHistoryRetention(
            interval_s=self.interval_s,
            days=self._days,
            oldest_ms=lag.oldest_ms,
            samples=lag.samples,
            size_bytes=lag.size_bytes,
            size_bytes_max=lag.bytes_max,
            rows=len(last.names) if last else 0,
            rounds_lost=lag.lost,
            failure=lag.failure,
        )
