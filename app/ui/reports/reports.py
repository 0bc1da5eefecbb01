"""The list of reports, their freshness and schedules, and the runs of their jobs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.report_rows import RunFilter, RunRow
from app.db.rows import actor_at
from app.services.reports.contract import Progress
from app.services.reports.reports import Reports
from app.services.reports.standing import JobStanding
from app.ui.framework import forms, pages
from app.ui.framework.console import client_of
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.reports.axes import HOUR_MS
from app.ui.reports.kinds import REPORTS
from app.ui.reports.parts import hour_ms
from engine.errors import Conflict, Invalid, NotFound, Refused
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole
from kitemq.model.reports import RunState

RUNS_SHOWN = 20
JOB_LABELS = {
    "traces": N_("Latency, throughput, failures and more"),
    "lag": N_("Lag of every group"),
}
STATES = {
    "running": N_("running"),
    "ok": N_("done"),
    "skipped": N_("nothing new"),
    "failed": N_("failed"),
    "timed_out": N_("took too long"),
    "cancelled": N_("cancelled"),
    "lost": N_("lost"),
}
STATE_TONES = {"ok": "ok", "failed": "bad", "timed_out": "bad", "lost": "bad", "running": "warn"}
CAUSES = {
    "schedule": N_("by its schedule"),
    "manual": N_("by hand"),
    "backfill": N_("by hand, over past hours"),
    "retry": N_("once more, after a failure"),
}
COUNTERS = {
    "duplicates": N_("rows that were there twice, counted once"),
    "late": N_("rows that came late, counted"),
    "skewed": N_("times that were negative by clock skew, taken as 0"),
    "unmatched_acks": N_("acknowledgements whose hand-out is not at hand"),
    "sampled": N_("rows of sampled traces, scaled up"),
}


@dataclass(frozen=True)
class Fresh:
    """The run with the newest figures; they cover everything stored before `input_at_ms`."""

    run_id: int
    input_at_ms: int | None


@dataclass(frozen=True)
class RunLine:
    """A run as a row of a table; unknown values are None.

    `first` and `last` are the computed hours in ms since 1970; there may be gaps in between.
    """

    id: int
    job: str
    state: str
    cause: str
    attempt: int
    actor: str
    began_ms: int
    ended_ms: int | None
    hours: int
    first_ms: int | None
    last_ms: int | None
    rows_in: int | None
    rows_out: int | None
    input_at_ms: int | None
    engine: str
    error: str


@dataclass(frozen=True)
class JobLine:
    """A job with its schedule, the freshness of its figures, and its last run."""

    job: str
    label: str
    cron: str
    is_enabled: bool
    next_ms: int | None
    limit_s: int
    fresh_ms: int | None
    hours: int
    first_ms: int | None
    last_ms: int | None
    last: RunLine | None


@dataclass(frozen=True)
class Going:
    """The progress of the current run; `stage` is "" if another server runs it."""

    run: RunLine
    stage: str
    percent: int | None
    tasks_done: int
    tasks: int


@dataclass(frozen=True)
class ReportLink:
    """A link to a report."""

    name: str
    label: str
    text: str


@dataclass(frozen=True)
class ReportsPage:
    """The context of `reports.html`; `missing` is the reason why no report can run."""

    missing: str
    remedy: str
    jobs: Sequence[JobLine]
    going: Going | None
    runs: Sequence[RunLine]
    older: int | None
    reports: Sequence[ReportLink]
    error: str = ""
    words: Mapping[str, str] = field(default_factory=lambda: STATES)
    tones: Mapping[str, str] = field(default_factory=lambda: STATE_TONES)
    causes: Mapping[str, str] = field(default_factory=lambda: CAUSES)


@dataclass(frozen=True)
class RunPage:
    """The context of `report_run.html`."""

    run: RunLine
    going: Going | None
    inputs: Sequence[tuple[str, int, int, int]]
    counters: Sequence[tuple[str, int]]
    master: str
    peak_kib: int | None
    error_class: str
    log_tail: str
    error: str
    words: Mapping[str, str] = field(default_factory=lambda: STATES)
    tones: Mapping[str, str] = field(default_factory=lambda: STATE_TONES)
    causes: Mapping[str, str] = field(default_factory=lambda: CAUSES)


async def fresh_of(reports: Reports, job: str) -> RunRow | None:
    """The newest successful run of a job."""
    runs = await reports.runs(RunFilter(job=job, state=RunState.OK), 1)
    return runs[0] if runs else None


async def show(request: Request) -> Response:
    """GET /reports"""
    return await _overview(request)


async def _overview(request: Request, *, error: str = "", status: int = 200) -> Response:
    reports = services_of(request.scope).reports
    before = request.query_params.get("before", "")
    before_id = int(before) if is_whole(before) else None
    standing = await reports.standing()
    runs = await reports.runs(RunFilter(before_id=before_id), RUNS_SHOWN + 1)
    visible_runs = runs[:RUNS_SHOWN]
    context = ReportsPage(
        missing=standing.missing,
        remedy=standing.remedy,
        jobs=[job_line(one) for one in standing.jobs],
        going=_going(standing.running, standing.progress),
        runs=[_line(run) for run in visible_runs],
        older=visible_runs[-1].id if len(runs) > len(visible_runs) else None,
        reports=[ReportLink(one.name, one.label, one.text) for one in REPORTS],
        error=error,
    )
    return await pages.respond(
        request,
        "reports.html",
        context,
        title=_("Reports"),
        section="reports",
        is_live=status == 200,
        status=status,
    )


def job_line(standing: JobStanding) -> JobLine:
    row, coverage = standing.schedule, standing.coverage
    return convert(
        row,
        JobLine,
        label=JOB_LABELS.get(row.job, row.job),
        next_ms=row.next_ms if row.is_enabled else None,
        fresh_ms=standing.fresh_ms,
        hours=coverage.hours,
        first_ms=hour_ms(coverage.first) if coverage.first else None,
        last_ms=hour_ms(coverage.last) + HOUR_MS if coverage.last else None,
        last=_line(standing.last) if standing.last else None,
    )


def _line(run: RunRow) -> RunLine:
    engine = " · ".join(
        text
        for text in (run.spark and f"Spark {run.spark}", run.java and f"Java {run.java}")
        if text
    )
    return convert(
        run,
        RunLine,
        hours=len(run.hours),
        first_ms=hour_ms(min(run.hours)) if run.hours else None,
        last_ms=hour_ms(max(run.hours)) + HOUR_MS if run.hours else None,
        engine=engine,
    )


def _going(run: RunRow | None, progress: Progress | None) -> Going | None:
    if run is None:
        return None
    if progress is None:
        return Going(_line(run), "", None, 0, 0)
    return convert(progress, Going, run=_line(run))


async def show_run(request: Request) -> Response:
    """GET /reports/runs/{id}"""
    return await _run_page(request)


async def _run_page(request: Request, *, error: str = "", status: int = 200) -> Response:
    reports = services_of(request.scope).reports
    run = await reports.get(_number(request.path_params["id"]))
    is_running = run.state == RunState.RUNNING
    going = _going(run, reports.progress(run.id)) if is_running else None
    context = RunPage(
        run=_line(run),
        going=going,
        inputs=_inputs(run.inputs_json),
        counters=_counters(run.counters_json),
        master=run.master,
        peak_kib=run.peak_kib,
        error_class=run.error_class,
        log_tail=run.log_tail,
        error=error,
    )
    return await pages.respond(
        request,
        "report_run.html",
        context,
        title=_("Run %(number)s", number=run.id),
        section="reports",
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


async def run(request: Request) -> Response:
    """POST /reports/runs: start a run over new data or over the given hours."""
    posted = await forms.read(request)
    job, first, last = posted.one("job"), posted.one("first"), posted.one("last")
    actor = actor_at(client_of(request))
    try:
        begun = await services_of(request.scope).reports.run(actor, job, first, last)
    except (Conflict, Refused, Invalid) as error:
        form = Form({})
        form.blame(error)
        status = 422 if isinstance(error, Invalid) else 409
        return await _overview(request, error=form.error, status=status)
    return forms.go(request, f"/reports/runs/{begun.id}?done=report-begun")


async def cancel(request: Request) -> Response:
    """POST /reports/runs/{id}/cancel"""
    run_id = _number(request.path_params["id"])
    try:
        await services_of(request.scope).reports.cancel(actor_at(client_of(request)), run_id)
    except (Conflict, Refused) as error:
        form = Form({})
        form.blame(error)
        return await _run_page(request, error=form.error, status=409)
    return forms.go(request, f"/reports/runs/{run_id}?done=report-cancelled")


def _number(text: str) -> int:
    if is_whole(text):
        return int(text)
    raise NotFound(
        _("%(text)s is not the number of a run", text=repr(text[:40])),
        remedy=_("choose one from the list of reports"),
    )
