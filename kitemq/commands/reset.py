"""`kitemq groups reset`, `resets` and `undo`: look first, then move, and take it back."""

import argparse
from typing import Any

from kitemq.client import Client
from kitemq.commands.asking import confirmed
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.times import time_ms
from kitemq.errors import Invalid
from kitemq.rest import Json

PLACES = ("earliest", "latest", "time", "offset", "shift", "group")
COLUMNS = ("topic", "queue", "current", "target", "redelivered", "skipped", "inflight", "note")
HISTORY_COLUMNS = ("id", "at_ms", "to", "queues", "undoes", "undone_by")


def reset_group(options: argparse.Namespace, output: Output) -> int:
    topics = [*options.topics, *options.topic]
    if not topics:
        raise Invalid("no topic is named", field="--topic", remedy="as in --topic orders")
    place = _place(options)
    with Client(options.server) as client:
        preview = client.preview_reset(options.name, topics, **place)
        if not _agreed(options, output, preview):
            return Exit.OK
        condition = {"force": True} if options.force else {"precondition": preview["precondition"]}
        done = client.reset_offsets(options.name, topics, **place, **condition)
    return _told(done, output)


def undo_reset(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        reset_id = options.id or _last(client, options.name)
        preview = client.preview_undo(options.name, reset_id)
        if not _agreed(options, output, preview):
            return Exit.OK
        condition = {"force": True} if options.force else {"precondition": preview["precondition"]}
        done = client.undo_reset(options.name, reset_id, **condition)
    return _told(done, output)


def list_resets(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        found = client.resets(options.name)
        if output.is_json:
            output.rows(found, HISTORY_COLUMNS)
        else:
            output.rows(({**row, "queues": len(row["queues"])} for row in found), HISTORY_COLUMNS)
    return Exit.OK


def _agreed(options: argparse.Namespace, output: Output, preview: Json) -> bool:
    """Show what would happen; whether to go on. Raises Refused where the person does not agree."""
    if options.dry_run or not output.is_json:
        output.rows(preview["queues"], COLUMNS)
    redelivered, skipped = preview["redelivered"], preview["skipped"]
    what = f"{redelivered} messages are delivered again, {skipped} never"
    if preview["inflight"]:
        what += f", {preview['inflight']} are taken from their clients"
    if preview["retry_waiting"]:
        note(f"{preview['retry_waiting']} retries wait for their delay and come in any case")
    if options.dry_run:
        note(f"nothing was changed; {what} if it is")
        return False
    confirmed(f"move group {options.name} to {preview['to']} ({what})", options)
    return True


def _told(done: Json, output: Output) -> int:
    if output.is_json:
        output.row(done)
    else:
        note(f"reset {done['id']}: {len(done['queues'])} queues went to {done['to']}")
        note(f"        undo it with: kitemq groups undo {done['group']} {done['id']}")
    return Exit.OK


def _last(client: Client, group: str) -> str:
    for row in client.resets(group):
        if row["undone_by"] is None and row["undoes"] is None:
            return str(row["id"])
    raise Invalid(
        f"group {group} has no reset to undo", field="id", remedy="see: kitemq groups resets"
    )


def _place(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments that say where to; a bare number is an offset."""
    to = options.to
    queues = [] if options.queue is None else [options.queue]
    if to.isascii() and to.isdecimal():
        return {"to": "offset", "offset": int(to), "queues": queues}
    if to not in PLACES:
        raise Invalid(
            f"{to!r} is no place in a queue", field="--to", remedy=f"one of {', '.join(PLACES)}"
        )
    value = {
        "time": ("time_ms", None if options.at is None else time_ms(options.at, "--at")),
        "offset": ("offset", options.offset),
        "shift": ("by", options.by),
        "group": ("from_group", options.from_group),
    }.get(to)
    if value is None:
        return {"to": to, "queues": queues}
    name, given = value
    if given is None:
        flag = {"time_ms": "--at", "from_group": "--from-group"}.get(name, f"--{name}")
        raise Invalid(f"--to {to} needs {flag}", field=flag, remedy=f"add {flag}")
    return {"to": to, name: given, "queues": queues}


def add_words(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `reset`, `resets` and `undo` to the words of `groups`."""
    resetting = words.add_parser("reset", help="let a group go on at another place")
    resetting.add_argument("name")
    resetting.add_argument("topics", nargs="*", metavar="TOPIC")
    resetting.add_argument(
        "--topic", action="append", default=[], help="the same; several may be given"
    )
    resetting.add_argument("--to", required=True, help=f"{', '.join(PLACES)}; or an offset")
    resetting.add_argument("--at", default=None, metavar="WHEN", help="for time: 2026-01-31T09:00Z")
    resetting.add_argument("--offset", type=int, default=None, help="for offset")
    resetting.add_argument("--by", type=int, default=None, help="for shift: back if negative")
    resetting.add_argument("--from-group", default=None, metavar="GROUP", help="for group")
    resetting.add_argument("--queue", type=int, default=None, help="this queue only")
    _add_common(resetting)
    resetting.set_defaults(run=reset_group)

    undoing = words.add_parser("undo", help="take a reset back")
    undoing.add_argument("name")
    undoing.add_argument("id", nargs="?", default="", help="else the last that is not undone")
    _add_common(undoing)
    undoing.set_defaults(run=undo_reset)

    listing = words.add_parser("resets", help="resets of the past, newest first")
    listing.add_argument("name")
    listing.set_defaults(run=list_resets)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would happen")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--force", action="store_true", help="also where the group goes on meanwhile"
    )
