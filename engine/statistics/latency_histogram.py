"""Live histograms: a fixed number of log buckets, at most an eighth of their value wide.

Beside them stand RocketMQ's thirteen coarse buckets for the time that storing took. Both are kept
for the running minute, the one before, and since the start.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

STEPS = 8  # buckets within each power of two
SHIFT = STEPS.bit_length() - 1
VALUE_MAX = (1 << 40) - 1
BUCKETS = STEPS * (40 - SHIFT + 1)
WINDOW_MS = 60_000

# Upper ends in ms of Apache RocketMQ's buckets, the last one open.
ROCKETMQ_MS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
ROCKETMQ_LABELS = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s",
    "1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~",
)  # fmt: skip
assert len(ROCKETMQ_LABELS) == len(ROCKETMQ_MS) + 1


class Spread(msgspec.Struct, frozen=True):
    """Count, mean, percentiles and maximum; zeros when nothing was counted.

    A percentile is the upper end of its bucket, at most an eighth above the truth, and never above
    the maximum, which is exact.
    """

    count: int = 0
    mean: float = 0.0
    p50: int = 0
    p95: int = 0
    p99: int = 0
    p999: int = 0
    max: int = 0


class LatencyHistogram:
    """Whole numbers from 0 to 2**40 - 1; larger ones count as that."""

    __slots__ = ("_counts", "count", "maximum", "total")

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * BUCKETS))
        self.count = 0
        self.total = 0
        self.maximum = 0

    def add(self, value: int, weight: int = 1) -> None:
        value = min(max(value, 0), VALUE_MAX)
        self._counts[bucket_of(value)] += weight
        self.count += weight
        self.total += value * weight
        self.maximum = max(self.maximum, value)

    def add_all(self, other: "LatencyHistogram") -> None:
        """Count everything that another one has."""
        self._counts = array("Q", map(int.__add__, self._counts, other._counts))
        self.count += other.count
        self.total += other.total
        self.maximum = max(self.maximum, other.maximum)

    def spread(self) -> Spread:
        """The spread, in the unit of the values."""
        if not self.count:
            return Spread()
        p50, p95, p99, p999 = self._quantiles((0.5, 0.95, 0.99, 0.999))
        mean = self.total / self.count
        return Spread(
            count=self.count, mean=mean, p50=p50, p95=p95, p99=p99, p999=p999, max=self.maximum
        )

    def _quantiles(self, parts: Sequence[float]) -> list[int]:
        """The values at or below which these parts lie; `parts` ascend."""
        quantiles: list[int] = []
        cumulative = 0
        for bucket, count in enumerate(self._counts):
            cumulative += count
            while len(quantiles) < len(parts) and cumulative >= parts[len(quantiles)] * self.count:
                quantiles.append(min(upper_end(bucket), self.maximum))
            if len(quantiles) == len(parts):
                break
        return quantiles


def bucket_of(value: int) -> int:
    """Small values have a bucket each, then every power of two has `STEPS`."""
    power = value.bit_length() - 1 - SHIFT
    return value if power < 0 else (power << SHIFT) + (value >> power)


def upper_end(bucket: int) -> int:
    """The largest value of a bucket."""
    power = (bucket >> SHIFT) - 1
    if power < 0:
        return bucket
    return ((STEPS + (bucket & STEPS - 1) + 1) << power) - 1


class LatencySpreads(msgspec.Struct, frozen=True):
    """Latencies of storing in microseconds: over the last one to two minutes, and ever.

    `distribution` counts the last whole minute by `ROCKETMQ_LABELS`, as Apache RocketMQ shows it.
    """

    recent: Spread
    ever: Spread
    distribution: dict[str, int]


class Timing:
    """Histograms of the running minute, the one before and since the start."""

    def __init__(self) -> None:
        self._minute = -1
        self._running = LatencyHistogram()
        self._before = LatencyHistogram()
        self._ever = LatencyHistogram()
        self._coarse = [0] * len(ROCKETMQ_LABELS)
        self._coarse_before = self._coarse

    def add(self, at_ms: int, value: int, weight: int = 1) -> None:
        """Count a value, in microseconds where it is a time."""
        self._roll(at_ms)
        self._running.add(value, weight)
        self._coarse[bisect_left(ROCKETMQ_MS, value // 1000)] += weight

    def recent(self, now_ms: int) -> Spread:
        """Over the running minute and the one before."""
        self._roll(now_ms)
        both = LatencyHistogram()
        both.add_all(self._before)
        both.add_all(self._running)
        return both.spread()

    def ever(self) -> Spread:
        """Since the start."""
        every = LatencyHistogram()
        every.add_all(self._ever)
        every.add_all(self._running)
        return every.spread()

    def latency(self, now_ms: int) -> LatencySpreads:
        """All of it."""
        recent = self.recent(now_ms)
        distribution = dict(zip(ROCKETMQ_LABELS, self._coarse_before, strict=True))
        return LatencySpreads(recent, self.ever(), distribution)

    def _roll(self, at_ms: int) -> None:
        minute = at_ms // WINDOW_MS
        if minute <= self._minute:
            return
        is_next = minute == self._minute + 1
        self._ever.add_all(self._running)
        self._before = self._running if is_next else LatencyHistogram()
        self._coarse_before = self._coarse if is_next else [0] * len(ROCKETMQ_LABELS)
        self._running, self._coarse = LatencyHistogram(), [0] * len(ROCKETMQ_LABELS)
        self._minute = minute
