"""The figures of the reports: tables, sums, latencies, files."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations, Raw
from app.api.framework.paging import Cursor
from app.db.report_rows import PACKED, ResultFilter, Row
from app.security.access import READ_SERVER
from app.services.reports import comparison
from app.services.reports.comparison import LATENCY_FIGURES, Better
from app.services.reports.files import histogram_text
from app.services.reports.results import Latency, RowTotals
from engine.report_tables import RESULTS, ResultTable
from kitemq.model.conversion import convert
from kitemq.model.reports import (
    Hour,
    ReportLatencies,
    ReportLatency,
    ReportTable,
    ReportTables,
    ResultRows,
    ResultTotals,
)

operations = Operations("reports", table="outcomes")
OFFSETS = ("offset", "committed")  # are texts in JSON, as numbers of that size lose digits
CSV, PARQUET = b"text/csv; charset=utf-8; header=present", b"application/vnd.apache.parquet"

By = Annotated[
    str, Meta(max_length=200, description="Columns to put together by, separated by commas.")
]

Against = Annotated[
    str,
    Meta(
        max_length=13,
        description="Compares with a range of the same length: before (the time just before), week "
        "(a week earlier) or its first hour. Needs first and last.",
    ),
]


class FilterQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the figures; empty ones do not apply."""

    first: Hour = ""
    last: Annotated[str, Meta(description="Included.")] = ""
    topic: str = ""
    group: str = ""
    metric: str = ""
    kind: str = ""
    client: str = ""
    queue: str = ""
    state: str = ""
    outcome: str = ""
    reason: str = ""
    value: str = ""


class RowsQuery(FilterQuery, forbid_unknown_fields=True):
    """Filters and page of the figures."""

    cursor: Cursor = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class TotalsQuery(FilterQuery, forbid_unknown_fields=True):
    """Filters and grouping columns of the figures."""

    by: By = ""
    against: Against = ""


class LatencyQuery(FilterQuery, forbid_unknown_fields=True):
    """Filters and grouping of the latencies; without grouping there is one row."""

    by: By = ""
    against: Against = ""
    within_ms: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Asks for the share that does not exceed it."),
    ] = None
    buckets: Annotated[bool, Meta(description="Histograms too.")] = False


@operations.get("/reports/tables", needs=READ_SERVER)
async def list_report_tables(call: Call[None, None]) -> ReportTables:
    """List the tables of figures with their columns; docs/reports.md says what each means."""
    return ReportTables([convert(table, ReportTable) for table in RESULTS])


@operations.get(
    "/reports/tables/{table}", needs=READ_SERVER, example="/reports/tables/throughput?topic=orders"
)
async def list_report_rows(call: Call[RowsQuery, None]) -> ResultRows:
    """Read a table of figures, row by row, with what they were made of."""
    query = call.query
    page = await call.services.report_results.page(
        call.path("table"), _criteria(query), limit=query.limit, cursor=query.cursor
    )
    rows = [_row_out(page.table, row) for row in page.rows]
    return ResultRows(rows, page.next_cursor or None, page.basis)


@operations.get(
    "/reports/tables/{table}/totals",
    needs=READ_SERVER,
    example="/reports/tables/failures/totals?by=day,reason&kind=dead",
)
async def get_report_totals(call: Call[TotalsQuery, None]) -> ResultTotals:
    """Add figures up by some of their columns, or by `day`; `against` compares two ranges."""
    query, results = call.query, call.services.report_results
    name, by, criteria = call.path("table"), query.by.split(","), _criteria(query)
    other = comparison.earlier(criteria, by, query.against) if query.against else None
    totals = await results.totals(name, by, criteria)
    basis_before = None
    if other is not None:
        before = await results.totals(name, by, other)
        basis_before = before.basis
        _compare(totals, before)
    return ResultTotals(list(totals.by), totals.rows, totals.is_cut, totals.basis, basis_before)


