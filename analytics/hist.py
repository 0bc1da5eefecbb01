"""Histogram buckets over arrays, the same ones as `engine.histogram` gives for single values."""

import math

import numpy as np
import numpy.typing as npt

from engine.histogram import EDGE, GAMMA, VALUE_MAX


def buckets_of(values: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
    """The bucket of each value, as `bucket_of` gives it."""
    logarithms = np.log(np.clip(values, 1, VALUE_MAX)) / math.log(GAMMA)
    return np.floor(logarithms + EDGE).astype(np.int64)
