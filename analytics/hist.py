"""Histograms with logarithmic buckets in SQL: the twin of `engine.histogram`, with its names too.

The expression and the Python function give the same bucket for every value.
"""

import math

from engine.histogram import (
    EDGE,
    ERROR_MAX,
    GAMMA,
    VALUE_MAX,
    Histogram,
    Summary,
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

__all__ = [
    "EDGE",
    "ERROR_MAX",
    "GAMMA",
    "VALUE_MAX",
    "Histogram",
    "Summary",
    "bounds_of",
    "bucket_of",
    "bucket_sql",
    "histogram",
    "merge",
    "merge_summaries",
    "percentile",
    "share_within",
    "summarize",
    "value_of",
]


def bucket_sql(column: str) -> str:
    """The same as a Spark SQL expression over a numeric column, as INT; NULL stays NULL."""
    value = f"least(greatest({column}, 1), {VALUE_MAX})"
    bucket = f"CAST(floor(ln({value}) / {math.log(GAMMA)!r}D + {EDGE!r}D) AS INT)"
    # `greatest` passes over NULL, and would make a 1 of it.
    return f"IF({column} IS NULL, NULL, {bucket})"
