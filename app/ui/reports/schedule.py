"""The forms for a job's schedule and for recomputing past hours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, field
from starlette.responses import Response

from app.db.report_rows import ResultFilter
from app.services.reports.schedule import LIMIT_MAX_S, LIMIT_MIN_S
from app.services.reports.standing import HOURS_MAX, INSTALL, JobStanding
from app.ui.framework import forms, pages, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Moment, Verbatim
from app.ui.framework.typed_time import moment_text
from app.ui.reports.axes import HOUR_MS
from app.ui.reports.reports import JOB_LABELS, JobLine, job_line
from app.ui.reports.rows import hour_ms, hour_name
from engine.errors import Invalid, NotFound, Refused
from kitemq.model.reports import ScheduleChanges


class BackfillFields(Fields, frozen=True):
    """The hours to recompute; they begin and end with these times."""

    job: str
    from_ms: Moment = field(name="from")
    to_ms: Moment = field(name="to")
    zone: Verbatim


class ScheduleFields(Fields, frozen=True):
    """The form of a schedule."""

    cron: str
    limit_s: Annotated[int, Meta(title=N_("Time limit"), ge=LIMIT_MIN_S, le=LIMIT_MAX_S)]
    is_enabled: bool


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


async def backfill(request: PageRequest) -> Response:
    """GET /reports/backfill: preview the hours to recompute."""
    zone = request.zone
    services = request.services
    jobs = services.reports.jobs
    form = typed_forms.fill({"job": jobs[0], **request.query_params}, BackfillFields)
    hours, hours_done, first, last = None, 0, "", ""
    if form.values["job"] not in jobs:
        form.refuse("job", _("There is no such report."))
    if form.values["from"] or form.values["to"]:
        fields = typed_forms.parse(form, BackfillFields, zone)
        if not form.is_wrong:
            first = hour_name(fields.from_ms)
            last = hour_name(max(fields.from_ms, fields.to_ms - 1))
            hours = (hour_ms(last) - hour_ms(first)) // HOUR_MS + 1
            if fields.to_ms <= fields.from_ms or hours > HOURS_MAX:
                form.refuse("to", _("Enter 1 to %(n)s hours.", n=f"{HOURS_MAX:,}"))
                hours = None
            else:
                match = ResultFilter(first=first, last=last)
                hours_done = (await services.report_results.basis(fields.job, match)).hours_done
    else:
        now_ms = request.console.now_ms()
        form.values["from"] = moment_text(now_ms - now_ms % HOUR_MS - 24 * HOUR_MS, zone)
        form.values["to"] = moment_text(now_ms - now_ms % HOUR_MS, zone)
    missing = services.reports.missing()
    context = BackfillPage(
        jobs=[(name, JOB_LABELS.get(name, name)) for name in jobs],
        form=form,
        hours=hours,
        known=hours_done,
        first=first,
        last=last,
        missing=missing,
        remedy=INSTALL if missing else "",
    )
    return await pages.respond(
        request, "report_backfill.html", context, title=_("Recompute past hours")
    )


async def schedule(request: PageRequest) -> Response:
    """GET /reports/schedules/{job}"""
    standing = await _standing(request)
    row = standing.schedule
    is_enabled = "on" if row.is_enabled else ""
    form = Form({"cron": row.cron, "limit_s": str(row.limit_s), "is_enabled": is_enabled})
    return await _schedule_page(request, standing, form)


async def change_schedule(request: PageRequest) -> Response:
    """POST /reports/schedules/{job}"""
    standing = await _standing(request)
    form, fields = await request.read_form(ScheduleFields)
    if not form.is_wrong:
        changes = ScheduleChanges(fields.cron, fields.is_enabled, fields.limit_s)
        actor = request.actor
        reports = request.services.reports
        try:
            await reports.change_schedule(actor, standing.schedule.job, changes)
        except (Invalid, Refused) as error:
            form.blame(error)
    if form.is_wrong:
        return await _schedule_page(request, standing, form)
    return forms.go(request, "/reports?done=changed")


async def _schedule_page(request: PageRequest, standing: JobStanding, form: Form) -> Response:
    context = SchedulePage(job_line(standing), form)
    return await pages.respond(request, "report_schedule.html", context, title=_("Schedule"))


async def _standing(request: PageRequest) -> JobStanding:
    job = request.path_params["job"]
    standing = await request.services.reports.standing()
    for one in standing.jobs:
        if one.schedule.job == job:
            return one
    raise NotFound(
        _("there is no schedule called %(name)s", name=repr(job[:40])),
        remedy=_("choose one from the list of reports"),
    )
