"""Percentiles: never below the truth, and at most an eighth above it."""

import random

import pytest

from engine.statistics.latency_histogram import (
    BUCKETS,
    VALUE_MAX,
    LatencyHistogram,
    Timing,
    bucket_of,
    upper_end,
)


def test_buckets_follow_each_other_without_a_gap() -> None:
    values = [*range(5000), *(1 << power for power in range(12, 40)), VALUE_MAX]
    for value in values:
        bucket = bucket_of(value)
        assert upper_end(bucket - 1) < value <= upper_end(bucket)
        assert upper_end(bucket) <= value + value // 8
    assert bucket_of(VALUE_MAX) == BUCKETS - 1


def test_percentiles_are_at_most_an_eighth_too_high() -> None:
    chance = random.Random(7)
    values = sorted(round(chance.lognormvariate(6, 2)) for _ in range(10_000))
    histogram = LatencyHistogram()
    for value in values:
        histogram.add(value)
    spread = histogram.spread()
    for found, part in ((spread.p50, 0.5), (spread.p95, 0.95), (spread.p99, 0.99)):
        true = values[round(part * len(values)) - 1]
        assert true <= found <= true * 1.125 + 1
    assert (spread.count, spread.max) == (10_000, values[-1])
    assert spread.mean == pytest.approx(sum(values) / len(values))


def test_no_percentile_is_above_the_maximum() -> None:
    histogram = LatencyHistogram()
    histogram.add(1001)
    assert histogram.spread().p999 == 1001


def test_an_empty_histogram_tells_nothing() -> None:
    assert LatencyHistogram().spread().count == 0


def test_a_window_is_the_running_minute_and_the_one_before() -> None:
    timing = Timing()
    timing.add(0, 100)
    timing.add(60_000, 200)
    assert timing.recent(119_999).count == 2
    assert timing.recent(120_000).count == 1
    assert timing.recent(200_000).count == 0
    assert timing.ever().count == 2


def test_the_distribution_is_that_of_the_last_whole_minute_in_rocketmqs_buckets() -> None:
    timing = Timing()
    for ms in (0, 10, 10.5, 60, 20_000):
        timing.add(0, round(ms * 1000))
    assert sum(timing.latency(59_999).distribution.values()) == 0
    shown = timing.latency(60_000).distribution
    counted = {name: count for name, count in shown.items() if count}
    assert counted == {"<=0ms": 1, "0~10ms": 2, "50~100ms": 1, "10s~": 1}
    assert sum(timing.latency(120_000).distribution.values()) == 0
