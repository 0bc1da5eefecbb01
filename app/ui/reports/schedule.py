"""The forms for a job's schedule and for recomputing past hours."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.report_rows import ResultFilter
from app.services.reports.schedule import LIMIT_MAX_S, LIMIT_MIN_S
from app.services.reports.standing import HOURS_MAX, INSTALL, JobStanding
from app.ui.framework import forms, pages, preferences
from app.ui.framework.console import actor_of
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.typed_time import moment_text
from app.ui.reports.axes import HOUR_MS
from app.ui.reports.parts import hour_ms, hour_name
from app.ui.reports.reports import JOB_LABELS, JobLine, job_line
from engine.errors import Invalid, NotFound, Refused
from engine.report_tables import JOBS
from kitemq.model.reports import ScheduleChanges


@dataclass(frozen=True)
class SchedulePage:
    """The context of `report_schedule.html`."""

    job: JobLine
    form: Form


@dataclass(frozen=True)
class BackfillPage:
    """The context of `report_backfill.html`: the hours to recompute.

    `hours` is None without a range; `known` of them have figures, which are replaced.
    """

    jobs: Sequence[tuple[str, str]]
    form: Form
    hours: int | None
    known: int
    first: str
    last: str
    missing: str
    remedy: str


async def backfill(request: Request) -> Response:
    """GET /reports/backfill: preview the hours to recompute."""
    query, zone = request.query_params, preferences.read(request).zone
    reports = services_of(request.scope).reports
    job = query.get("job", JOBS[0])
    form = Form({"job": job, "from": query.get("from", ""), "to": query.get("to", "")})
    hours, hours_done, first, last = None, 0, "", ""
    if job not in JOBS:
        form.refuse("job", _("There is no such report."))
    if form.values["from"] or form.values["to"]:
        from_ms = form.moment("from", query.get("zone", ""), zone)
        to_ms = form.moment("to", query.get("zone", ""), zone)
        if from_ms is not None and to_ms is not None and not form.is_wrong:
            first, last = hour_name(from_ms), hour_name(max(from_ms, to_ms - 1))
            hours = (hour_ms(last) - hour_ms(first)) // HOUR_MS + 1
            if to_ms <= from_ms or hours > HOURS_MAX:
                text = _("Choose 1 to %(n)s hours.", n=f"{HOURS_MAX:,}")
                form.refuse("to", text)
                hours = None
            else:
                basis = await services_of(request.scope).report_results.basis(
                    job, ResultFilter(first=first, last=last)
                )
                hours_done = basis.hours_done
    else:
        now_ms = pages.console_of(request).now_ms()
        form.values["from"] = moment_text(now_ms - now_ms % HOUR_MS - 24 * HOUR_MS, zone)
        form.values["to"] = moment_text(now_ms - now_ms % HOUR_MS, zone)
    context = BackfillPage(
        jobs=[(name, JOB_LABELS.get(name, name)) for name in JOBS],
        form=form,
        hours=hours,
        known=hours_done,
        first=first,
        last=last,
        missing=reports.missing(),
        remedy=INSTALL if reports.missing() else "",
    )
    return await pages.respond(
        request,
        "report_backfill.html",
        context,
        title=_("Compute past hours"),
        status=422 if form.is_wrong else 200,
    )


async def schedule(request: Request) -> Response:
    """GET /reports/schedules/{job}"""
    standing = await _standing(request)
    row = standing.schedule
    form = Form(
        {
            "cron": row.cron,
            "limit_s": str(row.limit_s),
            "is_enabled": "on" if row.is_enabled else "",
        }
    )
    return await _schedule_page(request, standing, form)


async def change_schedule(request: Request) -> Response:
    """POST /reports/schedules/{job}"""
    standing = await _standing(request)
    form = forms.fill(await forms.read(request), ("cron", "limit_s", "is_enabled"))
    limit_s = form.number("limit_s", _("Time limit"), LIMIT_MIN_S, LIMIT_MAX_S)
    if not form.is_wrong:
        changes = ScheduleChanges(form.values["cron"], form.values["is_enabled"] == "on", limit_s)
        actor = actor_of(request)
        try:
            await services_of(request.scope).reports.change_schedule(
                actor, standing.schedule.job, changes
            )
        except (Invalid, Refused) as error:
            form.blame(error)
    if form.is_wrong:
        return await _schedule_page(request, standing, form, status=422)
    return forms.go(request, "/reports?done=changed")


async def _schedule_page(
    request: Request, standing: JobStanding, form: Form, status: int = 200
) -> Response:
    context = SchedulePage(job_line(standing), form)
    return await pages.respond(
        request, "report_schedule.html", context, title=_("Schedule"), status=status
    )


async def _standing(request: Request) -> JobStanding:
    job = request.path_params["job"]
    standing = await services_of(request.scope).reports.standing()
    for one in standing.jobs:
        if one.schedule.job == job:
            return one
    raise NotFound(
        _("there is no schedule called %(name)s", name=repr(job[:40])),
        remedy=_("choose one from the list of reports"),
    )
