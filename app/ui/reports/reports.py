"""The list of reports, their freshness and schedules, and the runs of their jobs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from app.db.report_rows import RunFilter, RunRow, ScheduleRow
from app.services.reports.contract import Progress
from app.services.reports.reports import Reports
from app.services.reports.standing import JobStanding
from app.ui.framework import forms, pages
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.reports.axes import HOUR_MS
from app.ui.reports.kinds import Report, offered
from app.ui.reports.rows import hour_ms
from engine.errors import Conflict, Invalid, NotFound, Refused
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole
from kitemq.model.reports import ReportEngine, RunState

RUNS_SHOWN = 20
JOB_LABELS = {
    "traces": N_("Latency, throughput, failures and more"),
    "lag": N_("Lag of every group"),
}
STATES = {
    "running": N_("running"),
    "ok": N_("done"),
    "skipped": N_("no new data"),
    "failed": N_("failed"),
    "timed_out": N_("time limit exceeded"),
    "cancelled": N_("cancelled"),
    "lost": N_("interrupted"),
}
STATE_TONES = {"ok": "ok", "failed": "bad", "timed_out": "bad", "lost": "bad", "running": "warn"}
CAUSES = {
    "schedule": N_("by schedule"),
    "manual": N_("manual"),
    "backfill": N_("manual, past hours"),
    "retry": N_("retry after a failure"),
}
COUNTERS = {
    "duplicates": N_("duplicate rows, counted once"),
    "late": N_("late rows, counted"),
    "skewed": N_("negative times caused by clock skew, set to 0"),
    "unmatched_acks": N_("acknowledgements without a delivery record"),
    "estimated": N_("messages of sampled traces, scaled up"),
}


class RunLine(RunRow):
    """A run as a row of a table; from `first_ms` to `last_ms`, not every hour is computed."""

    @property
    def first_ms(self) -> int:
        return hour_ms(min(self.hours))

    @property
    def last_ms(self) -> int:
        return hour_ms(max(self.hours)) + HOUR_MS

    @property
    def engine_text(self) -> str:
        if self.engine is ReportEngine.PYTHON:
            return _("Python, without Spark")
        versions = (("Spark", self.spark), ("Java", self.java))
        return " · ".join(f"{name} {version}" for name, version in versions if version)

    @property
    def state_text(self) -> str:
        return translated(STATES[self.state])

    @property
    def tone(self) -> str:
        return STATE_TONES.get(self.state, "")

    @property
    def cause_text(self) -> str:
        return translated(CAUSES[self.cause])


@dataclass(frozen=True, kw_only=True)
class JobLine(ScheduleRow):
    """A job with its schedule, the freshness of its figures, and its last run."""

    label: str
    fresh_ms: int | None
    hours: int
    first_ms: int | None
    last_ms: int | None
    last: RunLine | None


@dataclass(frozen=True)
class Going:
    """The progress of the current run; None if another server runs it."""

    run: RunLine
    progress: Progress | None


@dataclass(frozen=True)
class ReportsPage:
    """The context of `reports.html`; `missing` is the reason why no report can run."""

    missing: str
    remedy: str
    jobs: Sequence[JobLine]
    going: Going | None
    runs: Sequence[RunLine]
    older: int | None
    reports: Sequence[Report]
    error: str = ""


@dataclass(frozen=True)
class RunPage:
    """The context of `report_run.html`."""

    run: RunLine
    going: Going | None
    inputs: Sequence[tuple[str, int, int, int]]
    counters: Sequence[tuple[str, int]]
    error: str


async def fresh_of(reports: Reports, job: str) -> RunLine | None:
    """The newest successful run of a job."""
    runs = await reports.runs(RunFilter(job=job, state=RunState.OK), 1)
    return _line(runs[0]) if runs else None


async def show(request: PageRequest, *, error: str = "", status: int = 200) -> Response:
    """GET /reports"""
    reports = request.services.reports
    before = request.query_params.get("before", "")
    before_id = int(before) if is_whole(before) else None
    standing = await reports.standing()
    runs = await reports.runs(RunFilter(before_id=before_id), RUNS_SHOWN + 1)
    first_runs = runs[:RUNS_SHOWN]
    context = ReportsPage(
        missing=standing.missing,
        remedy=standing.remedy,
        jobs=[job_line(one) for one in standing.jobs],
        going=Going(_line(standing.running), standing.progress) if standing.running else None,
        runs=[_line(run) for run in first_runs],
        older=first_runs[-1].id if len(runs) > len(first_runs) else None,
        reports=offered(request.console.messaging.capabilities),
        error=error,
    )
    return await pages.respond(
        request, "reports.html", context, title=_("Reports"), is_live=status == 200, status=status
    )


def job_line(standing: JobStanding) -> JobLine:
    row, coverage = standing.schedule, standing.coverage
    return convert(
        row,
        JobLine,
        label=JOB_LABELS.get(row.job, row.job),
        fresh_ms=standing.fresh_ms,
        hours=coverage.hours,
        first_ms=hour_ms(coverage.first) if coverage.first else None,
        last_ms=hour_ms(coverage.last) + HOUR_MS if coverage.last else None,
        last=_line(standing.last) if standing.last else None,
    )


def _line(run: RunRow) -> RunLine:
    return RunLine(**vars(run))


async def show_run(request: PageRequest, *, error: str = "", status: int = 200) -> Response:
    """GET /reports/runs/{id}"""
    reports = request.services.reports
    run = await reports.get(_number(request.path_params["id"]))
    is_running = run.state == RunState.RUNNING
    going = Going(_line(run), reports.progress(run.id)) if is_running else None
    context = RunPage(
        run=_line(run),
        going=going,
        inputs=_inputs(run.inputs_json),
        counters=_counters(run.counters_json),
        error=error,
    )
    return await pages.respond(
        request,
        "report_run.html",
        context,
        title=_("Run %(number)s", number=run.id),
        is_live=going is not None and status == 200,
        status=status,
    )


def _inputs(stored: str) -> list[tuple[str, int, int, int]]:
    """The hours, rows and late rows that a run read, by frame."""
    frames = json.loads(stored or "{}")
    return [
        (frame, len(entry.get("hours", [])), entry.get("rows", 0), entry.get("late_rows", 0))
        for frame, entry in frames.items()
    ]


def _counters(stored: str) -> list[tuple[str, int]]:
    counters = json.loads(stored or "{}")
    return [(translated(COUNTERS.get(name, name)), number) for name, number in counters.items()]


async def run(request: PageRequest) -> Response:
    """POST /reports/runs: start a run over new data or over the given hours."""
    posted = await forms.read(request)
    job, first, last = posted.one("job"), posted.one("first"), posted.one("last")
    actor = request.actor
    try:
        new_run = await request.services.reports.run(actor, job, first, last)
    except (Conflict, Refused, Invalid) as error:
        status = 422 if isinstance(error, Invalid) else 409
        return await show(request, error=forms.sentence(error), status=status)
    return forms.go(request, f"/reports/runs/{new_run.id}?done=report-begun")


async def cancel(request: PageRequest) -> Response:
    """POST /reports/runs/{id}/cancel"""
    run_id = _number(request.path_params["id"])
    try:
        await request.services.reports.cancel(request.actor, run_id)
    except (Conflict, Refused) as error:
        return await show_run(request, error=forms.sentence(error), status=409)
    return forms.go(request, f"/reports/runs/{run_id}?done=report-cancelled")


def _number(text: str) -> int:
    if is_whole(text):
        return int(text)
    raise NotFound(
        _("%(text)s is not a run number", text=repr(text[:40])),
        remedy=_("choose one from the list of reports"),
    )
