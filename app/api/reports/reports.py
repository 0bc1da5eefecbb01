"""Reports: schedules and runs; their figures are in `figures.py`."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.api.reports import figures as report_figures
from app.api.topics.topics import PAGE_DEFAULT, Cursor, Limit, actor_of
from app.db.report_rows import RunFilter, RunRow, ScheduleRow
from app.security.access import ADMINISTER_SERVER, READ_SERVER, RUN_REPORTS
from app.services.reports.reports import Reports
from app.services.reports.standing import JobStanding
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole
from kitemq.model.reports import (
    NewReportRun,
    ReportJob,
    ReportRun,
    ReportRunInFull,
    ReportRuns,
    ReportSchedule,
    ReportSchedules,
    ReportsNow,
    ScheduleChanges,
)

TAG = "reports"
JSON_EXAMPLE = "-H 'Content-Type: application/json'"


class RunQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of runs."""

    job: str = ""
    state: Annotated[
        str, Meta(description="running, ok, skipped, failed, timed_out, cancelled or lost.")
    ] = ""
    cursor: Cursor = ""
    limit: Limit = PAGE_DEFAULT


@operation(
    "GET",
    f"{API}/reports",
    tag=TAG,
    needs=READ_SERVER,
    answer=ReportsNow,
    example="curl $URL/api/v1/reports",
)
async def get_reports(call: Call[None, None]) -> ReportsNow:
    """Get the state of all reports: freshness, schedules and the current run."""
    reports = call.services.reports
    status = await reports.standing()
    running = None if status.running is None else _run_out(reports, status.running)
    jobs = [_job_out(reports, job) for job in status.jobs]
    return ReportsNow(status.missing, status.remedy, jobs, running)


@operation(
    "GET",
    f"{API}/reports/schedules",
    tag=TAG,
    needs=READ_SERVER,
    answer=ReportSchedules,
    example="curl $URL/api/v1/reports/schedules",
)
async def list_report_schedules(call: Call[None, None]) -> ReportSchedules:
    """List when reports run by themselves."""
    schedules = await call.services.reports.schedules()
    return ReportSchedules(
        [_schedule_out(row) for row in schedules], call.settings.report_schedules
    )


@operation(
    "PATCH",
    f"{API}/reports/schedules/{{job}}",
    tag=TAG,
    needs=ADMINISTER_SERVER,
    body=ScheduleChanges,
    answer=ReportSchedule,
    errors=(),
    example=f"curl -X PATCH $URL/api/v1/reports/schedules/lag {JSON_EXAMPLE} "
    """-d '{"cron": "*/10 * * * *", "limit_s": 300}'""",
)
async def change_report_schedule(call: Call[None, ScheduleChanges]) -> ReportSchedule:
    """Change when a report runs by itself, for how long at most, or whether at all."""
    actor, job = actor_of(call), call.path("job")
    return _schedule_out(await call.services.reports.change_schedule(actor, job, call.body))


@operation(
    "GET",
    f"{API}/reports/runs",
    tag=TAG,
    needs=READ_SERVER,
    query=RunQuery,
    answer=ReportRuns,
    example="curl '$URL/api/v1/reports/runs?job=traces'",
)
async def list_report_runs(call: Call[RunQuery, None]) -> ReportRuns:
    """List runs, the newest first. The newest 5,000 are kept."""
    query, reports = call.query, call.services.reports
    before = _number(query.cursor, "cursor") if query.cursor else None
    rows = await reports.runs(
        RunFilter(job=query.job, state=query.state, before_id=before), query.limit
    )
    last = str(rows[-1].id) if len(rows) == query.limit else None
    return ReportRuns([_run_out(reports, row) for row in rows], last)


@operation(
    "POST",
    f"{API}/reports/runs",
    tag=TAG,
    needs=RUN_REPORTS,
    body=NewReportRun,
    answer=ReportRun,
    status=201,
    errors=(409,),
    example=f"curl -X POST $URL/api/v1/reports/runs {JSON_EXAMPLE} "
    """-d '{"job": "traces"}'""",
)
async def run_report(call: Call[None, NewReportRun]) -> ReportRun:
    """Run a report now: what is due of it, or hours of the past, which are computed anew.

    A 409 while another run is under way, and where Spark is not installed.
    """
    body, reports = call.body, call.services.reports
    row = await reports.run(actor_of(call), body.job, body.first, body.last)
    return _run_out(reports, row)


@operation(
    "GET",
    f"{API}/reports/runs/{{id}}",
    tag=TAG,
    needs=READ_SERVER,
    answer=ReportRunInFull,
    errors=(404,),
    example="curl $URL/api/v1/reports/runs/1",
)
async def get_report_run(call: Call[None, None]) -> ReportRunInFull:
    """Look at one run: how far it is, what became of it, what its logs said last."""
    reports = call.services.reports
    row = await reports.get(_id(call))
    return convert(_run_out(reports, row), ReportRunInFull, log_tail=row.log_tail)


@operation(
    "POST",
    f"{API}/reports/runs/{{id}}/cancel",
    tag=TAG,
    needs=RUN_REPORTS,
    answer=ReportRun,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/reports/runs/1/cancel",
)
async def cancel_report_run(call: Call[None, None]) -> ReportRun:
    """End a run; the figures stay as they were before it."""
    reports = call.services.reports
    return _run_out(reports, await reports.cancel(actor_of(call), _id(call)))


def _id(call: Call[Any, Any]) -> int:
    return _number(call.path("id"), "id")


def _number(text: str, field: str) -> int:
    if not is_whole(text):
        raise Invalid(f"{text[:40]!r} is no number", field=field, remedy="list the runs")
    return int(text)


def _schedule_out(row: ScheduleRow) -> ReportSchedule:
    next_ms = row.next_ms if row.is_enabled else None
    return convert(row, ReportSchedule, enabled=row.is_enabled, next_ms=next_ms)


def _run_out(reports: Reports, row: RunRow) -> ReportRun:
    return convert(
        row,
        ReportRun,
        seconds=None if row.ended_ms is None else (row.ended_ms - row.began_ms) / 1000,
        inputs=msgspec.json.decode(row.inputs_json),
        counters=msgspec.json.decode(row.counters_json),
        progress=reports.progress(row.id),
    )


def _job_out(reports: Reports, job: JobStanding) -> ReportJob:
    return convert(
        job.coverage,
        ReportJob,
        job=job.schedule.job,
        schedule=_schedule_out(job.schedule),
        fresh_ms=job.fresh_ms,
        last_run=None if job.last is None else _run_out(reports, job.last),
        last_ok=None if job.last_ok is None else _run_out(reports, job.last_ok),
    )


OPERATIONS = (
    get_reports,
    list_report_schedules,
    change_report_schedule,
    list_report_runs,
    run_report,
    get_report_run,
    cancel_report_run,
    *report_figures.OPERATIONS,
)
