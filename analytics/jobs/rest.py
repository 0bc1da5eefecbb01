"""The most frequent values of each cell, and one row of rank 0 for all others: nothing is lost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
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
    whole = Window.partitionBy(*cell)
    before = whole.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    rows = ranked(counted, cell, order).withColumn("of_cell", F.count("*").over(whole))
    for name in sums:
        # What is neither this value's nor of one that ranks before it.
        left = F.sum(name).over(whole) - F.coalesce(F.sum(name).over(before), F.lit(0))
        rows = rows.withColumn(f"{name}_left", left)
    is_rest = F.col("rank") > count_max
    return rows.where(F.col("rank") <= count_max + 1).select(
        *cell,
        F.when(is_rest, 0).otherwise(F.col("rank")).alias("rank"),
        F.when(is_rest, "").otherwise(F.col(value)).alias(value),
        F.when(is_rest, F.col("of_cell") - count_max).otherwise(1).alias(values),
        *(
            F.when(is_rest, F.col(f"{name}_left")).otherwise(F.col(name)).alias(name)
            for name in sums
        ),
    )
