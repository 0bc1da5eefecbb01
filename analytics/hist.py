"""Histograms with logarithmic buckets over arrays: the twin of `engine.histogram`, with its names.

Both functions give the same bucket for every value.
"""

import math

import numpy as np
import numpy.typing as npt

from engine.histogram import (
    EDGE,
    ERROR_MAX,
    GAMMA,
    VALUE_MAX,
    Histogram,
    HistogramSummary,
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
    "HistogramSummary",
    "bounds_of",
    "bucket_of",
    "buckets_of",
    "histogram",
    "merge",
    "merge_summaries",
    "percentile",
    "share_within",
    "summarize",
    "value_of",
]


def buckets_of(values: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
    """The bucket of each value, as `bucket_of` gives it."""
    logarithms = np.log(np.clip(values, 1, VALUE_MAX)) / math.log(GAMMA)
    return np.floor(logarithms + EDGE).astype(np.int64)
