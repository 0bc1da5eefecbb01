"""The tables of reports: columns that make the cells of a row, and tables over time. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.services.reports.comparison import Better
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
    heading: str = ""  # in files, if not the label

    @property
    def name(self) -> str:
        """The heading in files."""
        return self.heading or self.label


@dataclass(frozen=True)
class Table:
    """A table with the first of `total` rows; `empty` is its text without rows.

    `every_row` makes all of them, for files.
    """

    id: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[ReportCell]]
    total: int
    empty: str = ""
    is_twin: bool = False  # the figures of a chart, collapsed below it
    every_row: Callable[[], Iterable[Sequence[ReportCell]]] = field(default=tuple, repr=False)


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
    span_before: HourSpan | None,
    column: Column,
    before: Callable[[Any], ReportCell],
    better: Better = Better.NEITHER,
) -> list[Column]:
    """A column; in a comparison also that of the other range and that of the change."""
    if span_before is None:
        return [column]

    def change(subject: Any) -> ReportCell:
        return change_of(column.cell(subject), before(subject), better)

    name = column.label
    old = _("%(name)s, previous range", name=name)
    other = Column(_("previous range"), before, is_optional=True, heading=old)
    heading = _("%(name)s, change", name=name)
    return [column, other, Column(_("change"), change, heading=heading)]


def message_columns(
    span_before: HourSpan | None,
    sums: Mapping[Any, int],
    others: Mapping[Any, int],
    better: Better = Better.NEITHER,
) -> list[Column]:
    """The column of messages by key, and in a comparison those of the range before."""
    column = Column(_("Messages"), lambda key: count(sums[key]))
    return compared(span_before, column, lambda key: count(others.get(key, 0)), better)


def table(
    id: str, title: str, columns: Sequence[Column], subjects: Sequence[Any], empty: str
) -> Table:
    """A table with a row for each of the first ROWS_SHOWN_MAX subjects."""

    def cells(shown: Sequence[Any]) -> list[list[ReportCell]]:
        return [[column.cell(each) for column in columns] for each in shown]

    rows, count_all = cells(subjects[:ROWS_SHOWN_MAX]), len(subjects)
    return Table(id, title, columns, rows, count_all, empty, every_row=lambda: cells(subjects))


def twin_table(id: str, title: str, columns: Sequence[Column], subjects: Iterable[Any]) -> Table:
    """The table with the figures of a chart."""
    rows = [[column.cell(each) for column in columns] for each in subjects]
    return Table(id, title, columns, rows, len(rows), is_twin=True, every_row=lambda: rows)


def time_table(id: str, span: HourSpan, columns: Sequence[Column]) -> Table:
    """The table of a chart over time, newest first; its columns are of the index of a step."""

    def begin(index: int) -> ReportCell:
        return ReportCell(span.begin_ms(index), ValueKind.MOMENT)

    columns = [Column(_("From"), begin, is_number=False), *columns]
    return twin_table(id, _("Over time"), columns, reversed(range(span.steps)))
