"""The page of one report: charts and tables, a comparison, and the export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.responses import Response

from app.capabilities import require
from app.db.report_rows import ResultFilter
from app.ui.framework import charts, pages
from app.ui.framework.language import _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.reports import ranges as report_range
from app.ui.reports import table_files
from app.ui.reports.axes import HourSpan
from app.ui.reports.kinds import BY_NAME, LAG, Report, choices_of, offered
from app.ui.reports.leads import leads_of
from app.ui.reports.parts import ReportQuery, ReportView
from app.ui.reports.ranges import AGAINST, RANGES, RangeChoice
from app.ui.reports.reader import READ_MAX, read, result_filter, unpacked
from app.ui.reports.reports import RunLine, fresh_of
from app.ui.reports.rows import hour_ms
from engine.errors import NotFound
from kitemq.model.reports import Coarse

NAME_CHARS_MAX = 255
CSV, PARQUET = "text/csv; charset=utf-8", "application/vnd.apache.parquet"


@dataclass(frozen=True)
class ReportPage:
    """The context of `report.html`.

    `done` hours have figures, and `done_before` of the range to compare with; those before the
    times in `coarse` by periods of as many hours. Of the tables in `cut` only `read_max` rows were
    read. `fresh` is the run with the newest figures, `shared_query` the parameters that all reports
    share. `files` are the stored tables with their addresses in the REST API.
    """

    report: Report
    range: RangeChoice
    query: ReportQuery
    shared_query: str
    topics: Sequence[str]
    groups: Sequence[str]
    done: int
    done_before: int
    fresh: RunLine | None
    missing: str
    cut: Sequence[str]
    coarse: Sequence[tuple[int, int]]
    alert_href: str
    view: ReportView
    files: Sequence[tuple[str, str]]
    reports: Sequence[Report]
    ranges: Sequence[tuple[str, str, int]] = RANGES
    against: Sequence[tuple[str, str]] = AGAINST
    read_max: int = READ_MAX


async def show(request: PageRequest) -> Response:
    """GET /reports/{report}"""
    report = _report(request.path_params["report"])
    console, zone = request.console, request.zone
    capabilities = console.messaging.capabilities
    if report.job != LAG:
        require(capabilities, "trace_reports")
    require(capabilities, report.capability)
    report = replace(report, choices=choices_of(report, capabilities))
    results = request.services.report_results
    choice = report_range.read(request.query_params, console.now_ms(), zone, report.least_hours)
    coarse = await results.coarse(report.job)
    choice = report_range.coarsened(choice, coarse)
    values = _values(report, request.query_params)
    query = ReportQuery(
        span=choice.span,
        before=choice.before,
        topic=values["topic"],
        group=values["group"],
        choice=values["choice"],
        hidden=charts.hidden_of(request.query_params),
        leads=leads_of(report.name, values, request.query_params),
        zone=zone.rules,
        queues={topic.name: topic.write_queues for topic in await console.administration.topics()},
    )
    kind, table_id = (request.query_params.get(name, "") for name in ("format", "csv"))
    if kind in ("csv", "parquet") and not table_id:
        return await _file(request, report, query, kind)
    now = await read(results, report, query, query.span)
    then = await read(results, report, query, query.before)
    done, done_before = [
        await _done(request, report, query, span) for span in (query.span, query.before)
    ]
    query = replace(query, is_comparable=query.before is None or done == done_before)
    view = await console.render(
        lambda: report.build(query, unpacked(now.tables), unpacked(then.tables))
    )
    if table_id:
        return await _table_file(request, report, view, table_id)
    if choice.name == report_range.OWN:
        typed = choice.form.values
        typed["from"], typed["to"] = report_range.texts(choice.span, zone)
    table = report.tables[0]
    match = result_filter(report, table, query, query.span)
    name_filter = replace(match, equal=())
    reports = request.services.reports
    context = ReportPage(
        report=report,
        range=choice,
        query=query,
        shared_query=_query_of(request.query_params),
        topics=await results.values(table, "topic", name_filter),
        groups=await results.values(table, "group", name_filter) if report.has_groups else [],
        done=done,
        done_before=done_before,
        fresh=await fresh_of(reports, report.job),
        missing=reports.missing(),
        cut=sorted({*now.cut, *then.cut}),
        coarse=_coarse(choice, coarse),
        alert_href=_alert(report, query),
        view=view,
        files=[
            (name, _rows_href(name, result_filter(report, name, query, query.span)))
            for name in report.tables
        ],
        reports=offered(capabilities),
    )
    status = 422 if choice.form.is_wrong else 200
    return await pages.respond(
        request, "report.html", context, title=translated(report.label), status=status
    )


def _report(name: str) -> Report:
    report = BY_NAME.get(name)
    if report is None:
        raise NotFound(
            _("there is no report called %(name)s", name=repr(name[:40])),
            remedy=_("choose one from the list of reports"),
        )
    return report


def _values(report: Report, query: Mapping[str, str]) -> dict[str, str]:
    """The values in a query; an unknown choice becomes the report's first."""
    names = [name for name, __ in report.choices]
    choice = query.get("choice", "")
    return {
        "topic": query.get("topic", "").strip()[:NAME_CHARS_MAX],
        "group": query.get("group", "").strip()[:NAME_CHARS_MAX] if report.has_groups else "",
        "choice": choice if choice in names else next(iter(names), ""),
    }


