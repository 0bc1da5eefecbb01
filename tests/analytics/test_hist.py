"""Buckets: both ways to find one agree, nothing is off by more than was said."""

import math
import random
from decimal import Decimal, localcontext

import numpy as np

from analytics.hist import buckets_of
from engine.histogram import (
    EDGE,
    ERROR_MAX,
    GAMMA,
    VALUE_MAX,
    bounds_of,
    bucket_of,
    histogram,
    merge,
    merge_summaries,
    percentile,
    share_within,
    summarize,
    value_of,
)

GOLDEN = {
    -5: 0, 0: 0, 1: 0, 2: 14, 3: 22, 5: 32, 10: 47, 100: 94, 999: 141, 1000: 141, 60_000: 225,
    3_600_000: 309, 86_400_000: 374, VALUE_MAX: 568, VALUE_MAX * 9: 568,
}  # fmt: skip


def edges() -> list[int]:
    """The whole numbers on both sides of every bucket's edge."""
    found = set()
    for bucket in range(bucket_of(VALUE_MAX) + 1):
        low, high = (math.floor(each) for each in bounds_of(bucket))
        found |= {low, low + 1, high, high + 1}
    return sorted(value for value in found if 1 <= value <= VALUE_MAX)


def samples() -> list[int]:
    chance = random.Random(5)
    return [round(chance.lognormvariate(6, 2.5)) for _ in range(5000)]


def test_golden_buckets() -> None:
    assert {value: bucket_of(value) for value in GOLDEN} == GOLDEN


def test_arrays_give_the_same_buckets() -> None:
    values = [*GOLDEN, *edges(), *samples()]
    found = buckets_of(np.array(values, dtype=np.int64))
    assert found.tolist() == [bucket_of(one) for one in values]


def test_no_whole_number_is_so_near_an_edge_that_rounding_could_decide() -> None:
    """Logarithms of doubles are exact to some 1e-13 here, in bucket numbers."""
    with localcontext() as context:
        context.prec = 40
        log_gamma = Decimal(math.log(GAMMA))
        nearest = min(
            abs(place - place.to_integral_value())
            for value in edges()
            for place in [Decimal(value).ln() / log_gamma + Decimal(EDGE)]
        )
    assert nearest > Decimal("5e-13")


def test_percentiles_are_at_most_two_and_a_half_percent_off() -> None:
    values = sorted(max(1, value) for value in samples())
    buckets = histogram(values)
    for share in (0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0):
        exact = values[max(1, math.ceil(share * len(values))) - 1]
        found = percentile(buckets, share)
        assert found is not None
        assert abs(found - exact) <= ERROR_MAX * exact * 1.000001
    assert ERROR_MAX < 0.025


def test_merging_parts_gives_the_whole() -> None:
    values = samples()
    parts = [values[start::7] for start in range(7)]
    assert merge(map(histogram, parts)) == histogram(values)
    cells = [cell for part in parts if (cell := summarize(part)) is not None]
    assert merge_summaries(cells) == summarize(values)
    assert summarize([]) is merge_summaries([]) is percentile({}, 0.5) is None


def test_the_share_within_a_limit() -> None:
    buckets = histogram([1, 1, 10, 1000])
    assert share_within(buckets, 1) == 0.5
    assert share_within(buckets, 10) == 0.75
    assert share_within(buckets, 5000) == 1.0
    assert share_within({}, 5) is None
    low, high = bounds_of(bucket_of(1000))
    assert low <= 1000 < high
    assert low < value_of(bucket_of(1000)) < high
