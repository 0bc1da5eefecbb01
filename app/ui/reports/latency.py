"""Reports on latency and slow consumers, from the table `latency`. Pure."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from app.services.reports.cells import LatencyCell, gather
from app.services.reports.comparison import Better
from app.ui.framework import charts
from app.ui.framework.charts import Chart, Series, Words
from app.ui.framework.formats import say_length
from app.ui.framework.language import _, ngettext, translated
from app.ui.reports.axes import HourSpan
from app.ui.reports.bins import SHARES, bins_of
from app.ui.reports.cells import ReportCell, ValueKind, count, length, times
from app.ui.reports.charts import Heat, Histogram, heat_chart, histogram_chart
from app.ui.reports.parts import Figure, ReportQuery, ReportView
from app.ui.reports.rows import Row, Rows, grouped, hour_ms
from app.ui.reports.tables import (
    Column,
    Table,
    compared,
    group_column,
    table,
    time_table,
    topic_column,
    twin_table,
)
from app.ui.reports.words import METRIC_HELP

Take = Callable[[LatencyCell], float]  # one figure of a cell


def latency(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of the latency measure `query.choice`."""
    rows, before = _of(rows, query.choice), _of(before, query.choice)
    help_ = translated(METRIC_HELP[query.choice])
    return ReportView(
        figures=_figures(query, rows, before),
        charts=_charts(query, rows, before),
        tables=[_by_name(query, rows, before), _spread(rows), _by_time(query, rows, "over-time")],
        notes=[help_, *_skew_note(rows)],
    )


