"""`kitemq dead`: a group's dead letters: list, show, count, redrive, dismiss, restore."""

import argparse
from datetime import UTC, datetime

from kitemq.client import Client
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.replay import add_pace, add_target, finished, pace_of
from kitemq.rest import Json

COLUMNS = (
    "offset", "reason", "error", "topic", "failures", "client", "redriven", "dismissed",
    "message_id",
)  # fmt: skip
DISMISSAL_COLUMNS = ("id", "at", "by", "count", "note")
LIMIT_DEFAULT = 100


def list_dead(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        found = client.dead_letters(
            options.group,
            reason=options.reason,
            topic=options.topic,
            filter=options.filter,
            dismissed={"yes": True, "no": False, "any": None}[options.dismissed],
            limit=options.limit,
        )
        output.rows(found if output.is_json else map(_row, found), COLUMNS)
    return Exit.OK


def show_dead(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        letter = client.dead_letter(options.group, options.offset)
    output.row(letter if output.is_json else {**_row(letter), "body": letter["message"]["body"]})
    return Exit.OK


def count_dead(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.count_dead_letters(options.group, newest=options.newest))
    return Exit.OK


def redrive(options: argparse.Namespace, output: Output) -> int:
    choice: Json = {
        "to": options.to,
        "to_name": options.to_name,
        "filter": options.filter,
        "reason": options.reason,
        "topic": options.topic,
        "fresh_only": options.fresh,
        "with_dismissed": options.with_dismissed,
        **pace_of(options),
    }
    with Client(options.server) as client:
        job = client.redrive(options.group, options.offsets, **choice)
        return finished(client, job, options, output)


def dismiss(options: argparse.Namespace, output: Output) -> int:
    choice: Json = {
        "filter": options.filter,
        "reason": options.reason,
        "topic": options.topic,
        "dry_run": options.dry_run,
    }
    with Client(options.server) as client:
        done = client.dismiss_dead_letters(
            options.group, options.offsets, note=options.note, **choice
        )
    output.row(done)
    if options.dry_run:
        note("nothing was dismissed yet; the same without --dry-run does it")
    return Exit.OK


def restore(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(
            client.restore_dead_letters(
                options.group, options.offsets, dismissal=options.dismissal, all=options.all
            )
        )
    return Exit.OK


def list_dismissals(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        found = client.dismissals(options.group, limit=options.limit)
    rows = found["items"]
    if not output.is_json:
        rows = [{**each, "at": _moment(each["at_ms"])} for each in rows]
    output.rows(rows, DISMISSAL_COLUMNS)
    if found["total"] > len(rows):
        note(f"the newest {len(rows)} of {found['total']} dismissals")
    return Exit.OK


def _row(letter: Json) -> Json:
    shown = {name: letter[name] for name in ("reason", "error", "failures", "client")}
    redriven = ", ".join(letter["redriven_by"]) or "-"
    if letter["redrive_count"]:
        redriven += f" (came back, {letter['times']} x)"
    message: Json = letter["message"]
    return {
        **shown,
        "offset": message["offset"],
        "message_id": message["message_id"],
        "topic": letter["origin_topic"],
        "redriven": redriven,
        "dismissed": letter["dismissed"]["note"] if letter["dismissed"] else "-",
    }


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", help="attempts_exhausted, rejected …")
    parser.add_argument("--topic", default="", help="only what was first sent to it")
    parser.add_argument("--filter", default="*", help='tags "a || b", or "SQL92: a > 5"')


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `dead` and its words."""
    parser = commands.add_parser("dead", help="dead letters of a group, and sending them again")
    words = parser.add_subparsers(metavar="WORD", required=True)

    listing = words.add_parser("list", help="dead letters with their cause, the newest first")
    listing.add_argument("group")
    _add_choice(listing)
    listing.add_argument("--dismissed", choices=("yes", "no", "any"), default="any")
    listing.add_argument("--limit", type=int, default=LIMIT_DEFAULT, help="0 means all")
    listing.set_defaults(run=list_dead)

    showing = words.add_parser("show", help="one dead letter")
    showing.add_argument("group")
    showing.add_argument("offset", type=int)
    showing.set_defaults(run=show_dead)

    counting = words.add_parser("count", help="how many have which cause")
    counting.add_argument("group")
    counting.add_argument("--newest", type=int, default=1000, help="look at so many (10,000)")
    counting.set_defaults(run=count_dead)

    redriving = words.add_parser("redrive", help="send dead letters again")
    redriving.add_argument("group")
    redriving.add_argument("offsets", type=int, nargs="*", help="these; else all that match")
    _add_choice(redriving)
    add_target(redriving, "group")
    redriving.add_argument("--fresh", action="store_true", help="not those sent again before")
    redriving.add_argument("--with-dismissed", action="store_true", help="those that rest, too")
    add_pace(redriving)
    redriving.set_defaults(run=redrive)

    dismissing = words.add_parser("dismiss", help="let dead letters rest, with a note")
    dismissing.add_argument("group")
    dismissing.add_argument("offsets", type=int, nargs="*", help="these; else all that match")
    _add_choice(dismissing)
    dismissing.add_argument("--note", required=True, help="why nothing is to be done")
    dismissing.add_argument("--dry-run", action="store_true", help="count, change nothing")
    dismissing.set_defaults(run=dismiss)

    restoring = words.add_parser("restore", help="have dismissed dead letters looked at again")
    restoring.add_argument("group")
    restoring.add_argument("offsets", type=int, nargs="*", help="these")
    restoring.add_argument("--dismissal", default="", metavar="ID", help="or of one dismissal")
    restoring.add_argument("--all", action="store_true", help="or all that rest")
    restoring.set_defaults(run=restore)

    telling = words.add_parser("dismissals", help="what was dismissed, by whom and why")
    telling.add_argument("group")
    telling.add_argument("--limit", type=int, default=LIMIT_DEFAULT, help="at most 200")
    telling.set_defaults(run=list_dismissals)
