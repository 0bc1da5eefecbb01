"""Reads the figures of a report in bounded pages, and reports truncated tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.db.report_rows import ResultFilter
from app.services.reports.cells import buckets_of
from app.services.reports.results import PAGE_MAX, ReportResults
from app.ui.reports.axes import HourSpan
from app.ui.reports.kinds import Report
from app.ui.reports.parts import ReportQuery
from app.ui.reports.rows import Rows, hour_name
from engine.report_tables import RESULTS_BY_NAME

READ_MAX = 20_000  # rows of one table on a page


@dataclass
class Read:
    """Rows by table; the tables in `cut` are truncated."""

    tables: dict[str, Rows] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)


def result_filter(
    report: Report, table: str, query: ReportQuery, span: HourSpan | None
) -> ResultFilter:
    """The filter for a page's rows of a table; `lag_now` has no range."""
    columns = RESULTS_BY_NAME[table].names
    names = {"topic": query.topic, "group": query.group}
    equal = [(name, value) for name, value in names.items() if value and name in columns]
    choice_column = (report.chosen_by or {}).get(table)
    if choice_column:
        equal.append((choice_column, query.choice))
    if span is None or table == "lag_now":
        return ResultFilter(equal=tuple(equal))
    last = hour_name(span.to_ms - 1)
    return ResultFilter(first=hour_name(span.from_ms), last=last, equal=tuple(equal))


async def read(
    results: ReportResults, report: Report, query: ReportQuery, span: HourSpan | None
) -> Read:
    """Read the rows of all tables of a report; none without a range."""
    result = Read()
    for table in report.tables:
        if span is None:
            result.tables[table] = ()
            continue
        match = result_filter(report, table, query, span)
        result.tables[table], is_cut = await _rows(results, table, match)
        if is_cut:
            result.cut.append(table)
    return result


async def _rows(results: ReportResults, table: str, match: ResultFilter) -> tuple[Rows, bool]:
    """The first READ_MAX rows, and whether there are more."""
    rows: list[Mapping[str, Any]] = []
    cursor = ""
    while len(rows) < READ_MAX:
        page = await results.page(table, match, limit=PAGE_MAX, cursor=cursor)
        rows += page.rows
        cursor = page.next_cursor
        if not cursor:
            return rows, False
    return rows, True


def unpacked(tables: Mapping[str, Rows]) -> dict[str, Rows]:
    """The tables with their histograms decoded once, instead of once per chart."""
    return {
        name: [{**row, "buckets": buckets_of(row["buckets"])} for row in rows]
        if name == "latency"
        else rows
        for name, rows in tables.items()
    }
