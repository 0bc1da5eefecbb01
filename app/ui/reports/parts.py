"""A report's query and its content: figures, charts and tables, as values for a template.

If two ranges are compared, each figure has the value of the other range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from app.services.reports.comparison import Better
from app.ui.framework import charts
from app.ui.framework.charts import Canvas, Chart, Lead, Series, Words
from app.ui.framework.language import _
from app.ui.reports.axes import HourSpan
from app.ui.reports.cells import ReportCell, ValueKind, change_of, count
from app.ui.reports.tables import Column, Table, time_table


@dataclass(frozen=True)
class Figure:
    """A number above the charts, and its value in the range to compare with."""

    label: str
    cell: ReportCell
    before: ReportCell | None = None
    note: str = ""
    tone: str = ""
    better: Better = Better.NEITHER
    is_comparable: bool = True

    @property
    def change(self) -> ReportCell | None:
        """The change; None if there is nothing to say of it."""
        if not self.is_comparable:
            return None
        change = change_of(self.cell, self.before, self.better)
        return None if change.value is None and not change.tone else change


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

    `before` is the range to compare with, of the same length and steps as `span`; it
    `is_comparable` if as many of its hours have figures. `queues` is the number of write queues of
    each existing topic. `hidden` series are left out of charts; a moment of a chart leads to
    `leads`.
    """

    span: HourSpan
    before: HourSpan | None = None
    topic: str = ""
    group: str = ""
    choice: str = ""
    zone: Any = field(default=UTC)
    queues: Mapping[str, int] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    leads: Sequence[Lead] = ()
    is_comparable: bool = True

    @property
    def canvas(self) -> Canvas:
        return Canvas(self.span, self.zone, self.hidden, self.leads)

    @property
    def fewer(self) -> Better:
        """The direction of a count that gets better when it falls; more hours have more of it."""
        return Better.LOWER if self.is_comparable else Better.NEITHER

    def figure(
        self,
        label: str,
        now: ReportCell,
        before: ReportCell,
        *,
        better: Better = Better.NEITHER,
        note: str = "",
        tone: str = "",
    ) -> Figure:
        """A figure, with the cell of the range to compare with if there is one."""
        is_sum = now.kind in (ValueKind.COUNT, ValueKind.SIZE)
        return Figure(
            label,
            now,
            before if self.before else None,
            note,
            tone,
            better,
            is_comparable=self.is_comparable or not is_sum,
        )


def over_time(words: Words, span: HourSpan, series: Sequence[Series]) -> Table:
    """The table with the figures of a chart of counts."""
    why = _("no figures for this time")

    def column(one: Series) -> Column:
        return Column(one.label, lambda n: count(one.values[n], why))

    return time_table(words.table_id, span, [column(one) for one in series])


def bars_over_time(
    query: ReportQuery, words: Words, series: Sequence[Series]
) -> tuple[list[Chart], list[Table]]:
    """A chart of stacked counts and the table with its figures; neither without series."""
    if not series:
        return [], []
    chart = charts.bars(query.canvas, series, words)
    return [chart], [over_time(words, query.span, series)]