def slow_consumers(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of consume time by client, compared with the median of its group."""
    rows, before = _of(rows, "process"), _of(before, "process")
    id = "clients-over-time"
    return ReportView(
        figures=_figures(query, rows, before),
        charts=[_percentiles(query, rows, before, id)] if rows else [],
        tables=[_by_client(query, rows, before), _by_time(query, rows, id)],
        notes=[translated(METRIC_HELP["process"]), *_skew_note(rows)],
    )


def _of(rows: Rows, metric: str) -> Rows:
    return [row for row in rows if row["metric"] == metric and row["n"]]


def _figures(query: ReportQuery, rows: Rows, before: Rows) -> list[Figure]:
    now, then = gather(rows), gather(before)
    why = _("no measurements")

    def cells(take: Take, kind: ValueKind) -> tuple[ReportCell, ReportCell]:
        new, old = (ReportCell(each and take(each), kind, why=why) for each in (now, then))
        return new, old

    def figure(label: str, take: Take) -> Figure:
        return query.figure(label, *cells(take, ValueKind.LENGTH), better=Better.LOWER)

    messages = cells(lambda cell: cell.messages, ValueKind.COUNT)
    return [
        query.figure(_("Messages"), *messages, note=_sampled_note(now)),
        *(figure(name, partial(_at, part)) for name, part in SHARES),
        figure(_("Mean"), lambda cell: cell.mean),
        figure(_("Longest"), lambda cell: cell.most),
    ]


def _at(part: float, cell: LatencyCell) -> float:
    return cell.percentile(part)


def _sampled_note(cell: LatencyCell | None) -> str:
    if cell is None or cell.messages == cell.n:
        return ""
    return _("scaled up from %(n)s traced", n=f"{cell.n:,}")


def _skew_note(rows: Rows) -> list[str]:
    skewed = sum(row["skewed"] for row in rows)
    if not skewed:
        return []
    return [
        ngettext(
            "%(n)s negative time because of clock skew; counted as 0.",
            "%(n)s negative times because of clock skew; counted as 0.",
            skewed,
            n=f"{skewed:,}",
        )
    ]


def by_step(span: HourSpan, rows: Rows) -> list[LatencyCell | None]:
    """The merged rows of each step; None for a step without rows."""
    rows_by_step: list[list[Row]] = [[] for __ in range(span.steps)]
    for row in rows:
        index = span.index(hour_ms(row["hour"]))
        if index is not None:
            rows_by_step[index].append(row)
    return [gather(each) for each in rows_by_step]


def _charts(query: ReportQuery, rows: Rows, before: Rows) -> list[Chart]:
    if not rows:
        return []
    cells = by_step(query.span, rows)
    bins = bins_of([cell.buckets for cell in cells if cell])
    counts = [bins.counts(cell.buckets) if cell else None for cell in cells]
    heat = Heat(bins.names, bins.edges, counts)
    says = _("Messages by latency, over time.")
    note = _("Log scale; darker = more messages. Gray: no figures.")
    words = Words("heat", _("Heat map"), says, note, "over-time")
    return [
        heat_chart(query.canvas, heat, words),
        _percentiles(query, rows, before, "over-time"),
        _histogram(rows, before),
    ]


def _percentiles(query: ReportQuery, rows: Rows, before: Rows, table: str) -> Chart:
    series = _lines(by_step(query.span, rows))
    if query.before is not None:
        series += _lines(by_step(query.before, before), is_before=True)
    says = _("50th, 95th and 99th percentile.")
    note = _("Log scale.")
    words = Words("percentiles", _("Percentiles over time"), says, note, table, say_length)
    return charts.lines(query.canvas, series, words, charts.LOGARITHMS)


def _lines(cells: Sequence[LatencyCell | None], *, is_before: bool = False) -> list[Series]:
    return [
        Series(
            name,
            _("%(name)s, previous range", name=name) if is_before else name,
            [None if cell is None else cell.percentile(part) for cell in cells],
            is_before,
        )
        for name, part in SHARES
    ]


def _histogram(rows: Rows, before: Rows) -> Chart:
    now, then = gather(rows), gather(before)
    assert now is not None, "there are rows"
    bins = bins_of([now.buckets, *([then.buckets] if then else [])])
    scaled = [number * now.n / then.n for number in bins.counts(then.buckets)] if then else None
    marks = [(name, bins.place(now.percentile(part))) for name, part in SHARES]
    note = _("Outlined: previous range, scaled to the same number of messages.") if then else ""
    words = Words("histogram", _("Distribution"), _("Messages by latency."), note, "spread")
    bars = Histogram(bins.names, bins.edges, bins.counts(now.buckets), scaled, marks)
    return histogram_chart(bars, words)


def _spread(rows: Rows) -> Table:
    """The figures of the histogram."""
    now = gather(rows)
    bins = bins_of([now.buckets] if now else [])
    columns = [
        Column(_("Took"), lambda row: ReportCell(row[0]), is_number=False),
        Column(_("Measured"), lambda row: count(row[1])),
    ]
    counts = bins.counts(now.buckets) if now else []
    rows_of_bins = zip(bins.names, counts, strict=False)
    return twin_table("spread", _("Distribution"), columns, rows_of_bins)


def _by_time(query: ReportQuery, rows: Rows, id: str) -> Table:
    cells = by_step(query.span, rows)
    why = _("no figures for this measure")

    def of_step(kind: Callable[[Any, str], ReportCell], take: Take) -> Callable[[int], ReportCell]:
        return lambda n: kind(None if (cell := cells[n]) is None else take(cell), why)

    columns = [
        Column(_("Messages"), of_step(count, lambda cell: cell.messages)),
        *(Column(name, of_step(length, partial(_at, part))) for name, part in SHARES),
        Column(_("Longest"), of_step(length, lambda cell: cell.most), is_optional=True),
    ]
    return time_table(id, query.span, columns)


def _by_name(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("topic", "group")
    columns = [
        topic_column(lambda row: row[0][0], _("record not available")),
        group_column(lambda row: row[0][1], _("no group involved")),
        *_measure_columns(query, _cells(before, names)),
    ]
    cells = sorted(_cells(rows, names).items(), key=lambda row: -row[1].percentile(0.99))
    empty = _("No measurements in this range.")
    return table("by-name", _("By topic and group"), columns, cells, empty)


def _cells(rows: Rows, names: Sequence[str]) -> dict[tuple[str, ...], LatencyCell]:
    """The merged rows by the values of some columns."""
    groups = grouped(rows, names).items()
    return {key: cell for key, each in groups if (cell := gather(each)) is not None}


def _measure_columns(
    query: ReportQuery, others: Mapping[tuple[str, ...], LatencyCell]
) -> list[Column]:
    """The columns of rows of a key and its cell; `others` are those of the range before."""
    why = _("no measurements at that time")

    def pair(label: str, part: float, *, is_optional: bool = False) -> list[Column]:
        column = Column(label, lambda row: length(row[1].percentile(part)), is_optional=is_optional)
        return compared(
            query.before, column,
            lambda row: length(others[row[0]].percentile(part) if row[0] in others else None, why),
            Better.LOWER,
        )  # fmt: skip

    return [
        Column(_("Messages"), lambda row: count(row[1].messages)),
        Column("p50", lambda row: length(row[1].percentile(0.5)), is_optional=True),
        *pair("p95", 0.95, is_optional=True),
        *pair("p99", 0.99),
        Column(_("Longest"), lambda row: length(row[1].most), is_optional=True),
    ]


def _by_client(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("group", "topic", "client")
    medians = {key: cell.percentile(0.5) for key, cell in _cells(rows, names[:2]).items()}

    def of_group(row: tuple[tuple[str, ...], LatencyCell]) -> ReportCell:
        """The median of a client as many times as that of its group."""
        key, cell = row
        median = medians[key[:2]]
        ratio = cell.percentile(0.5) / median if median else None
        tone = "bad" if ratio is not None and ratio >= 2 and cell.n >= 20 else ""
        return times(ratio, _("not defined (division by zero)"), tone)

    help_ = _("Ratio of its p50 to that of the whole group")
    columns = [
        group_column(lambda row: row[0][0]),
        Column(_("Client"), lambda row: _client_cell(row[0][2]), is_number=False),
        topic_column(lambda row: row[0][1], is_optional=True),
        Column(_("Ratio to group"), of_group, help=help_),
        *_measure_columns(query, _cells(before, names)),
    ]
    cells = sorted(_cells(rows, names).items(), key=lambda row: -row[1].percentile(0.95))
    empty = _("No acknowledgements in this range.")
    return table("clients", _("By client"), columns, cells, empty)


def _client_cell(client: str) -> ReportCell:
    if client == "*":
        return ReportCell(_("all other clients"))
    if not client:
        return ReportCell(None, why=_("name not reported"))
    return ReportCell(client, why=_("not reported"))
