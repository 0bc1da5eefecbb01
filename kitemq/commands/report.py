"""`kitemq report`: run reports, see their runs, change when they run."""

import argparse
from datetime import UTC, datetime

from kitemq.client import Client
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
    "error",
)
SCHEDULE_COLUMNS = ("job", "cron", "enabled", "limit_s", "next")
LIMIT_DEFAULT = 20
GOOD = (RunState.OK, RunState.SKIPPED)


def run(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        begun = client.run_report(options.job, first=options.first, last=options.last)
        if options.detach:
            output.row(begun if output.is_json else _row(begun))
            return Exit.OK
        note(f"run {begun.id} has begun; Ctrl-C leaves it running")
        ended = client.await_report(begun.id, timeout_s=options.timeout)
    output.row(ended if output.is_json else _row(ended))
    if ended.state is RunState.RUNNING:
        note(f"not over after {options.timeout:.0f} s: kitemq report show {ended.id}")
        return Exit.PARTIAL
    return Exit.OK if ended.state in GOOD else Exit.FAILED


def list_runs(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        found = client.report_runs(job=options.job, state=options.state, limit=options.limit)
        output.rows(found if output.is_json else map(_row, found), COLUMNS)
    return Exit.OK


def show(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        found = client.report_run(options.id)
    if output.is_json:
        output.row(found)
        return Exit.OK
    output.row({name: value for name, value in _row(found).items() if value not in ("", None)})
    if found.log_tail:
        note(found.log_tail)
    return Exit.OK


def cancel(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        ended = client.cancel_report(options.id)
    output.row(ended if output.is_json else _row(ended))
    return Exit.OK


def list_schedules(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        found = client.report_schedules()
    output.rows(found if output.is_json else map(_schedule, found), SCHEDULE_COLUMNS)
    return Exit.OK


def change_schedule(options: argparse.Namespace, output: Output) -> int:
    chosen = {"cron": options.cron, "enabled": options.enabled, "limit_s": options.limit_s}
    changes = {name: value for name, value in chosen.items() if value is not None}
    with Client(options.server) as client:
        found = client.change_report_schedule(options.job, **changes)
    output.row(found if output.is_json else _schedule(found))
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
        "engine": " ".join(filter(None, (run.spark, run.java, run.master))),
        "actor": run.actor,
        "error": run.error,
    }


def _schedule(row: ReportSchedule) -> Json:
    return {**document(row), "next": _moment(row.next_ms) if row.next_ms else "-"}


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `report` and its words."""
    parser = commands.add_parser("report", help="reports by Spark: run, runs, schedules")
    words = parser.add_subparsers(metavar="WORD", required=True)

    running = words.add_parser("run", help="run a report now, and wait for it")
    running.add_argument("job", choices=JOBS)
    running.add_argument("--first", default="", metavar="HOUR", help="compute anew from this hour")
    running.add_argument("--last", default="", metavar="HOUR", help="to this one, as 2026-11-21T03")
    running.add_argument("--detach", action="store_true", help="do not wait")
    running.add_argument("--timeout", type=float, default=900.0, metavar="S", help="wait so long")
    running.set_defaults(run=run)

    listing = words.add_parser("list", help="runs, the newest first")
    listing.add_argument("--job", choices=JOBS, default="")
    listing.add_argument("--state", default="", help="running, ok, skipped, failed …")
    listing.add_argument("--limit", type=int, default=LIMIT_DEFAULT, help="0 means all")
    listing.set_defaults(run=list_runs)

    showing = words.add_parser("show", help="one run, with the end of its logs")
    showing.add_argument("id", type=int)
    showing.set_defaults(run=show)

    cancelling = words.add_parser("cancel", help="end a run")
    cancelling.add_argument("id", type=int)
    cancelling.set_defaults(run=cancel)

    telling = words.add_parser("schedules", help="when reports run by themselves")
    telling.set_defaults(run=list_schedules)

    changing = words.add_parser("schedule", help="change when a report runs")
    changing.add_argument("job", choices=JOBS)
    changing.add_argument("--cron", default=None, help="minute hour day month weekday, in UTC")
    changing.add_argument("--limit-s", type=int, default=None, help="end a run after so long")
    switch = changing.add_mutually_exclusive_group()
    switch.add_argument("--enable", dest="enabled", action="store_true", default=None)
    switch.add_argument("--disable", dest="enabled", action="store_false")
    changing.set_defaults(run=change_schedule)
