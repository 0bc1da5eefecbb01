"""The parts of a report's page: figures, charts and tables, as values for a template.

An unknown value is None, and its cell says why. If two ranges are compared, each figure has the
value of the other range.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from app.ui.framework import formats
from app.ui.framework.language import _
from app.ui.reports.axes import HourSpan
from app.ui.reports.charts import DASH, Chart

# Rows of a result table, by the names of its columns.
Rows = Sequence[Mapping[str, Any]]
ROWS_SHOWN_MAX = 200
HOUR_FORMAT = "%Y-%m-%dT%H"


class ValueKind(StrEnum):
    """The format of a value."""

    COUNT = "count"
    LENGTH = "length"  # ms
    SIZE = "size"  # bytes
    SHARE = "share"  # 0 to 1
    RATE = "rate"  # per second
    TIMES = "times"  # a ratio, as "2.5 times"
    MOMENT = "moment"  # ms since 1970
    TEXT = "text"
    NAME = "name"
    STATE = "state"


@dataclass(frozen=True)
class ReportCell:
    """A value; `why` is the reason if it is unknown, or an explanation."""

    value: Any
    kind: ValueKind = ValueKind.TEXT
    href: str = ""
    why: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Column:
    """A column; `cell` makes its cell from what the row is about.

    Columns that are `is_optional` are hidden on narrow screens.
    """

    label: str
    cell: Callable[[Any], ReportCell]
    is_number: bool = True
    is_optional: bool = False
    help: str = ""
    is_sentence: bool = False


@dataclass(frozen=True)
class Table:
    """A table with the first of `total` rows; `empty` is its text without rows."""

    id: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[ReportCell]]
    total: int
    empty: str = ""
    is_twin: bool = False  # the figures of a chart, collapsed below it


@dataclass(frozen=True)
class Figure:
    """A number above the charts, and its value in the range to compare with."""

    label: str
    cell: ReportCell
    before: ReportCell | None = None
    note: str = ""
    tone: str = ""

    @property
    def change(self) -> float | None:
        """The relative change; None if it is undefined."""
        return change_of(self.cell.value, None if self.before is None else self.before.value)


@dataclass(frozen=True)
class ReportView:
    """The content of a report of one range, or of two."""

    figures: Sequence[Figure] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        return not any(table.rows for table in self.tables if not table.is_twin)


@dataclass(frozen=True)
class ReportQuery:
    """The query of a report; "" means every topic or group.

    `before` is the range to compare with, of the same length and steps as `span`. `queues` is the
    number of write queues of each existing topic.
    """

    span: HourSpan
    before: HourSpan | None = None
    topic: str = ""
    group: str = ""
    choice: str = ""
    zone: Any = field(default=UTC)
    queues: Mapping[str, int] = field(default_factory=dict)

    def earlier(self, cell: ReportCell) -> ReportCell | None:
        """A cell of the range to compare with; None without one."""
        return cell if self.before else None


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
    """The change relative to `before`; None if a value is unknown or `before` is 0."""
    if not isinstance(now, int | float) or not isinstance(before, int | float) or not before:
        return None
    return now / before - 1


@lru_cache(4096)
def hour_ms(name: str) -> int:
    """ "2026-11-21T03" as ms since 1970."""
    return round(datetime.strptime(name, HOUR_FORMAT).replace(tzinfo=UTC).timestamp() * 1000)


def hour_name(at_ms: int) -> str:
    """The UTC hour of a time, as result tables name it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(HOUR_FORMAT)


def count(value: int | None, why: str = "") -> ReportCell:
    return ReportCell(value, ValueKind.COUNT, why=why)


def length(value_ms: float | None, why: str = "") -> ReportCell:
    value_ms = None if value_ms is None else round(value_ms, 3)
    return ReportCell(value_ms, ValueKind.LENGTH, why=why)


def share(part: float | None, whole: float | None, why: str = "") -> ReportCell:
    """The share of `part` in `whole`; unknown if `whole` is 0."""
    if part is None or not whole:
        return ReportCell(None, ValueKind.SHARE, why=why or _("nothing to divide by"))
    return ReportCell(part / whole, ValueKind.SHARE)


def topic_column(name: Callable[[Any], str], why: str = "", *, is_optional: bool = False) -> Column:
    """Links to topics; unknown, because of `why`, without a name."""

    def cell(subject: Any) -> ReportCell:
        return ReportCell(name(subject) or None, ValueKind.NAME, href="topics", why=why)

    return Column(_("Topic"), cell, is_number=False, is_optional=is_optional)


def group_column(name: Callable[[Any], str], why: str = "", *, is_optional: bool = False) -> Column:
    """Links to groups; a dash, because of `why`, without a name."""

    def cell(subject: Any) -> ReportCell:
        group = name(subject)
        kind = ValueKind.NAME if group else ValueKind.TEXT
        return ReportCell(group or DASH, kind, href="groups", why="" if group else why)

    return Column(_("Group"), cell, is_number=False, is_optional=is_optional)


def compared(
    query: ReportQuery, column: Column, before: Callable[[Any], ReportCell]
) -> list[Column]:
    """A column; in a comparison also that of the other range and that of the change."""
    if query.before is None:
        return [column]

    def change(subject: Any) -> ReportCell:
        value = change_of(column.cell(subject).value, before(subject).value)
        why = _("one of the two is unknown, or nothing")
        return ReportCell(value, ValueKind.SHARE, why=why, tone="change")

    other = Column(_("before"), before, is_optional=True)
    return [column, other, Column(_("change"), change, is_optional=True)]


def table(
    id: str, title: str, columns: Sequence[Column], subjects: Sequence[Any], empty: str
) -> Table:
    """A table with a row for each of the first ROWS_SHOWN_MAX subjects."""
    rows = [[column.cell(each) for column in columns] for each in subjects[:ROWS_SHOWN_MAX]]
    return Table(id, title, columns, rows, len(subjects), empty)


def twin_table(id: str, title: str, columns: Sequence[Column], subjects: Iterable[Any]) -> Table:
    """The table with the figures of a chart."""
    rows = [[column.cell(each) for column in columns] for each in subjects]
    return Table(id, title, columns, rows, len(rows), is_twin=True)


def time_table(id: str, span: HourSpan, columns: Sequence[Column]) -> Table:
    """The table of a chart over time, newest first; its columns are of the index of a step."""
    begin = Column(
        _("From"), lambda n: ReportCell(span.begin_ms(n), ValueKind.MOMENT), is_number=False
    )
    return twin_table(id, _("Over time"), [begin, *columns], reversed(range(span.steps)))


def say_count(value: float) -> str:
    """A count for axes and tooltips; large ones are rounded: 1,234 and 25k."""
    if value >= 10_000_000:
        return f"{value / 1_000_000:,.0f}M"
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return formats.count(round(value)) if value >= 10 or value == int(value) else f"{value:.2g}"
