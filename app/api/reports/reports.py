"""Reports: schedules and runs; their figures are in `report_figures.py`."""

from typing import Any

import msgspec
from msgspec import UNSET

from app.api.framework.operation import API, Call, operation
from app.api.reports import figures as report_figures
from app.api.reports.shapes import (
    NewRun,
    ReportJob,
    ReportRun,
    ReportRunInFull,
    ReportRuns,
    ReportSchedule,
    ReportSchedules,
    ReportsNow,
    RunProgress,
    RunQuery,
    SchedulePatch,
)
from app.api.topics.topics import actor_of
from app.db.report_rows import RunFilter, RunRow, RunState, ScheduleRow, Trigger
from app.security.access import ADMINISTER_SERVER, READ_SERVER, RUN_REPORTS
from app.services.reports.reports import Reports
from app.services.reports.standing import JobStanding, ScheduleChanges
from engine.errors import Invalid

TAG = "reports"
JSON_EXAMPLE = "-H 'Content-Type: application/json'"


@operation(
    "GET",
    f"{API}/reports",
    tag=TAG,
    needs=READ_SERVER,
    answer=ReportsNow,
    example="curl $URL/api/v1/reports",
)
async def get_reports(call: Call[None, None]) -> ReportsNow:
    """See all reports at a glance: how fresh they are, when they run, what runs now."""
    reports = call.services.reports
    found = await reports.standing()
    running = None if found.running is None else _run_out(reports, found.running)
    jobs = [_job_out(reports, job) for job in found.jobs]
    return ReportsNow(found.missing, found.remedy, jobs, running)


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
    found = await call.services.reports.schedules()
    return ReportSchedules([_schedule_out(row) for row in found], call.settings.report_schedules)


@operation(
    "PATCH",
    f"{API}/reports/schedules/{{job}}",
    tag=TAG,
    needs=ADMINISTER_SERVER,
    body=SchedulePatch,
    answer=ReportSchedule,
    errors=(),
    example=f"curl -X PATCH $URL/api/v1/reports/schedules/lag {JSON_EXAMPLE} "
    """-d '{"cron": "*/10 * * * *", "limit_s": 300}'""",
)
async def change_report_schedule(call: Call[None, SchedulePatch]) -> ReportSchedule:
    """Change when a report runs by itself, for how long at most, or whether at all."""
    body = call.body
    changes = ScheduleChanges(
        None if body.cron is UNSET else body.cron,
        None if body.enabled is UNSET else body.enabled,
        None if body.limit_s is UNSET else body.limit_s,
    )
    reports = call.services.reports
    return _schedule_out(await reports.change_schedule(actor_of(call), call.path("job"), changes))


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
    body=NewRun,
    answer=ReportRun,
    status=201,
    errors=(409,),
    example=f"curl -X POST $URL/api/v1/reports/runs {JSON_EXAMPLE} "
    """-d '{"job": "traces"}'""",
)
async def run_report(call: Call[None, NewRun]) -> ReportRun:
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
    out = _run_out(reports, row)
    return ReportRunInFull(**msgspec.structs.asdict(out), log_tail=row.log_tail)


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
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise Invalid(f"{text[:40]!r} is no number", field=field, remedy="list the runs")
    return int(text)


def _schedule_out(row: ScheduleRow) -> ReportSchedule:
    return ReportSchedule(
        row.job,
        row.cron,
        row.is_enabled,
        row.limit_s,
        row.next_ms if row.is_enabled else None,
        row.changed_ms,
        row.changed_by,
    )


def _run_out(reports: Reports, row: RunRow) -> ReportRun:
    progress = reports.progress(row.id)
    seconds = None if row.ended_ms is None else (row.ended_ms - row.began_ms) / 1000
    return ReportRun(
        id=str(row.id),
        job=row.job,
        cause=Trigger(row.cause),
        state=RunState(row.state),
        attempt=row.attempt,
        actor=row.actor,
        began_ms=row.began_ms,
        ended_ms=row.ended_ms,
        seconds=seconds,
        hours=list(row.hours),
        rows_in=row.rows_in,
        rows_out=row.rows_out,
        input_at_ms=row.input_at_ms,
        inputs=msgspec.json.decode(row.inputs_json),
        counters=msgspec.json.decode(row.counters_json),
        spark=row.spark,
        java=row.java,
        master=row.master,
        peak_kib=row.peak_kib,
        error_class=row.error_class,
        error=row.error,
        progress=None
        if progress is None
        else RunProgress(progress.stage, progress.percent, progress.tasks_done, progress.tasks),
    )


def _job_out(reports: Reports, job: JobStanding) -> ReportJob:
    return ReportJob(
        job.schedule.job,
        _schedule_out(job.schedule),
        job.fresh_ms,
        job.coverage.hours,
        job.coverage.first,
        job.coverage.last,
        None if job.last is None else _run_out(reports, job.last),
        None if job.last_ok is None else _run_out(reports, job.last_ok),
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