@operations.get(
    "/reports/tables/{table}/csv",
    needs=READ_SERVER,
    answer=str,
    media_type="text/csv",
    errors=(409,),
)
async def download_report_csv(call: Call[FilterQuery, None]) -> Raw:
    """Take a table of figures as CSV, at most 100,000 rows.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    pieces = await call.services.report_results.csv(call.path("table"), _criteria(call.query))
    return Raw(b"".join([piece async for piece in pieces]), CSV)


@operations.get(
    "/reports/tables/{table}/parquet",
    needs=READ_SERVER,
    answer=str,
    media_type="application/vnd.apache.parquet",
    errors=(409,),
    curl_flags="-o outcomes.parquet",
)
async def download_report_parquet(call: Call[FilterQuery, None]) -> Raw:
    """Take a table of figures as Parquet, at most 100,000 rows; needs Spark's Python packages."""
    return Raw(
        await call.services.report_results.parquet(call.path("table"), _criteria(call.query)),
        PARQUET,
    )


@operations.get(
    "/reports/latency",
    needs=READ_SERVER,
    errors=(409,),
    example="?metric=end_to_end&by=topic,group",
)
async def get_report_latency(call: Call[LatencyQuery, None]) -> ReportLatencies:
    """Read latencies with their percentiles, put together by hour, day, metric, topic, group or
    client: from histograms, so that those of a week are as exact as those of an hour."""
    query, results = call.query, call.services.report_results
    by, criteria = query.by.split(","), _criteria(query)
    other = comparison.earlier(criteria, by, query.against) if query.against else None
    latency = await results.latency(by, criteria, within_ms=query.within_ms)
    items = [_latency_out(latency.by, item, query.buckets) for item in latency.items]
    if other is None:
        return ReportLatencies(items, latency.basis)
    before = await results.latency(by, other)
    others = {item.by: _figures(_latency_out(before.by, item, False)) for item in before.items}
    compared = [
        _compared(item, others.get(one.by)) for item, one in zip(items, latency.items, strict=True)
    ]
    return ReportLatencies(compared, latency.basis, before.basis)


def _compare(totals: RowTotals, before: RowTotals) -> None:
    """Put the sums of the other range, and what changed, beside those of each row."""
    sums = totals.table.sums
    is_comparable = totals.basis.hours_done == before.basis.hours_done
    fewer = comparison.FEWER.get(totals.table.name, ()) if is_comparable else ()
    better = dict.fromkeys(fewer, Better.LOWER)
    by_place = {tuple(row[name] for name in before.by): row for row in before.rows}
    for row in totals.rows:
        other = by_place.get(tuple(row[name] for name in totals.by))
        now = {name: row[name] for name in sums if name in row}
        then = {name: other[name] for name in now} if other is not None else {}
        row |= {"before": then or None, "change": comparison.changes(now, then, better)}


def _figures(item: ReportLatency) -> dict[str, float]:
    return {name: getattr(item, name) for name in ("n", "messages", *LATENCY_FIGURES)}


def _compared(item: ReportLatency, before: dict[str, float] | None) -> ReportLatency:
    better = dict.fromkeys(LATENCY_FIGURES, Better.LOWER)
    change = comparison.changes(_figures(item), before or {}, better)
    return msgspec.structs.replace(item, before=before, change=change)


def _criteria(query: FilterQuery) -> ResultFilter:
    fields = [name for name in FilterQuery.__struct_fields__ if name not in ("first", "last")]
    pairs = ((name, str(getattr(query, name))) for name in fields)
    chosen = tuple((name, value) for name, value in pairs if value)
    return ResultFilter(first=query.first, last=query.last, equal=chosen)


def _row_out(table: ResultTable, row: Row) -> Row:
    out = dict(row)
    for column in table.columns:
        name = column.name
        if name in PACKED:
            out[name] = msgspec.Raw(histogram_text(row[name]).encode())
        elif column.kind == "JSON":
            out[name] = msgspec.Raw(row[name].encode())
        elif name in OFFSETS and row[name] is not None:
            out[name] = str(row[name])
    return out


def _latency_out(by: tuple[str, ...], item: Latency, with_buckets: bool) -> ReportLatency:
    cell = item.cell
    buckets = {str(bucket): cell.buckets[bucket] for bucket in sorted(cell.buckets)}
    return convert(
        cell,
        ReportLatency,
        by=dict(zip(by, item.by, strict=True)),
        p50=cell.percentile(0.5),
        p95=cell.percentile(0.95),
        p99=cell.percentile(0.99),
        within=item.within,
        buckets=buckets if with_buckets else None,
    )
