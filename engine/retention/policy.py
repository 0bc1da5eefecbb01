"""Computes the position up to which the log is deleted: by age, by size, by disk space.

Only whole segments go, the oldest first, never the last, and at most ten in one look (RocketMQ's
`deleteFileBatchMax`).
Source: docs/rocketmq-rules.md#retention.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import ceil
from typing import NamedTuple

SEGMENTS_MAX = 10


class Cause(StrEnum):
    """Why messages went."""

    AGE = "age"
    SIZE = "size"
    DISK = "disk"
    TOPIC_AGE = "topic_age"
    PURGE = "purge"


class LogExtent(NamedTuple):
    """The log as it lies on the disk: where segments begin, and where the last record ends."""

    bases: Sequence[int]
    written: int
    segment_bytes: int

    @property
    def later(self) -> Sequence[int]:
        """Positions up to which segments could go now."""
        return self.bases[1 : 1 + SEGMENTS_MAX]


def by_age(extent: LogExtent, begun_ms: Callable[[int], int | None], before_ms: int) -> int:
    """Up to here everything was stored before `before_ms`.

    `begun_ms` tells when the first record of the segment at a position was stored: all before it
    is at least as old. Where that record cannot be read the next segment's has to tell.
    """
    target = extent.bases[0]
    for base in extent.later:
        begun = begun_ms(base)
        if begun is not None and begun > before_ms:
            break
        if begun is not None:
            target = base
    return target


def by_size(extent: LogExtent, bytes_max: int) -> int:
    """Up to here, so that the log takes at most `bytes_max`, or one segment."""
    target = extent.bases[0]
    for base in extent.later:
        if extent.written - target <= bytes_max:
            break
        target = base
    return target


def by_room(extent: LogExtent, excess_bytes: float) -> int:
    """Up to here, so that the disk has `excess_bytes` more room."""
    count = min(len(extent.later), max(1, ceil(excess_bytes / extent.segment_bytes)))
    return extent.bases[count] if count else extent.bases[0]
