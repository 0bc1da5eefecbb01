"""Rows of result tables: grouped, summed, and by the hour. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from engine import report_hours

# A row of a result table, by the names of its columns.
Row = Mapping[str, Any]
Rows = Sequence[Row]


def matching(rows: Rows, column: str, value: str) -> Rows:
    """The rows with this value in a column."""
    return [row for row in rows if row[column] == value]


def grouped(rows: Rows, names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by the values of some columns."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def total(rows: Iterable[Row], name: str = "messages") -> int:
    """The sum of a column."""
    return sum(row[name] or 0 for row in rows)


def sums_by(rows: Rows, *names: str) -> dict[tuple[Any, ...], int]:
    """The sums of messages by the values of some columns."""
    return {key: total(each) for key, each in grouped(rows, names).items()}


def by_time(rows: Rows) -> dict[int, float]:
    """The sums of messages by the beginning of the hour."""
    return {hour_ms(hour): number for (hour,), number in sums_by(rows, "hour").items()}


hour_ms = lru_cache(4096)(report_hours.begin_ms)
hour_name = report_hours.hour_of
