"""The times when a group's lag on a topic was evaluated, as intervals. Pure.

Rows of earlier versions have only the total length and the last evaluation, and count as one
interval up to it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from app.db.report_rows import Row

# Of one row, however many hours it is of: beyond that the shortest are left out, so that nothing is
# taken for known that is not.
STRETCHES_MAX = 200
UNTOLD = ""

Intervals = list[tuple[int, int]]


def intervals(row: Mapping[str, Any]) -> Intervals:
    """The intervals of a row of `lag_hours`, [begin, end) in ms since 1970, in order."""
    text = row.get("evaluated", UNTOLD)
    if text == UNTOLD:
        return _guessed(row)
    return [(begin, end) for begin, end in json.loads(text)]


def merge_rows(rows: Iterable[Row]) -> str:
    """The intervals of several rows, in the form of one row."""
    merged = merge_intervals(pair for row in rows for pair in intervals(row))
    if len(merged) > STRETCHES_MAX:
        longest = sorted(merged, key=lambda pair: pair[0] - pair[1])[:STRETCHES_MAX]
        merged = sorted(longest)
    return json.dumps(merged)


def merge_intervals(pairs: Iterable[tuple[int, int]]) -> Intervals:
    """Intervals in order, adjacent ones merged."""
    merged: Intervals = []
    for begin, end in sorted(pairs):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def clip_intervals(begin: int, end: int, evaluated: Intervals) -> Intervals:
    """The parts of a time that lie in the intervals."""
    cut = [(max(begin, first), min(end, last)) for first, last in evaluated]
    return [(first, last) for first, last in cut if first < last]


def _guessed(row: Mapping[str, Any]) -> Intervals:
    evaluations, queues = row.get("evaluations") or 0, row.get("queues") or 0
    if not (evaluations and queues and row.get("at_ms")):
        return []
    whole_ms = sum(json.loads(row["state_ms"] or "{}").values()) // queues
    end = row["at_ms"] + whole_ms // evaluations
    return [(end - whole_ms, end)] if whole_ms else []
