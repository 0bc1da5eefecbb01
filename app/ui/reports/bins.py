"""Groups fine latency buckets into the coarse rows of a chart. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.ui.framework.formats import say_length
from app.ui.reports.charts import DASH
from engine.histogram import value_of

# The ends of the rows in ms; each is the beginning of the next.
EDGES = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000,
    600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000, 259_200_000,
    604_800_000,
)  # fmt: skip
SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


@dataclass(frozen=True)
class Bins:
    """The rows of a chart, from the first to the last with a value."""

    first: int
    last: int

    @property
    def names(self) -> list[str]:
        return [_name(index) for index in range(self.first, self.last + 1)]

    @property
    def edges(self) -> list[str]:
        """The lower edge of each row, as text."""
        first = [_name(0)] if self.first == 0 else []
        rows = range(max(self.first, 1), self.last + 1)
        return [*first, *(say_length(EDGES[row - 1]) for row in rows)]

    def counts(self, buckets: Mapping[int, int]) -> list[int]:
        """The number of values in each row; a bucket across an edge counts by its middle."""
        counts_by_row = [0] * (self.last - self.first + 1)
        for bucket, number in buckets.items():
            counts_by_row[_row(value_of(bucket)) - self.first] += number
        return counts_by_row

    def place(self, value_ms: float) -> float:
        """The position of a value among the rows, logarithmic within its row."""
        row = _row(value_ms)
        low = EDGES[row - 1] if row else 0.5
        high = EDGES[row] if row < len(EDGES) else 2 * low
        within = math.log(max(value_ms, low) / low) / math.log(high / low)
        return row - self.first + min(within, 1.0)


def bins_of(all_buckets: Sequence[Mapping[int, int]]) -> Bins:
    """The contiguous rows that these histograms need; one row if all are empty."""
    used = {_row(value_of(bucket)) for buckets in all_buckets for bucket in buckets}
    return Bins(min(used), max(used)) if used else Bins(0, 0)


def _row(value_ms: float) -> int:
    """The row of a value; 0 below the first edge."""
    return sum(value_ms >= edge for edge in EDGES)


def _name(row: int) -> str:
    if row == 0:
        return f"< {say_length(EDGES[0])}"
    if row == len(EDGES):
        return f"≥ {say_length(EDGES[-1])}"
    return f"{say_length(EDGES[row - 1])} {DASH} {say_length(EDGES[row])}"
