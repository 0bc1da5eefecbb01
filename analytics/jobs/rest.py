"""The most frequent values of each cell, and one row of rank 0 for all others: nothing is lost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.columns import ranked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def most(
    counted: "DataFrame",
    cell: Sequence[str],
    value: str,
    values: str,
    *,
    sums: Sequence[str],
    count_max: int,
) -> "DataFrame":
    """`counted` has a row for each cell and `value`, with `sums`, by the first of which it ranks.

    The result has `rank`, and in the column `values` how many different ones a row stands for.
    """
    order = [F.desc(sums[0]), F.asc(value)]
    rows = ranked(counted, cell, order)
    is_kept = F.col("rank") <= count_max
    return (
        rows.withColumn("rank", F.when(is_kept, F.col("rank")).otherwise(0))
        .withColumn(value, F.when(F.col("rank") > 0, F.col(value)).otherwise(""))
        .groupBy(*cell, "rank", value)
        .agg(F.count("*").alias(values), *(F.sum(name).alias(name) for name in sums))
    )
