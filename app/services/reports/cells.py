"""Latencies put together: any number of rows of the table `latency` as one cell.

Cells are merged by adding the counts of their buckets, so a percentile of many hours is as exact
as that of one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from engine.histogram import Histogram, percentile, share_within, unpack


class LatencyCell:
    """Any number of measured values; times in ms, percentiles at most 2.5 % off.

    `skewed` of the `n` values were negative by clock skew and count as 0; `messages` is scaled up
    by the traces' sampling.
    """

    def __init__(self) -> None:
        self.n = self.messages = self.total = self.most = self.skewed = 0
        self._least: int | None = None
        self.buckets: Histogram = {}

    @property
    def least(self) -> int:
        return self._least or 0

    @property
    def mean(self) -> float:
        return self.total / self.n

    def add(self, row: Mapping[str, Any]) -> None:
        """A row, as the database has it or with its histogram as a mapping."""
        self.n += row["n"]
        self.messages += row["messages"] or 0
        self.total += row["total"] or 0
        self.skewed += row["skewed"] or 0
        self.most = max(self.most, row["most"] or 0)
        if row["least"] is not None:
            self._least = row["least"] if self._least is None else min(self._least, row["least"])
        for bucket, amount in buckets_of(row["buckets"]).items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + amount

    def percentile(self, share: float) -> float:
        """The value that this share of all do not exceed: the middle of its bucket, yet never
        outside of what was measured."""
        value = percentile(self.buckets, share)
        assert value is not None, "a cell has values"
        return min(max(value, float(self.least)), float(self.most))

    def share_within(self, limit_ms: float | None) -> float | None:
        """The share of values that do not exceed a limit; None without one."""
        return None if limit_ms is None else share_within(self.buckets, limit_ms)


def gather(rows: Iterable[Mapping[str, Any]]) -> LatencyCell | None:
    """One cell of all rows; None without any value."""
    cell = LatencyCell()
    for row in rows:
        if row["n"]:
            cell.add(row)
    return cell if cell.n else None


def buckets_of(stored: bytes | Mapping[int, int]) -> Mapping[int, int]:
    """A histogram as it is stored; one that was unpacked before stays."""
    return unpack(stored) if isinstance(stored, bytes) else stored
