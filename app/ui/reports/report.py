"""The page of one report: charts and tables, a comparison, and the export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.report_rows import ResultFilter, RunRow
from app.ui.framework import pages, preferences
from app.ui.framework.forms import Form
from app.ui.framework.language import _, translated
from app.ui.reports import ranges as report_range
from app.ui.reports.kinds import BY_NAME, REPORTS, Report
from app.ui.reports.parts import ReportQuery, ReportView, hour_ms, hour_name
from app.ui.reports.ranges import AGAINST, RANGES, RangeChoice
from app.ui.reports.reader import READ_MAX, read, result_filter, unpacked
from app.ui.reports.reports import Fresh, fresh_of
from engine.errors import NotFound
from kitemq.model.reports import Coarse

NAME_CHARS_MAX = 255
CSV, PARQUET = "text/csv; charset=utf-8", "application/vnd.apache.parquet"


@dataclass(frozen=True)
class Tab:
    """A link to another report for the same range."""

    name: str
    label: str


@dataclass(frozen=True)
class Before:
    """Figures before a time are kept by periods of `hours`."""

    hours: int
    before_ms: int


@dataclass(frozen=True)
class ReportHead:
    """The description of a report on its page."""

    name: str
    label: str
    text: str
    tables: Sequence[str]
    choices: Sequence[tuple[str, str]]
    choice_label: str
    has_groups: bool


@dataclass(frozen=True)
class ReportPage:
    """The context of `report.html`.

    `done` of `hours` hours have figures, older ones not by the hour, as `coarse` says; of the
    tables in `cut` only `read_max` rows were read.
    """

    report: ReportHead
    others: Sequence[Tab]
    kept: str
    form: Form
    range: str
    ranges: Sequence[tuple[str, str, int]]
    against: Sequence[tuple[str, str]]
    choice: str
    topic: str
    group: str
    topics: Sequence[str]
    groups: Sequence[str]
    from_ms: int
    to_ms: int
    before_from_ms: int | None
    before_to_ms: int | None
    hours: int
    done: int
    fresh: Fresh | None
    missing: str
    cut: Sequence[str]
    read_max: int
    coarse: Sequence[Before]
    alert_href: str
    view: ReportView


async def show(request: Request) -> Response:
    """GET /reports/{report}"""
    report = _report(request.path_params["report"])
    values = _values(report, request.query_params)
    console, zone = pages.console_of(request), preferences.read(request).zone
    span = report_range.read(request.query_params, console.now_ms(), zone, report.least_hours)
    results = services_of(request.scope).report_results
    coarse = await results.coarse(report.job)
    span = report_range.coarsened(span, coarse)
    kind = request.query_params.get("format", "")
    if kind in ("csv", "parquet"):
        return await _file(request, report, span, values, kind)
    now = await read(results, report, span.span, values)
    then = await read(results, report, span.before, values)
    queues = {topic.name: topic.write_queues for topic in console.broker.topics()}
    query = ReportQuery(
        span=span.span,
        before=span.before,
        topic=values["topic"],
        group=values["group"],
        choice=values["choice"],
        zone=zone.rules,
        queues=queues,
    )
    view = await console.render(
        lambda: report.build(query, unpacked(now.tables), unpacked(then.tables))
    )
    context = await _page(request, report, span, values, view)
    cut = sorted({*now.cut, *then.cut})
    context = replace(context, cut=cut, coarse=_coarse(span, coarse))
    return await pages.respond(
        request,
        "report.html",
        context,
        title=translated(report.label),
        section="reports",
        status=422 if span.form.is_wrong else 200,
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


async def _page(
    request: Request, report: Report, span: RangeChoice, values: Mapping[str, str], view: ReportView
) -> ReportPage:
    results, reports = services_of(request.scope).report_results, services_of(request.scope).reports
    whole = ResultFilter(first=hour_name(span.span.from_ms), last=hour_name(span.span.to_ms - 1))
    basis = await results.basis(report.job, whole)
    fresh: RunRow | None = await fresh_of(reports, report.job)
    offered = replace(result_filter(report, report.tables[0], span.span, values), equal=())
    table = report.tables[0]
    topics = await results.values(table, "topic", offered)
    groups = await results.values(table, "group", offered) if report.has_groups else []
    head = ReportHead(
        name=report.name,
        label=report.label,
        text=report.text,
        tables=report.tables,
        choices=report.choices if len(report.choices) > 1 else (),
        choice_label=report.choice_label,
        has_groups=report.has_groups,
    )
    if span.name == report_range.OWN:
        zone = preferences.read(request).zone
        span.form.values["from"], span.form.values["to"] = report_range.texts(span.span, zone)
    missing = reports.missing()
    return ReportPage(
        report=head,
        others=[Tab(one.name, one.label) for one in REPORTS],
        kept=_query_of(request.query_params),
        form=span.form,
        range=span.name,
        ranges=RANGES,
        against=AGAINST,
        choice=values["choice"],
        topic=values["topic"],
        group=values["group"],
        topics=topics,
        groups=groups,
        from_ms=span.span.from_ms,
        to_ms=span.span.to_ms,
        before_from_ms=span.before.from_ms if span.before else None,
        before_to_ms=span.before.to_ms if span.before else None,
        hours=span.span.hours,
        done=basis.hours_done,
        fresh=Fresh(fresh.id, fresh.input_at_ms) if fresh else None,
        missing=missing,
        cut=(),
        read_max=READ_MAX,
        coarse=(),
        alert_href=_alert(report, values),
        view=view,
    )


async def _file(
    request: Request, report: Report, span: RangeChoice, values: Mapping[str, str], kind: str
) -> Response:
    """Respond with the stored rows of one of the report's tables, as CSV or Parquet."""
    table = request.query_params.get("table", "")
    table = table if table in report.tables else report.tables[0]
    results, match = (
        services_of(request.scope).report_results,
        result_filter(report, table, span.span, values),
    )
    headers = {
        "Content-Disposition": f'attachment; filename="{table}.{kind}"',
        "Cache-Control": "no-store",
    }
    with pages.console_of(request).exports.taken():
        if kind == "parquet":
            content = await results.parquet(table, match)
            return Response(content, media_type=PARQUET, headers=headers)
        pieces = [piece async for piece in await results.csv(table, match)]
    return Response(b"".join(pieces), media_type=CSV, headers=headers)


def _coarse(span: RangeChoice, coarse: Sequence[Coarse]) -> list[Before]:
    """The periods by which the figures of the ranges are kept, shortest first."""
    begins = [each.from_ms for each in (span.span, span.before) if each is not None]
    periods = [Before(each.hours, hour_ms(each.before)) for each in reversed(coarse)]
    return [each for each in periods if min(begins) < each.before_ms]


def _query_of(query: Mapping[str, str]) -> str:
    """The query parameters that all reports share: range, topic, and group."""
    names = ("range", "from", "to", "zone", "against", "other", "topic", "group")
    return urlencode({name: query[name] for name in names if query.get(name)})


def _alert(report: Report, values: Mapping[str, str]) -> str:
    """The link to a new alert rule on the topic and group; "" if the report has no kind of rule."""
    if report.alert is None:
        return ""
    query = {"kind": report.alert.value, "topic": values["topic"], "group": values["group"]}
    return f"/alerts/new?{urlencode({name: value for name, value in query.items() if value})}"
