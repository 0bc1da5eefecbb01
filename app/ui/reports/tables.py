"""The tables of reports: columns that make the cells of a row, and tables over time. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.ui.framework.language import _
from app.ui.reports.axes import HourSpan
from app.ui.reports.cells import ReportCell, ValueKind, change_of, count
from app.ui.reports.charts import DASH

ROWS_SHOWN_MAX = 200


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


def text_column(
    label: str, say: Callable[[Any], str], *, is_optional: bool = False, is_sentence: bool = False
) -> Column:
    """A column of texts; a dash for an empty one."""
    return Column(
        label, lambda subject: ReportCell(say(subject) or DASH), False, is_optional, "", is_sentence
    )


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
    span_before: HourSpan | None, column: Column, before: Callable[[Any], ReportCell]
) -> list[Column]:
    """A column; in a comparison also that of the other range and that of the change."""
    if span_before is None:
        return [column]

    def change(subject: Any) -> ReportCell:
        value = change_of(column.cell(subject), before(subject))
        why = _("not comparable: a value is unknown or zero")
        return ReportCell(value, ValueKind.SHARE, why=why, tone="change")

    other = Column(_("previous range"), before, is_optional=True)
    return [column, other, Column(_("change"), change, is_optional=True)]


def message_columns(
    span_before: HourSpan | None, sums: Mapping[Any, int], others: Mapping[Any, int]
) -> list[Column]:
    """The column of messages by key, and in a comparison those of the range before."""
    column = Column(_("Messages"), lambda key: count(sums[key]))
    return compared(span_before, column, lambda key: count(others.get(key, 0)))


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

    def begin(index: int) -> ReportCell:
        return ReportCell(span.begin_ms(index), ValueKind.MOMENT)

    columns = [Column(_("From"), begin, is_number=False), *columns]
    return twin_table(id, _("Over time"), columns, reversed(range(span.steps)))
