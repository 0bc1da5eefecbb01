"""Histograms with logarithmic buckets, which keep latencies so that they can be merged later.

Bucket number b >= 0 holds the values from 1.05^b up to 1.05^(b+1); everything below 1 counts as 1
(times are whole milliseconds). A percentile read from it is wrong by at most 2.5 %. Any two are
merged by adding their counts, so hours, queues and groups can be taken together afterwards, which
percentiles cannot. The reports' SQL expression (`analytics.hist`) gives the same bucket for every
value.

Packed, a histogram is runs of neighbouring buckets, ascending, as unsigned LEB128 numbers:

| number | meaning |
|---|---|
| gap | buckets between the end of the run before (0 at first) and this one |
| length | buckets of this run, 1 or more |
| counts | as many as that: each less the one before (0 at first), as 2n, or -2n - 1 if negative |
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
BUCKET_MAX = 1023  # that is unpacked; VALUE_MAX lies in 568
COUNT_BITS = 63
Histogram = dict[int, int]


class HistogramSummary(NamedTuple):
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
    counts: Histogram = {}
    for value in values:
        bucket = bucket_of(value)
        counts[bucket] = counts.get(bucket, 0) + 1
    return counts


def summarize(values: Iterable[int]) -> HistogramSummary | None:
    """A cell of these values; None without any."""
    sample = list(values)
    if not sample:
        return None
    return HistogramSummary(len(sample), sum(sample), min(sample), max(sample), histogram(sample))


def merge(histograms: Iterable[Mapping[int, int]]) -> Histogram:
    """One histogram of all values together."""
    counts: Histogram = {}
    for one in histograms:
        for bucket, count in one.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return counts


def merge_summaries(summaries: Iterable[HistogramSummary]) -> HistogramSummary | None:
    """One cell of several; None without any."""
    cells = list(summaries)
    if not cells:
        return None
    return HistogramSummary(
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
    rank = max(1, math.ceil(share * total - 1e-9))
    cumulative = 0
    for bucket in sorted(buckets):
        cumulative += buckets[bucket]
        if cumulative >= rank:
            return value_of(bucket)
    raise AssertionError("the counts are all there")


def share_within(buckets: Mapping[int, int], limit: float) -> float | None:
    """The share of values that do not exceed `limit`, its own bucket counted; None without any."""
    total = sum(buckets.values())
    if not total:
        return None
    last = bucket_of(limit)
    return sum(count for bucket, count in buckets.items() if bucket <= last) / total


def pack(buckets: Mapping[int, int]) -> bytes:
    """A histogram as few bytes, always the same ones for it; ValueError for negative numbers."""
    out = bytearray()
    end = 0
    if min(buckets.values(), default=0) < 0:
        raise ValueError("a histogram has a negative count")
    for first, counts in _runs(buckets):
        _write(out, first - end)
        _write(out, len(counts))
        before = 0
        for count in counts:
            change = count - before
            _write(out, 2 * change if change >= 0 else -2 * change - 1)
            before = count
        end = first + len(counts)
    return bytes(out)


def unpack(data: bytes) -> Histogram:
    """What `pack` made; ValueError for anything else. At most BUCKET_MAX + 1 buckets."""
    counts: Histogram = {}
    place = bucket = 0
    while place < len(data):
        gap, place = _read(data, place)
        length, place = _read(data, place)
        bucket += gap
        if not 0 < length <= BUCKET_MAX + 1 - bucket:
            raise ValueError("a packed histogram has a run that cannot be")
        count = 0
        for _ in range(length):
            number, place = _read(data, place)
            count += -(number + 1 >> 1) if number & 1 else number >> 1
            if count < 0:
                raise ValueError("a packed histogram has a count below nothing")
            counts[bucket] = count
            bucket += 1
    return counts


def _runs(buckets: Mapping[int, int]) -> list[tuple[int, list[int]]]:
    """Neighbouring buckets together: the first one's number, and the counts from there."""
    runs: list[tuple[int, list[int]]] = []
    for bucket in sorted(buckets):
        if runs and runs[-1][0] + len(runs[-1][1]) == bucket:
            runs[-1][1].append(buckets[bucket])
        else:
            runs.append((bucket, [buckets[bucket]]))
    return runs


def _write(out: bytearray, number: int) -> None:
    if not 0 <= number < 1 << COUNT_BITS:
        raise ValueError("a histogram has a bucket or a count that cannot be")
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _read(data: bytes, place: int) -> tuple[int, int]:
    """A number, and where the next begins."""
    number = shift = 0
    while shift < COUNT_BITS:
        if place >= len(data):
            raise ValueError("a packed histogram ends within a number")
        byte = data[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place
    raise ValueError("a packed histogram has a number of too many bytes")
