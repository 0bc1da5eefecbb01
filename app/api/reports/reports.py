"""Reports: schedules and runs; their figures are in `figures.py`."""

from operator import attrgetter
from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Limit, NumberCursor, cursor_after, number_in
from app.db.report_rows import RunFilter, RunRow, ScheduleRow
from app.security.access import ADMINISTER_SERVER, READ_SERVER, RUN_REPORTS
from app.services.reports.reports import Reports
from app.services.reports.standing import JobStanding
from kitemq.model.conversion import convert
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

operations = Operations("reports", job="lag")


class RunQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of runs."""

    job: str = ""
    state: Annotated[
        str, Meta(description="running, ok, skipped, failed, timed_out, cancelled or lost.")
    ] = ""
    cursor: NumberCursor = ""
    limit: Limit = PAGE_DEFAULT


@operations.get("/reports", needs=READ_SERVER)
async def get_reports(call: Call[None, None]) -> ReportsNow:
    """Get the state of all reports: freshness, schedules and the current run."""
    reports = call.services.reports
    status = await reports.standing()
    running = None if status.running is None else _run_out(reports, status.running)
    jobs = [_job_out(reports, job) for job in status.jobs]
    return ReportsNow(status.missing, status.remedy, jobs, running)


@operations.get("/reports/schedules", needs=READ_SERVER)
async def list_report_schedules(call: Call[None, None]) -> ReportSchedules:
    """List when reports run by themselves."""
    schedules = await call.services.reports.schedules()
    return ReportSchedules(
        [_schedule_out(row) for row in schedules], call.settings.report_schedules
    )


@operations.patch(
    "/reports/schedules/{job}",
    needs=ADMINISTER_SERVER,
    not_found=False,
    example_body='{"cron": "*/10 * * * *", "limit_s": 300}',
)
async def change_report_schedule(call: Call[None, ScheduleChanges]) -> ReportSchedule:
    """Change when a report runs by itself, for how long at most, or whether at all."""
    actor, job = call.actor, call.path("job")
    return _schedule_out(await call.services.reports.change_schedule(actor, job, call.body))


@operations.get("/reports/runs", needs=READ_SERVER, example="?job=traces")
async def list_report_runs(call: Call[RunQuery, None]) -> ReportRuns:
    """List runs, the newest first. The newest 5,000 are kept."""
    query, reports = call.query, call.services.reports
    chosen = RunFilter(job=query.job, state=query.state, before_id=number_in(query.cursor))
    rows = await reports.runs(chosen, query.limit)
    next_cursor = cursor_after(rows, query.limit, attrgetter("id"))
    return ReportRuns([_run_out(reports, row) for row in rows], next_cursor)


@operations.post(
    "/reports/runs",
    capability="reports",
    needs=RUN_REPORTS,
    status=201,
    errors=(409,),
    example_body='{"job": "traces"}',
)
async def run_report(call: Call[None, NewReportRun]) -> ReportRun:
    """Run a report now: what is due of it, or hours of the past, which are computed anew.

    A 409 while another run is under way, and where Spark is not installed.
    """
    body, reports = call.body, call.services.reports
    row = await reports.run(call.actor, body.job, body.first, body.last)
    return _run_out(reports, row)


@operations.get("/reports/runs/{id}", needs=READ_SERVER)
async def get_report_run(call: Call[None, None]) -> ReportRunInFull:
    """Look at one run: how far it is, what became of it, what its logs said last."""
    reports = call.services.reports
    row = await reports.get(call.number("id"))
    return convert(_run_out(reports, row), ReportRunInFull, log_tail=row.log_tail)


@operations.post("/reports/runs/{id}/cancel", needs=RUN_REPORTS, errors=(409,))
async def cancel_report_run(call: Call[None, None]) -> ReportRun:
    """End a run; the figures stay as they were before it."""
    reports = call.services.reports
    return _run_out(reports, await reports.cancel(call.actor, call.number("id")))


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
