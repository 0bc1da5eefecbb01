"""What a report's page is made of: figures, charts and tables, as values that a template shows.

A value that is not known is None, and its cell says why. Where two ranges are compared, each
figure has the other range's value beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from app.ui.framework import formats
from app.ui.framework.language import _
from app.ui.reports.axes import Span
from app.ui.reports.charts import Chart

# Rows of a result table, by the names of its columns.
Rows = Sequence[Mapping[str, Any]]
ROWS_SHOWN_MAX = 200
HOUR_FORMAT = "%Y-%m-%dT%H"


class Kind(StrEnum):
    """How a value is shown."""

    COUNT = "count"
    LENGTH = "length"  # ms
    SIZE = "size"  # bytes
    SHARE = "share"  # 0 to 1
    RATE = "rate"  # a second
    TIMES = "times"  # as many times as something else
    MOMENT = "moment"  # ms since 1970
    TEXT = "text"
    NAME = "name"
    STATE = "state"


@dataclass(frozen=True)
class Cell:
    """One value; `why` says why it is not known, or what it stands for."""

    value: Any
    kind: Kind = Kind.TEXT
    href: str = ""
    why: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Column:
    """`is_optional` ones are left out where there is little room."""

    label: str
    is_number: bool = True
    is_optional: bool = False
    help: str = ""
    is_sentence: bool = False


@dataclass(frozen=True)
class Table:
    """`rows` are the first of `total`; `empty` says what it means that there are none."""

    id: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    total: int
    empty: str = ""
    note: str = ""
    is_twin: bool = False  # the figures of a chart: folded away below it


@dataclass(frozen=True)
class Figure:
    """A number above the charts, and what it was in the range that is compared with."""

    label: str
    cell: Cell
    before: Cell | None = None
    note: str = ""
    tone: str = ""

    @property
    def change(self) -> float | None:
        """By how much of itself it has grown; None where that says nothing."""
        return change_of(self.cell.value, None if self.before is None else self.before.value)


@dataclass(frozen=True)
class View:
    """A whole report, made of one range's rows, or of two."""

    figures: Sequence[Figure] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        return not any(table.rows for table in self.tables if not table.is_twin)


@dataclass(frozen=True)
class ReportQuery:
    """What a report is to be of; "" for every topic or group.

    `before` is the range that it is compared with, as long and cut like `span`. `queues` says how
    many queues each topic that exists now takes messages in.
    """

    span: Span
    before: Span | None = None
    topic: str = ""
    group: str = ""
    choice: str = ""
    zone: Any = field(default=UTC)
    queues: Mapping[str, int] = field(default_factory=dict)


def grouped(rows: Rows, names: Sequence[str]) -> dict[tuple[str, ...], list[Mapping[str, Any]]]:
    """The rows by the values of some columns."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def total(rows: Iterable[Mapping[str, Any]], name: str) -> int:
    """The sum of a column."""
    return sum(row[name] or 0 for row in rows)


def change_of(now: Any, before: Any) -> float | None:
    """By how much of `before` a value has changed; None where one is unknown, or `before` is 0."""
    if not isinstance(now, int | float) or not isinstance(before, int | float) or not before:
        return None
    return now / before - 1


@lru_cache(4096)
def hour_ms(name: str) -> int:
    """ "2026-11-21T03" as ms since 1970."""
    return round(datetime.strptime(name, HOUR_FORMAT).replace(tzinfo=UTC).timestamp() * 1000)


def hour_name(at_ms: int) -> str:
    """The UTC hour that a time lies in, as result tables name it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(HOUR_FORMAT)


def count(value: int | None, why: str = "") -> Cell:
    return Cell(value, Kind.COUNT, why=why)


def length(value_ms: float | None, why: str = "") -> Cell:
    return Cell(None if value_ms is None else round(value_ms, 3), Kind.LENGTH, why=why)


def share(part: float | None, whole: float | None, why: str = "") -> Cell:
    """`part` of `whole`; not known where there is no whole."""
    if part is None or not whole:
        return Cell(None, Kind.SHARE, why=why or _("nothing to divide by"))
    return Cell(part / whole, Kind.SHARE)


def compared(now: Cell, before: Cell | None) -> list[Cell]:
    """A cell, and where ranges are compared the other's and the change."""
    if before is None:
        return [now]
    changed = change_of(now.value, before.value)
    why = _("one of the two is unknown, or nothing")
    return [now, before, Cell(changed, Kind.SHARE, why=why, tone="change")]


def compared_columns(column: Column, is_compared: bool) -> list[Column]:
    """The heads that belong to `compared`."""
    if not is_compared:
        return [column]
    return [column, Column(_("before"), is_optional=True), Column(_("change"), is_optional=True)]


def cut(rows: Sequence[Sequence[Cell]]) -> list[Sequence[Cell]]:
    """As many as a page shows."""
    return list(rows[:ROWS_SHOWN_MAX])


def say_count(value: float) -> str:
    """A count at an axis or in a hint; large ones rounded: 1,234 and 25k."""
    if value >= 10_000_000:
        return f"{value / 1_000_000:,.0f}M"
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return formats.count(round(value)) if value >= 10 or value == int(value) else f"{value:.2g}"
