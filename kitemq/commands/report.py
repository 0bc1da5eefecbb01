"""`kitemq report`: run reports, see their runs, change when they run."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from kitemq.client import Client
from kitemq.commands.command import (
    CommandGroup,
    CommandOptions,
    OptionalChoice,
    argument,
    flag,
    option,
    several,
)
from kitemq.commands.output import Exit, Output, document, note
from kitemq.model.reports import Basis, FigureCriteria, ReportRun, ReportSchedule, RunState
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
MEASURES = ("n", "p50", "p95", "p99", "mean", "most")
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


class FigureOptions(CommandOptions):
    by: str
    first: str
    last: str
    topic: str
    group: str
    against: str


choose_figures = several(
    option("--by", default="", metavar="COLUMNS", help="put together by, as topic,group"),
    option("--first", default="", metavar="HOUR", help="from this hour (UTC)"),
    option("--last", default="", metavar="HOUR", help="to this one, as 2026-11-21T03"),
    option("--topic", default="", help="of one topic"),
    option("--group", default="", help="of one consumer group"),
    option(
        "--against",
        default="",
        metavar="RANGE",
        help="compare with a range as long: before, week (a week earlier), or its first hour",
    ),
)


class TotalsOptions(FigureOptions):
    name: str


@report.command("totals", help="sums of a table of figures, of one range or of two")
@argument("name", metavar="TABLE")
@choose_figures
def totals(options: TotalsOptions, output: Output) -> int:
    with Client(options.server) as client:
        sums = client.reports.totals(
            options.name, _by(options), against=options.against, **_criteria(options)
        )
    rows = sums.rows if output.is_json else [_compared(row, row) for row in sums.rows]
    output.rows(rows, list(rows[0]) if rows else [])
    _note(sums.basis_before)
    return Exit.OK


class LatencyOptions(FigureOptions):
    metric: str


@report.command("latency", help="latencies in ms, of one range or of two")
@option("--metric", default="end_to_end", help="end_to_end, wait, process, broker ...")
@choose_figures
def latency(options: LatencyOptions, output: Output) -> int:
    criteria = _criteria(options)
    criteria["metric"] = options.metric
    with Client(options.server) as client:
        cells = client.reports.latency(by=_by(options), against=options.against, **criteria)
    if output.is_json:
        output.rows(cells.items, ())
    else:
        items = map(document, cells.items)
        rows = [
            _compared(item["by"] | {name: item[name] for name in MEASURES}, item) for item in items
        ]
        output.rows(rows, list(rows[0]) if rows else [])
    _note(cells.basis_before)
    return Exit.OK


def _by(options: FigureOptions) -> Sequence[str]:
    return [name for name in options.by.split(",") if name]


def _criteria(options: FigureOptions) -> FigureCriteria:
    return FigureCriteria(
        first=options.first, last=options.last, topic=options.topic, group=options.group
    )


def _note(before: Basis | None) -> None:
    if before is not None:
        hours = f"{before.hours_done} hours of figures"
        note(f"compared with {before.first} to {before.last} ({hours})")


def _compared(values: Json, row: Json) -> Json:
    """The values of a row with those of the other range behind each."""
    flat: Json = {}
    before, changes = row.get("before") or {}, row.get("change")
    for name, value in values.items():
        if name not in ("before", "change"):
            flat[name] = _rounded(value)
            if changes is not None and name in changes:
                flat |= {f"{name}_before": _rounded(before[name])}
                flat |= {f"{name}_change": _change_text(changes[name])}
    return flat


def _rounded(value: Any) -> Any:
    return round(value, 1) if isinstance(value, float) else value


def _change_text(change: Json) -> str:
    ratio = change["ratio"]
    text = "from 0" if ratio is None else f"{100 * ratio:+.1f} %"
    return f"{text} {change['verdict']}".rstrip()


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
