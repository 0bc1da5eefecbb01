"""`kitemq groups reset`, `resets` and `undo`: look first, then move, and take it back."""

from typing import Any

import click
from msgspec.structs import asdict

from kitemq.client import Client
from kitemq.commands.asking import confirmed
from kitemq.commands.command import (
    ClientCommand,
    NamedOptions,
    argument,
    dry_run_option,
    flag,
    option,
    yes_option,
)
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.times import time_ms
from kitemq.errors import Invalid
from kitemq.model.resets import CompletedReset, GroupResetPreview, ResetTo

PLACES = tuple(str(each) for each in ResetTo)
COLUMNS = ("topic", "queue", "current", "target", "redelivered", "skipped", "inflight", "note")
HISTORY_COLUMNS = ("id", "at_ms", "to", "queues", "undoes", "undone_by")


class MoveOptions(NamedOptions):
    """What a reset and an undo take."""

    dry_run: bool
    yes: bool
    force: bool


force_option = flag("--force", "also where the group goes on meanwhile")


class ResetOptions(MoveOptions):
    topics: tuple[str, ...]
    topic: tuple[str, ...]
    to: str
    at: str | None
    offset: int | None
    by: int | None
    from_group: str | None
    queue: int | None


@click.command("reset", cls=ClientCommand, help="let a group go on at another place")
@argument("name")
@argument("topics", nargs=-1, metavar="TOPIC")
@option("--topic", multiple=True, help="the same; several may be given")
@option("--to", required=True, help=f"{', '.join(PLACES)}; or an offset")
@option("--at", metavar="WHEN", help="for time: 2026-01-31T09:00Z")
@option("--offset", type=int, help="for offset")
@option("--by", type=int, help="for shift: back if negative")
@option("--from-group", metavar="GROUP", help="for group")
@option("--queue", type=int, help="this queue only")
@dry_run_option
@yes_option
@force_option
def reset_group(options: ResetOptions, output: Output) -> int:
    topics = [*options.topics, *options.topic]
    if not topics:
        raise Invalid("no topic is named", field="--topic", remedy="as in --topic orders")
    place = _place(options)
    with Client(options.server) as client:
        preview = client.groups.preview_reset(options.name, topics, **place)
        if not _agreed(options, output, preview):
            return Exit.OK
        condition = {"force": True} if options.force else {"precondition": preview.precondition}
        done = client.groups.reset(options.name, topics, **place, **condition)
    return _print_result(done, output)


class UndoOptions(MoveOptions):
    id: str


@click.command("undo", cls=ClientCommand, help="take a reset back")
@argument("name")
@argument("id", default="", help="else the last that is not undone")
@dry_run_option
@yes_option
@force_option
def undo_reset(options: UndoOptions, output: Output) -> int:
    with Client(options.server) as client:
        reset_id = options.id or _last(client, options.name)
        preview = client.groups.preview_undo(options.name, reset_id)
        if not _agreed(options, output, preview):
            return Exit.OK
        condition = {"force": True} if options.force else {"precondition": preview.precondition}
        done = client.groups.undo_reset(options.name, reset_id, **condition)
    return _print_result(done, output)


@click.command("resets", cls=ClientCommand, help="resets of the past, newest first")
@argument("name")
def list_resets(options: NamedOptions, output: Output) -> int:
    with Client(options.server) as client:
        resets = client.groups.resets(options.name)
        if output.is_json:
            output.rows(resets, HISTORY_COLUMNS)
        else:
            rows = ({**asdict(each), "queues": len(each.queues)} for each in resets)
            output.rows(rows, HISTORY_COLUMNS)
    return Exit.OK


def _agreed(options: MoveOptions, output: Output, preview: GroupResetPreview) -> bool:
    """Show what would happen; whether to go on. Raises Refused where the person does not agree."""
    if options.dry_run or not output.is_json:
        output.rows(preview.queues, COLUMNS)
    what = f"{preview.redelivered} messages are delivered again, {preview.skipped} never"
    if preview.inflight:
        what += f", {preview.inflight} are taken from their clients"
    if preview.retry_waiting:
        note(f"{preview.retry_waiting} retries wait for their delay and come in any case")
    if options.dry_run:
        note(f"nothing was changed; {what} if it is")
        return False
    confirmed(f"move group {options.name} to {preview.to} ({what})", yes=options.yes)
    return True


def _print_result(done: CompletedReset, output: Output) -> int:
    if output.is_json:
        output.row(done)
    elif done.id == "0":
        note(f"{len(done.queues)} queues went to {done.to}; no history keeps where they were")
    else:
        note(f"reset {done.id}: {len(done.queues)} queues went to {done.to}")
        note(f"        undo it with: kitemq groups undo {done.group} {done.id}")
    return Exit.OK


def _last(client: Client, group: str) -> str:
    for row in client.groups.resets(group):
        if row.undone_by is None and row.undoes is None:
            return row.id
    raise Invalid(
        f"group {group} has no reset to undo", field="id", remedy="see: kitemq groups resets"
    )


def _place(options: ResetOptions) -> dict[str, Any]:
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
    name, text = value
    if text is None:
        flag = {"time_ms": "--at", "from_group": "--from-group"}.get(name, f"--{name}")
        raise Invalid(f"--to {to} needs {flag}", field=flag, remedy=f"add {flag}")
    return {"to": to, name: text, "queues": queues}
