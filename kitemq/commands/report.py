"""`kitemq report`: run reports, see their runs, change when they run."""

from datetime import UTC, datetime

from kitemq.client import Client
from kitemq.commands.command import (
    CommandGroup,
    CommandOptions,
    OptionalChoice,
    argument,
    flag,
    option,
)
from kitemq.commands.output import Exit, Output, document, note
from kitemq.model.reports import ReportRun, ReportSchedule, RunState
from kitemq.rest import Json

JOBS = ("traces", "lag")
COLUMNS = (
    "id",
    "job",
    "cause",
    "state",
    "began",
    "seconds",
    "hours",
    "rows_in",
    "rows_out",
    "engine",
    "error",
)
SCHEDULE_COLUMNS = ("job", "cron", "enabled", "limit_s", "next")
LIMIT_DEFAULT = 20
GOOD = (RunState.OK, RunState.SKIPPED)


report = CommandGroup("report")


class ReportOptions(CommandOptions):
    job: str
    first: str
    last: str
    detach: bool
    timeout: float


@report.command("run", help="run a report now, and wait for it")
@argument("job", type=OptionalChoice(JOBS))
@option("--first", default="", metavar="HOUR", help="compute anew from this hour")
@option("--last", default="", metavar="HOUR", help="to this one, as 2026-11-21T03")
@flag("--detach", "do not wait")
@option("--timeout", type=float, default=900.0, metavar="S", help="wait so long")
def run(options: ReportOptions, output: Output) -> int:
    with Client(options.server) as client:
        begun = client.reports.run(options.job, first=options.first, last=options.last)
        if options.detach:
            output.row(begun if output.is_json else _row(begun))
            return Exit.OK
        note(f"run {begun.id} has begun; Ctrl-C leaves it running")
        ended = client.reports.wait(begun.id, timeout_s=options.timeout)
    output.row(ended if output.is_json else _row(ended))
    if ended.state is RunState.RUNNING:
        note(f"not over after {options.timeout:.0f} s: kitemq report show {ended.id}")
        return Exit.PARTIAL
    return Exit.OK if ended.state in GOOD else Exit.FAILED


class RunListOptions(CommandOptions):
    job: str
    state: str
    limit: int


@report.command("list", help="runs, the newest first")
@option("--job", type=OptionalChoice(JOBS), default="")
@option("--state", default="", help="running, ok, skipped, failed …")
@option("--limit", type=int, default=LIMIT_DEFAULT, help="0 means all")
def list_runs(options: RunListOptions, output: Output) -> int:
    with Client(options.server) as client:
        runs = client.reports.list(job=options.job, state=options.state, limit=options.limit)
        output.rows(runs if output.is_json else map(_row, runs), COLUMNS)
    return Exit.OK


class RunOptions(CommandOptions):
    id: int


@report.command("show", help="one run, with the end of its logs")
@argument("id", type=int)
def show(options: RunOptions, output: Output) -> int:
    with Client(options.server) as client:
        run = client.reports.get(options.id)
    if output.is_json:
        output.row(run)
        return Exit.OK
    output.row({name: value for name, value in _row(run).items() if value not in ("", None)})
    if run.log_tail:
        note(run.log_tail)
    return Exit.OK


@report.command("cancel", help="end a run")
@argument("id", type=int)
def cancel(options: RunOptions, output: Output) -> int:
    with Client(options.server) as client:
        ended = client.reports.cancel(options.id)
    output.row(ended if output.is_json else _row(ended))
    return Exit.OK


@report.command("schedules", help="when reports run by themselves")
def list_schedules(options: CommandOptions, output: Output) -> int:
    with Client(options.server) as client:
        schedules = client.reports.schedules()
    output.rows(schedules if output.is_json else map(_schedule, schedules), SCHEDULE_COLUMNS)
    return Exit.OK


class ScheduleOptions(CommandOptions):
    job: str
    cron: str | None
    limit_s: int | None
    enabled: bool | None


@report.command("schedule", help="change when a report runs")
@argument("job", type=OptionalChoice(JOBS))
@option("--cron", help="minute hour day month weekday, in UTC")
@option("--limit-s", type=int, help="end a run after so long")
@option("--enable/--disable", "enabled", default=None)
def change_schedule(options: ScheduleOptions, output: Output) -> int:
    chosen = {"cron": options.cron, "enabled": options.enabled, "limit_s": options.limit_s}
    changes = {name: value for name, value in chosen.items() if value is not None}
    with Client(options.server) as client:
        schedule = client.reports.change_schedule(options.job, **changes)
    output.row(schedule if output.is_json else _schedule(schedule))
    return Exit.OK


def _row(run: ReportRun) -> Json:
    hours, progress = run.hours, run.progress
    return {
        "id": run.id,
        "job": run.job,
        "cause": run.cause,
        "state": f"{run.state}, {progress.stage} {progress.percent} %" if progress else run.state,
        "began": _moment(run.began_ms),
        "seconds": run.seconds,
        "hours": f"{hours[0]} to {hours[-1]} ({len(hours)})" if hours else "-",
        "rows_in": run.rows_in,
        "rows_out": run.rows_out,
        "figures_until": _moment(run.input_at_ms) if run.input_at_ms else None,
        "engine": " ".join(filter(None, (run.engine, run.spark, run.java, run.master))),
        "actor": run.actor,
        "error": run.error,
    }


def _schedule(row: ReportSchedule) -> Json:
    return {**document(row), "next": _moment(row.next_ms) if row.next_ms else "-"}


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
