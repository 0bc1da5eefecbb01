"""`kitemq dead`: a group's dead letters: list, show, count, redrive, dismiss, restore."""

from datetime import UTC, datetime

from msgspec.structs import asdict

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
from kitemq.commands.output import Exit, Output, Row, note
from kitemq.commands.replay import PaceOptions, finished, pace_of, pace_options, target_options
from kitemq.model.dead_letters import DeadLetterInfo
from kitemq.rest import Json

COLUMNS = (
    "offset", "state", "error", "reason", "topic", "failures", "client", "resent", "note",
    "message_id",
)  # fmt: skip
STATES = ("open", "resent", "dismissed")
DISMISSAL_COLUMNS = ("id", "at", "by", "count", "note")
LIMIT_DEFAULT = 100


dead = CommandGroup("dead")
CUT = (
    option("--reason", default="", help="attempts_exhausted, rejected …"),
    option("--topic", default="", help="only what was first sent to it"),
    option("--filter", default="*", help='tags "a || b", or "SQL92: a > 5"'),
    option("--error-class", default="", help="KeyError, TimeoutException …"),
    option("--error", default="", help='the error\'s main line; "connect*" for what begins so'),
    option("--client", default="", help="only what this client had last"),
    option("--failures", type=int, default=None, help="only what failed so often"),
)
choosing = several(*CUT)


class CutOptions(CommandOptions):
    """What `choosing` adds to a command."""

    reason: str
    topic: str
    filter: str
    error_class: str
    error: str
    client: str
    failures: int | None


class DeadListOptions(CutOptions):
    group: str
    state: str
    limit: int


@dead.command("list", help="open dead letters with their cause, the newest first")
@argument("group")
@choosing
@option("--state", type=OptionalChoice([*STATES, "all"]), default="open")
@option("--limit", type=int, default=LIMIT_DEFAULT, help="0 means all")
def list_dead(options: DeadListOptions, output: Output) -> int:
    with Client(options.server) as client:
        letters = client.dead_letters.list(
            options.group, state=options.state, limit=options.limit, **_cut_of(options)
        )
        output.rows(letters if output.is_json else map(_row, letters), COLUMNS)
    return Exit.OK


class DeadLetterOptions(CommandOptions):
    group: str
    offset: int


@dead.command("show", help="one dead letter")
@argument("group")
@argument("offset", type=int)
def show_dead(options: DeadLetterOptions, output: Output) -> int:
    with Client(options.server) as client:
        letter = client.dead_letters.get(options.group, options.offset)
    output.row(letter if output.is_json else {**_row(letter), "body": letter.message.body})
    return Exit.OK


class CountOptions(CommandOptions):
    group: str
    newest: int


@dead.command("count", help="how many have which state and cause")
@argument("group")
@option("--newest", type=int, default=1000, help="look at so many (10,000)")
def count_dead(options: CountOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.dead_letters.count(options.group, newest=options.newest))
    return Exit.OK


class RedriveOptions(PaceOptions):
    group: str
    offsets: tuple[int, ...]
    reason: str
    topic: str
    filter: str
    error_class: str
    error: str
    client: str
    failures: int | None
    to: str
    to_name: str
    fresh: bool
    state: str
    with_dismissed: bool


@dead.command("redrive", help="resend dead letters")
@argument("group")
@argument("offsets", type=int, nargs=-1, help="these; else all that match")
@choosing
@target_options("group")
@flag("--fresh", "not those that another job sent")
@option("--state", type=OptionalChoice(STATES), default="", help="only those in it")
@flag("--with-dismissed", "dismissed ones, too")
@pace_options
def redrive(options: RedriveOptions, output: Output) -> int:
    choice: Json = {
        "to": options.to,
        "to_name": options.to_name,
        "fresh_only": options.fresh,
        "state": options.state or None,
        "with_dismissed": options.with_dismissed,
        **_cut_of(options),
        **pace_of(options),
    }
    with Client(options.server) as client:
        job = client.dead_letters.redrive(options.group, options.offsets, **choice)
        return finished(client, job, options, output)


class DismissOptions(CutOptions):
    group: str
    offsets: tuple[int, ...]
    note: str
    dry_run: bool


@dead.command("dismiss", help="dismiss dead letters, with a note")
@argument("group")
@argument("offsets", type=int, nargs=-1, help="these; else all that match")
@choosing
@option("--note", required=True, help="why nothing is to be done")
@flag("--dry-run", "count, change nothing")
def dismiss(options: DismissOptions, output: Output) -> int:
    choice: Json = {**_cut_of(options), "dry_run": options.dry_run}
    with Client(options.server) as client:
        done = client.dead_letters.dismiss(
            options.group, options.offsets, note=options.note, **choice
        )
    output.row(done)
    if options.dry_run:
        note("nothing was dismissed yet; the same without --dry-run does it")
    return Exit.OK


class RestoreOptions(CommandOptions):
    group: str
    offsets: tuple[int, ...]
    dismissal: str
    all: bool


@dead.command("restore", help="undo dismissals")
@argument("group")
@argument("offsets", type=int, nargs=-1, help="these")
@option("--dismissal", default="", metavar="ID", help="or of one dismissal")
@flag("--all", "or all that are dismissed")
def restore(options: RestoreOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(
            client.dead_letters.restore(
                options.group, options.offsets, dismissal=options.dismissal, all=options.all
            )
        )
    return Exit.OK


class DismissalListOptions(CommandOptions):
    group: str
    limit: int


@dead.command("dismissals", help="what was dismissed, by whom and why")
@argument("group")
@option("--limit", type=int, default=LIMIT_DEFAULT, help="at most 200")
def list_dismissals(options: DismissalListOptions, output: Output) -> int:
    with Client(options.server) as client:
        page = client.dead_letters.dismissals(options.group, limit=options.limit)
    rows: list[Row] = [*page.items]
    if not output.is_json:
        rows = [{**asdict(each), "at": _moment(each.at_ms)} for each in page.items]
    output.rows(rows, DISMISSAL_COLUMNS)
    if page.total > len(rows):
        note(f"the newest {len(rows)} of {page.total} dismissals")
    return Exit.OK


def _cut_of(options: CutOptions | RedriveOptions) -> Json:
    return {name: getattr(options, name) for name in CutOptions.__annotations__}


def _row(letter: DeadLetterInfo) -> Json:
    resent = ", ".join(letter.redriven_by) or "-"
    if letter.redrive_count:
        resent += f" (came back, {letter.redrive_count} x)"
    names = ("state", "reason", "error", "failures", "client")
    return {
        **{name: getattr(letter, name) for name in names},
        "offset": letter.message.offset,
        "message_id": letter.message.message_id,
        "topic": letter.origin_topic,
        "resent": resent,
        "note": letter.dismissed.note if letter.dismissed else "-",
    }


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
