"""Reports on latency and slow consumers, from the table `latency`. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from app.services.reports.cells import LatencyCell, gather
from app.ui.framework.formats import say_length
from app.ui.framework.language import _, ngettext, translated
from app.ui.reports import charts as report_charts
from app.ui.reports.axes import Span
from app.ui.reports.bins import SHARES, bins_of
from app.ui.reports.charts import DASH, Chart, Heat, Histogram, Series, Words
from app.ui.reports.parts import Cell as TableCell
from app.ui.reports.parts import (
    Column,
    Figure,
    Kind,
    ReportQuery,
    Rows,
    Table,
    View,
    compared,
    compared_columns,
    count,
    cut,
    grouped,
    hour_ms,
    length,
    say_count,
)
from app.ui.reports.words import METRIC_HELP

Row = Mapping[str, Any]


def latency(query: ReportQuery, rows: Rows, before: Rows) -> View:
    """The report of the latency measure `query.choice`."""
    rows, before = _of(rows, query.choice), _of(before, query.choice)
    help_ = translated(METRIC_HELP[query.choice])
    return View(
        figures=_figures(rows, before if query.before else None),
        charts=_charts(query, rows, before),
        tables=[_by_name(query, rows, before), _spread(rows), _by_time(query, rows)],
        notes=[help_, *_skew_note(rows)],
    )


def slow_consumers(query: ReportQuery, rows: Rows, before: Rows) -> View:
    """The report of consume time by client, compared with the median of its group."""
    rows, before = _of(rows, "process"), _of(before, "process")
    clients = _table_of_clients(query, rows, before)
    return View(
        figures=_figures(rows, before if query.before else None),
        charts=[_percentiles(query, rows, before, "clients-over-time")] if rows else [],
        tables=[clients, _by_time(query, rows, id="clients-over-time")],
        notes=[translated(METRIC_HELP["process"]), *_skew_note(rows)],
    )


def _of(rows: Rows, metric: str) -> Rows:
    return [row for row in rows if row["metric"] == metric and row["n"]]


def _figures(rows: Rows, before: Rows | None) -> list[Figure]:
    now = gather(rows)
    then = None if before is None else gather(before)
    why = _("nothing was measured")

    def figure(
        label: str, take: Callable[[LatencyCell], float], kind: Kind, note: str = ""
    ) -> Figure:
        other = None if before is None else TableCell(then and take(then), kind, why=why)
        return Figure(label, TableCell(now and take(now), kind, why=why), other, note)

    return [
        figure(_("Messages"), lambda cell: cell.messages, Kind.COUNT, _sampled_note(now)),
        *(figure(name, partial(_at, part), Kind.LENGTH) for name, part in SHARES),
        figure(_("Mean"), lambda cell: cell.mean, Kind.LENGTH),
        figure(_("Longest"), lambda cell: cell.most, Kind.LENGTH),
    ]


def _at(part: float, cell: LatencyCell) -> float:
    return cell.percentile(part)


def _sampled_note(cell: LatencyCell | None) -> str:
    if cell is None or cell.messages == cell.n:
        return ""
    return _("scaled up from %(n)s that were traced", n=f"{cell.n:,}")


def _skew_note(rows: Rows) -> list[str]:
    skewed = sum(row["skewed"] for row in rows)
    if not skewed:
        return []
    return [
        ngettext(
            "%(n)s time was negative because two clocks disagree; it counts as 0.",
            "%(n)s times were negative because two clocks disagree; they count as 0.",
            skewed,
            n=f"{skewed:,}",
        )
    ]


def by_step(span: Span, rows: Rows) -> list[LatencyCell | None]:
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
    words = Words(
        "heat", _("Heat map"), _("How many messages took how long, over time."), "over-time",
        say_count, note=_("Darker is more, by the logarithm. Grey: no figures."),
    )  # fmt: skip
    return [
        report_charts.heat(query.span, heat, words, query.zone),
        _percentiles(query, rows, before, "over-time"),
        _histogram(rows, before),
    ]


def _percentiles(query: ReportQuery, rows: Rows, before: Rows, table: str) -> Chart:
    series = _lines(by_step(query.span, rows))
    if query.before is not None:
        series += _lines(by_step(query.before, before), is_before=True)
    words = Words(
        "percentiles", _("Percentiles over time"),
        _("The time that 50, 95 and 99 percent of the messages did not exceed."), table,
        say_length, note=_("The axis is logarithmic."),
    )  # fmt: skip
    return report_charts.lines(query.span, series, words, query.zone, report_charts.LOGARITHMS)


def _lines(cells: Sequence[LatencyCell | None], *, is_before: bool = False) -> list[Series]:
    return [
        Series(
            name,
            _("%(name)s before", name=name) if is_before else name,
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
    note = _("Outlined: the range before, scaled to as many messages.") if then else ""
    words = Words(
        "histogram", _("Spread"), _("How many messages took how long."), "spread", say_count, note
    )
    bars = Histogram(bins.names, bins.edges, bins.counts(now.buckets), scaled, marks)
    return report_charts.histogram(bars, words)


def _spread(rows: Rows) -> Table:
    """The figures of the histogram."""
    now = gather(rows)
    bins = bins_of([now.buckets] if now else [])
    counts = bins.counts(now.buckets) if now else []
    lines = [
        [TableCell(name), count(number)] for name, number in zip(bins.names, counts, strict=False)
    ]
    columns = [Column(_("Took"), is_number=False), Column(_("Measured"))]
    return Table("spread", _("Spread"), columns, lines, len(lines), is_twin=True)


def _by_time(query: ReportQuery, rows: Rows, id: str = "over-time") -> Table:
    columns = [
        Column(_("From"), is_number=False),
        Column(_("Messages")),
        *(Column(name) for name, __ in SHARES),
        Column(_("Longest"), is_optional=True),
    ]
    why = _("no figures for this time")
    lines = []
    for index, cell in reversed(list(enumerate(by_step(query.span, rows)))):
        moment = TableCell(query.span.begin_ms(index), Kind.MOMENT)
        parts = [
            length(None if cell is None else cell.percentile(part), why) for __, part in SHARES
        ]
        lines.append(
            [
                moment,
                count(None if cell is None else cell.messages, why),
                *parts,
                length(None if cell is None else cell.most, why),
            ]
        )
    return Table(id, _("Over time"), columns, lines, len(lines), is_twin=True)


def _by_name(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    is_compared = query.before is not None
    others = {key: gather(each) for key, each in grouped(before, ("topic", "group")).items()}
    cells = [(key, gather(each)) for key, each in grouped(rows, ("topic", "group")).items()]
    cells.sort(key=lambda pair: -(pair[1].percentile(0.99) if pair[1] else 0))
    lines = []
    for key, cell in cells:
        assert cell is not None
        other = others.get(key)
        lines.append([*_names(*key), *_measures(cell, other, is_compared)])
    return Table(
        "by-name", _("By topic and group"), _measure_columns(is_compared), cut(lines), len(lines),
        empty=_("Nothing was measured in this range."),
    )  # fmt: skip


def _names(topic: str, group: str) -> list[TableCell]:
    return [
        TableCell(topic or None, Kind.NAME, href="topics", why=_("its record is not at hand")),
        TableCell(group, Kind.NAME, href="groups")
        if group
        else TableCell(DASH, why=_("no group takes part")),
    ]


def _measures(cell: LatencyCell, other: LatencyCell | None, is_compared: bool) -> list[TableCell]:
    why = _("nothing was measured then")

    def pair(take: Callable[[LatencyCell], float]) -> Iterable[TableCell]:
        return compared(
            length(take(cell)),
            length(None if other is None else take(other), why) if is_compared else None,
        )

    return [
        count(cell.messages),
        length(cell.percentile(0.5)),
        *pair(lambda one: one.percentile(0.95)),
        *pair(lambda one: one.percentile(0.99)),
        length(cell.most),
    ]


def _measure_columns(is_compared: bool) -> list[Column]:
    return [
        Column(_("Topic"), is_number=False),
        Column(_("Group"), is_number=False),
        Column(_("Messages")),
        Column("p50", is_optional=True),
        *compared_columns(Column("p95", is_optional=True), is_compared),
        *compared_columns(Column("p99"), is_compared),
        Column(_("Longest"), is_optional=True),
    ]


def _table_of_clients(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("group", "client", "topic")
    others = {key: gather(each) for key, each in grouped(before, names).items()}
    middles = {
        key: cell.percentile(0.5)
        for key, each in grouped(rows, ("group", "topic")).items()
        if (cell := gather(each))
    }
    cells = [(key, cell) for key, each in grouped(rows, names).items() if (cell := gather(each))]
    cells.sort(key=lambda pair: -pair[1].percentile(0.95))
    lines = []
    for (group, client, topic), cell in cells:
        other = others.get((group, client, topic))
        middle = middles[(group, topic)]
        times = cell.percentile(0.5) / middle if middle else None
        tone = "bad" if times is not None and times >= 2 and cell.n >= 20 else ""
        named = (
            TableCell(_("all other clients"))
            if client == "*"
            else TableCell(client, why=_("not told"))
        )
        lines.append(
            [
                TableCell(group, Kind.NAME, href="groups"),
                named if client else TableCell(None, why=_("the client told no name")),
                TableCell(topic, Kind.NAME, href="topics"),
                TableCell(times, Kind.TIMES, tone=tone, why=_("nothing to divide by")),
                *_measures(cell, other, query.before is not None),
            ]
        )
    heads = _measure_columns(query.before is not None)
    columns = [
        heads[1],
        Column(_("Client"), is_number=False),
        Column(_("Topic"), is_number=False, is_optional=True),
        Column(_("Of the group"), help=_("Its p50 as many times as that of the whole group")),
        *heads[2:],
    ]
    return Table(
        "clients", _("By client"), columns, cut(lines), len(lines),
        empty=_("No group acknowledged anything in this range."),
    )  # fmt: skip
