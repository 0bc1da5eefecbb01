"""Series of metrics for topics, queues, groups and readers, bounded in number.

A series that was silent for a day is dropped with its totals. When there is no room for another,
series that were silent for a quarter of an hour are dropped; when that makes no room either, new
names are counted together under `other`.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Generic, TypeVar

from engine.statistics.windows import (
    DAY_MS,
    MINUTE_MS,
    NOTHING,
    TEN_SECONDS_MS,
    Levels,
    WindowedCounter,
    WindowRates,
)

K = TypeVar("K")

IDLE_MS = DAY_MS
CROWDED_IDLE_MS = 15 * MINUTE_MS
SWEEP_MS = MINUTE_MS


class Metric(IntEnum):
    """The counted metrics."""

    MESSAGES_IN = 0
    BYTES_IN = 1
    MESSAGES_OUT = 2
    BYTES_OUT = 3
    ACKED = 4
    RETRIED = 5
    DEAD = 6
    REFUSED = 7


class MetricSeries:
    """The series of one name; one that never counted anything costs nothing."""

    __slots__ = ("_levels", "_series", "_since_ms", "used_ms")

    def __init__(self, levels: Levels, now_ms: int, since_ms: int) -> None:
        self._levels = levels
        self._since_ms = since_ms
        self._series: dict[Metric, WindowedCounter] = {}
        self.used_ms = now_ms

    def add(self, metric: Metric, at_ms: int, amount: int) -> None:
        self._of(metric, at_ms).add(at_ms, amount)
        self.used_ms = at_ms

    def spread(self, metric: Metric, from_ms: int, to_ms: int, amount: int) -> None:
        """Count what came between two times."""
        self._of(metric, to_ms).spread(from_ms, to_ms, amount)
        self.used_ms = to_ms

    def _of(self, metric: Metric, at_ms: int) -> WindowedCounter:
        series = self._series.get(metric)
        if series is None:
            series = self._series[metric] = WindowedCounter(self._levels, at_ms, self._since_ms)
        return series

    def rates(self, metric: Metric, now_ms: int) -> WindowRates:
        series = self._series.get(metric)
        return NOTHING if series is None else series.rates(now_ms)

    def minute(self, metric: Metric, now_ms: int) -> float:
        """Per second over the last minute."""
        series = self._series.get(metric)
        return 0.0 if series is None else series.rate(now_ms, MINUTE_MS, TEN_SECONDS_MS)

    def steady_rate(self, metric: Metric, now_ms: int, window_ms: int) -> float:
        """Per second over whole tens of seconds: the same until the next ten are over."""
        series = self._series.get(metric)
        return 0.0 if series is None else series.steady_rate(now_ms, window_ms, TEN_SECONDS_MS)

    def total(self, metric: Metric) -> int:
        series = self._series.get(metric)
        return 0 if series is None else series.total

    def history(self, metric: Metric, now_ms: int, bucket_ms: int, buckets: int) -> list[int]:
        """Counts of the last whole buckets, oldest first; [] when nothing was ever counted."""
        series = self._series.get(metric)
        return [] if series is None else series.history(now_ms, bucket_ms, buckets)

    def restart(self, now_ms: int) -> None:
        """Forget the windows: the calendar was set back."""
        self._since_ms = self.used_ms = now_ms
        for series in self._series.values():
            series.restart(now_ms)


class MetricRegistry(Generic[K]):
    """Accounts by name, at most `names_max` of them and `other`."""

    def __init__(self, levels: Levels, names_max: int, now_ms: int) -> None:
        self._levels = levels
        self._names_max = names_max
        self._since_ms = now_ms
        self._accounts: dict[K, MetricSeries] = {}
        self._swept_ms = now_ms
        self.other: MetricSeries | None = None

    def __len__(self) -> int:
        return len(self._accounts)

    def find(self, name: K) -> MetricSeries | None:
        return self._accounts.get(name)

    def open(self, name: K, now_ms: int) -> MetricSeries:
        """The account of a name, a new one where there is none; `other` where there is no room."""
        account = self._accounts.get(name)
        if account is not None:
            return account
        if len(self._accounts) >= self._names_max:
            self.sweep(now_ms, CROWDED_IDLE_MS)
        if len(self._accounts) >= self._names_max:
            if self.other is None:
                self.other = MetricSeries(self._levels, now_ms, self._since_ms)
            return self.other
        # A new series has no past: its rates are since the beginning.
        account = self._accounts[name] = MetricSeries(self._levels, now_ms, self._since_ms)
        return account

    def sweep(self, now_ms: int, idle_ms: int = IDLE_MS) -> None:
        """Drop series without a count for so long; at most once a minute."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        accounts = self._accounts
        for name in [name for name in accounts if now_ms - accounts[name].used_ms > idle_ms]:
            del accounts[name]

    def items(self) -> Iterator[tuple[K, MetricSeries]]:
        yield from list(self._accounts.items())

    def forget(self, name: K) -> None:
        self._accounts.pop(name, None)

    def restart(self, now_ms: int) -> None:
        """Forget all windows: the calendar was set back."""
        self._since_ms = self._swept_ms = now_ms
        others = [] if self.other is None else [self.other]
        for account in (*self._accounts.values(), *others):
            account.restart(now_ms)
