"""`kitemq replay`: jobs that send messages again: start, list, show, outcomes, pause and so on."""

from collections.abc import Callable

from msgspec.structs import asdict

from kitemq.client import Client
from kitemq.commands.command import (
    CommandGroup,
    CommandOptions,
    IdOptions,
    OptionalChoice,
    Run,
    argument,
    flag,
    option,
    several,
)
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.times import time_ms
from kitemq.errors import Invalid
from kitemq.model.replays import MessageRange, Replay, ReplayState
from kitemq.model.values import OffsetInput
from kitemq.rest import Json

COLUMNS = ("id", "state", "source", "to", "selected", "examined", "outcomes", "name")
OUTCOME_COLUMNS = ("queue", "offset", "outcome", "message_id", "to_topic")
LIMIT_DEFAULT = 100
RATE_DEFAULT = 100.0
WAIT_S = 365 * 24 * 3600.0
GOOD = frozenset({"sent", "eligible", "filtered", "sent_before"})


replay = CommandGroup("replay")


class PaceOptions(CommandOptions):
    """The values of `pace_options`."""

    name: str
    rate: float
    dry_run: bool
    wait: bool


pace_options = several(
    option("--name", default="", help="for people"),
    option("--rate", type=float, default=RATE_DEFAULT, help="a second; 0: no limit"),
    flag("--dry-run", "look at all, send nothing"),
    flag("--wait", "until it is over"),
)


def target_options(default: str) -> Callable[[Run], Run]:
    """Where the messages go; without a default, where they were to go before."""
    return several(
        option("--to", type=OptionalChoice(["origin", "group", "topic"]), default=default),
        option("--to-name", default="", metavar="NAME", help="the topic or group"),
    )


class ReplayOptions(PaceOptions):
    source: str
    to: str
    to_name: str
    since: str | None
    until: str | None
    range: tuple[str, ...]
    filter: str


@replay.command("start", help="choose messages and send them again")
@argument("source", help="the topic, or %DLQ% and a group")
@target_options("topic")
@option("--from", "since", metavar="WHEN", help="stored since")
@option("--until", metavar="WHEN", help="and before")
@option("--range", multiple=True, metavar="QUEUE:FIRST:END", help="by offsets")
@option("--filter", default="*", help='tags "a || b", or "SQL92: a > 5"')
@pace_options
def start(options: ReplayOptions, output: Output) -> int:
    choice: Json = {
        "filter": options.filter,
        "from_ms": 0 if options.since is None else time_ms(options.since, "--from"),
        "to_ms": 0 if options.until is None else time_ms(options.until, "--until"),
        "ranges": [_range(text) for text in options.range],
        "to_name": options.to_name,
        **pace_of(options),
    }
    with Client(options.server) as client:
        job = client.replays.create(options.source, options.to, **choice)
        return finished(client, job, options, output)


class RetryOptions(PaceOptions):
    id: str
    to: str
    to_name: str


@replay.command("retry", help="try again what failed in a job that is over")
@argument("id")
@target_options("")
@pace_options
def retry(options: RetryOptions, output: Output) -> int:
    choice = pace_of(options)
    if options.to:
        choice |= {"to": options.to, "to_name": options.to_name}
    with Client(options.server) as client:
        job = client.replays.retry(options.id, **choice)
        return finished(client, job, options, output)


class JobListOptions(CommandOptions):
    state: str
    limit: int


@replay.command("list", help="jobs, the newest first")
@option("--state", default="", help="running, paused, stopped or finished")
@option("--limit", type=int, default=LIMIT_DEFAULT, help="0 means all")
def list_jobs(options: JobListOptions, output: Output) -> int:
    with Client(options.server) as client:
        jobs = client.replays.list(state=options.state, limit=options.limit)
        output.rows(jobs if output.is_json else map(_row, jobs), COLUMNS)
    return Exit.OK


@replay.command("show", help="one job, and what became of its messages")
@argument("id")
def show(options: IdOptions, output: Output) -> int:
    with Client(options.server) as client:
        _show(client.replays.get(options.id), output)
    return Exit.OK


class OutcomeOptions(CommandOptions):
    id: str
    outcome: str
    limit: int


@replay.command("outcomes", help="what became of each message")
@argument("id")
@option("--outcome", default="", help="this one only, such as topic_gone")
@option("--limit", type=int, default=LIMIT_DEFAULT, help="0 means all")
def outcomes(options: OutcomeOptions, output: Output) -> int:
    with Client(options.server) as client:
        rows = client.replays.outcomes(options.id, outcome=options.outcome, limit=options.limit)
        output.rows(rows, OUTCOME_COLUMNS)
    return Exit.OK


class OrderOptions(CommandOptions):
    id: str
    verb: str


def order(options: OrderOptions, output: Output) -> int:
    with Client(options.server) as client:
        verbs = {
            "begin": client.replays.begin,
            "pause": client.replays.pause,
            "resume": client.replays.resume,
            "stop": client.replays.stop,
        }
        _show(verbs[options.verb](options.id), output)
    return Exit.OK


for verb, text in (
    ("begin", "do a dry run in earnest"),
    ("pause", "send nothing for now"),
    ("resume", "let a paused job go on"),
    ("stop", "end a job"),
):
    replay.command(verb, help=text, constants={"verb": verb})(argument("id")(order))


class RateOptions(CommandOptions):
    id: str
    rate: float


@replay.command("rate", help="change how fast a job sends")
@argument("id")
@argument("rate", type=float, help="messages a second; 0: no limit")
def rate(options: RateOptions, output: Output) -> int:
    with Client(options.server) as client:
        _show(client.replays.change(options.id, rate=options.rate), output)
    return Exit.OK


def finished(client: Client, job: Replay, options: PaceOptions, output: Output) -> int:
    """Show a job that was just created, with `--wait` or as a dry run once it is over.

    Exit code 3 where it left messages out for other reasons than its conditions.
    """
    if options.wait or options.dry_run:
        job = client.replays.wait(job.id, timeout_s=WAIT_S)
    _show(job, output)
    if options.dry_run:
        note(f"nothing was sent; `kitemq replay begin {job.id}` does it")
    is_over = job.state in (ReplayState.FINISHED, ReplayState.STOPPED)
    return Exit.PARTIAL if is_over and job.totals.keys() - GOOD else Exit.OK


def pace_of(options: PaceOptions) -> Json:
    """The values of `pace_options` that a job takes."""
    return {"name": options.name, "rate": options.rate, "dry_run": options.dry_run}


def _show(job: Replay, output: Output) -> None:
    output.row(job if output.is_json else {**asdict(job), "totals": _totals(job)})


def _row(job: Replay) -> Json:
    target = f"{job.to} {job.to_name}".strip()
    return {**asdict(job), "to": target, "outcomes": _totals(job)}


def _totals(job: Replay) -> str:
    """As in: 412 eligible, 3 expired, 2 topic gone."""
    parts = (f"{count} {label.replace('_', ' ')}" for label, count in job.totals.items())
    return ", ".join(parts) or "nothing chosen"


def _range(text: str) -> MessageRange:
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise Invalid(f"{text!r} is no range", field="--range", remedy="as in 0:100:200")
    return MessageRange(int(parts[0]), OffsetInput(parts[1]), OffsetInput(parts[2]))
