"""Run-length encoding of sorted offsets: `[first, count, ...]`."""

from collections.abc import Iterable, Sequence

Runs = list[int]


def to_runs(offsets: Sequence[int]) -> Runs:
    """Ascending offsets without doubles as runs."""
    if not offsets:
        return []
    first, last = offsets[0], offsets[-1]
    if last - first + 1 == len(offsets):
        return [first, len(offsets)]
    runs: Runs = []
    for offset in offsets:
        if runs and offset == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += (offset, 1)
    return runs


def from_runs(runs: Runs) -> Sequence[int]:
    """The offsets again, ascending."""
    if len(runs) == 2:
        return range(runs[0], runs[0] + runs[1])
    return [offset for run in iter_runs(runs) for offset in run]


def iter_runs(runs: Runs) -> Iterable[range]:
    """Each run as a range."""
    return (range(first, first + count) for first, count in zip(runs[::2], runs[1::2], strict=True))