async def _file(request: PageRequest, report: Report, query: ReportQuery, kind: str) -> Response:
    """Respond with the stored rows of one of the report's tables, as CSV or Parquet."""
    table = request.query_params.get("table", "")
    table = table if table in report.tables else report.tables[0]
    results = request.services.report_results
    match = result_filter(report, table, query, query.span)
    headers = pages.as_file(f"{table}.{kind}")
    with request.console.exports.taken():
        if kind == "parquet":
            content = await results.parquet(table, match)
            return Response(content, media_type=PARQUET, headers=headers)
        pieces = [piece async for piece in await results.csv(table, match)]
    return Response(b"".join(pieces), media_type=CSV, headers=headers)


async def _done(
    request: PageRequest, report: Report, query: ReportQuery, span: HourSpan | None
) -> int:
    """How many hours of a range have figures."""
    if span is None:
        return 0
    hours = result_filter(report, report.tables[0], query, span)
    criteria = ResultFilter(first=hours.first, last=hours.last)
    return (await request.services.report_results.basis(report.job, criteria)).hours_done


async def _table_file(request: PageRequest, report: Report, view: ReportView, id: str) -> Response:
    """Respond with one of the page's tables as CSV, every row of it."""
    table = next((table for table in view.tables if table.id == id), None)
    if table is None:
        raise NotFound(
            _("the report has no table called %(name)s", name=repr(id[:40])),
            remedy=_("use the link below a table"),
        )
    with request.console.exports.taken():
        content = await request.console.render(lambda: table_files.csv(table))
    return Response(content, media_type=CSV, headers=pages.as_file(f"{report.name}-{id}.csv"))


def _rows_href(name: str, match: ResultFilter) -> str:
    """The address of the stored rows of a table in the REST API."""
    pairs = [("first", match.first), ("last", match.last), *match.equal]
    return f"/api/v1/reports/tables/{name}?{urlencode([pair for pair in pairs if pair[1]])}"


def _coarse(choice: RangeChoice, coarse: Sequence[Coarse]) -> list[tuple[int, int]]:
    """The periods by which the figures of the ranges are kept, shortest first.

    Each is a number of hours and the time before which figures are kept by it.
    """
    begin_ms = min(span.from_ms for span in (choice.span, choice.before) if span is not None)
    periods = [(each.hours, hour_ms(each.before)) for each in reversed(coarse)]
    return [(hours, before_ms) for hours, before_ms in periods if begin_ms < before_ms]


def _query_of(query: Mapping[str, str]) -> str:
    """The query parameters that all reports share: range, topic, and group."""
    names = ("range", "from", "to", "zone", "against", "other", "topic", "group")
    return urlencode({name: query[name] for name in names if query.get(name)})


def _alert(report: Report, query: ReportQuery) -> str:
    """The link to a new alert rule on the topic and group; "" if the report has no kind of rule."""
    if report.alert is None:
        return ""
    values = {"kind": report.alert.value, "topic": query.topic, "group": query.group}
    return f"/alerts/new?{urlencode({name: value for name, value in values.items() if value})}"
