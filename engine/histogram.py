"""Histograms with logarithmic buckets: what latencies are kept as, to be merged and read later.

Bucket number b >= 0 holds the values from 1.05^b up to 1.05^(b+1); everything below 1 counts as 1
(times are whole milliseconds). A percentile read from it is wrong by at most 2.5 %. Any two are
merged by adding their counts, so hours, queues and groups can be taken together afterwards, which
percentiles cannot. The reports' SQL expression (`analytics.hist`) gives the same bucket for every
value.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

GAMMA = 1.05
VALUE_MAX = 2**40  # 35 years of ms: what is longer counts as that
ERROR_MAX = math.sqrt(GAMMA) - 1  # relative, of a percentile
# Added before rounding down, so that the last digit of a logarithm decides nothing: no whole number
# up to VALUE_MAX lies as close to an edge that is moved by so much (a test looks at all of them).
EDGE = 1e-9
Histogram = dict[int, int]


class Summary(NamedTuple):
    """Of one cell, as it is stored: exact but for the percentiles that `buckets` gives."""

    n: int
    total: int
    least: int
    most: int
    buckets: Histogram


def bucket_of(value: float) -> int:
    """The bucket that a value belongs to; negative ones count as 1."""
    return math.floor(math.log(min(max(value, 1), VALUE_MAX)) / math.log(GAMMA) + EDGE)


def value_of(bucket: int) -> float:
    """The value that stands for a bucket: the geometric middle of its ends."""
    return float(GAMMA ** (bucket + 0.5))


def bounds_of(bucket: int) -> tuple[float, float]:
    """The least value of a bucket, and the least one past it."""
    return float(GAMMA**bucket), float(GAMMA ** (bucket + 1))


def histogram(values: Iterable[float]) -> Histogram:
    """Counts by bucket."""
    found: Histogram = {}
    for value in values:
        bucket = bucket_of(value)
        found[bucket] = found.get(bucket, 0) + 1
    return found


def summarize(values: Iterable[int]) -> Summary | None:
    """A cell of these values; None without any."""
    kept = list(values)
    if not kept:
        return None
    return Summary(len(kept), sum(kept), min(kept), max(kept), histogram(kept))


def merge(histograms: Iterable[Mapping[int, int]]) -> Histogram:
    """One histogram of all values together."""
    found: Histogram = {}
    for one in histograms:
        for bucket, count in one.items():
            found[bucket] = found.get(bucket, 0) + count
    return found


def merge_summaries(summaries: Iterable[Summary]) -> Summary | None:
    """One cell of several; None without any."""
    cells = list(summaries)
    if not cells:
        return None
    return Summary(
        sum(cell.n for cell in cells),
        sum(cell.total for cell in cells),
        min(cell.least for cell in cells),
        max(cell.most for cell in cells),
        merge(cell.buckets for cell in cells),
    )


def percentile(buckets: Mapping[int, int], share: float) -> float | None:
    """The least value that `share` (0 to 1) of all values do not exceed; None without any.

    At most 2.5 % off: as `percentile_disc`, which gives a value that really occurred.
    """
    total = sum(buckets.values())
    if not total:
        return None
    wanted = max(1, math.ceil(share * total - 1e-9))
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return value_of(bucket)
    raise AssertionError("the counts are all there")


def share_within(buckets: Mapping[int, int], limit: float) -> float | None:
    """The share of values that do not exceed `limit`, its own bucket counted; None without any."""
    total = sum(buckets.values())
    if not total:
        return None
    last = bucket_of(limit)
    return sum(count for bucket, count in buckets.items() if bucket <= last) / total
