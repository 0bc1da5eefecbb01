"""`kitemq groups`: list, show, create, change, pause, members, locks, lag, reset, delete."""

import argparse

from kitemq.client import Client
from kitemq.commands import reset
from kitemq.commands.asking import confirmed
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.settings import add_options, settings_of
from kitemq.commands.times import milliseconds, time_ms
from kitemq.errors import Invalid
from kitemq.model.groups import GroupSettings, NewGroup
from kitemq.rest import Json

COLUMNS = (
    "name", "mode", "ordered", "retry_max", "start", "consume_enabled", "dead_letters", "members",
)  # fmt: skip
MEMBER_COLUMNS = ("client", "address", "language", "version", "is_pulling", "is_connected")
LOCK_COLUMNS = ("topic", "queue", "client", "until_ms")
TYPED_OTHERWISE = ("start_at_ms", "retry_policy", "consume_enabled", "rooms")
EXPONENTIAL = ("initial_ms", "max_ms", "multiplier")
LAG_COLUMNS = (
    "topic",
    "queue",
    "min_offset",
    "max_offset",
    "committed",
    "count",
    "inflight",
    "oldest_ms",
)


def list_groups(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.rows(client.groups(q=options.q), COLUMNS)
    return Exit.OK


def show_group(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.group(options.name))
    return Exit.OK


def create_group(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.create_group(options.name, **_settings(options, NewGroup)))
    return Exit.OK


def change_group(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.change_group(options.name, **_settings(options, GroupSettings)))
    return Exit.OK


def pause_group(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.pause(options.name, topic=options.topic))
    return Exit.OK


def resume_group(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.resume(options.name, topic=options.topic))
    return Exit.OK


def list_members(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        warnings = client.member_warnings(options.name)
        output.rows(client.members(options.name), MEMBER_COLUMNS)
    for warning in warnings:
        note(f"{warning.code}: {warning.detail}")
    return Exit.OK


def list_locks(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.rows(client.locks(options.name, topic=options.topic), LOCK_COLUMNS)
    return Exit.OK


def show_lag(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        lag = client.lag(options.name)
    output.row(lag)
    if not output.is_json:
        output.rows(lag.queues, LAG_COLUMNS)
    return Exit.OK


def delete_group(options: argparse.Namespace, output: Output) -> int:
    confirmed(f"delete group {options.name} with its progress", options)
    with Client(options.server) as client:
        client.delete_group(options.name)
    output.line(f"group {options.name} is deleted", {"deleted": options.name})
    return Exit.OK


def _settings(options: argparse.Namespace, kind: type[GroupSettings]) -> Json:
    if options.start_at is not None:
        options.start, options.start_at_ms = "time", time_ms(options.start_at, "--start-at")
    if options.retry is not None:
        options.retry_policy = _policy(options.retry)
    if options.paused is not None:
        options.consume_enabled = not options.paused
    return settings_of(options, kind)


def _policy(text: str) -> Json:
    """`ladder`, `exponential:FIRST,LONGEST,MULTIPLIER` or `steps:WAIT,WAIT,…`; else Invalid."""
    kind, _, rest = text.partition(":")
    parts = [part.strip() for part in rest.split(",") if part.strip()]
    if kind == "ladder" and not parts:
        return {"kind": kind}
    if kind == "steps" and parts:
        return {"kind": kind, "delays_ms": [milliseconds(part, "--retry") for part in parts]}
    if kind == "exponential" and len(parts) in (0, 3):
        waits = [milliseconds(part, "--retry") for part in parts[:2]]
        return {
            "kind": kind,
            **dict(zip(EXPONENTIAL, (*waits, *map(_number, parts[2:])), strict=False)),
        }
    raise Invalid(
        f"{text!r} is no retry policy",
        field="--retry",
        remedy="ladder, exponential:5s,2h,2 or steps:1s,30s,10m",
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{text!r} is no number", field="--retry", remedy="as in 2 or 1.5") from None


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `groups` and its words."""
    parser = commands.add_parser("groups", help="consumer groups and their lag")
    words = parser.add_subparsers(metavar="WORD", required=True)

    listing = words.add_parser("list", help="groups by name")
    listing.add_argument("q", nargs="?", default="", help="part of the name")
    listing.set_defaults(run=list_groups)

    for word, text, run in (
        ("show", "one group's settings", show_group),
        ("lag", "what a group has still to do", show_lag),
        ("members", "consumers that are alive", list_members),
    ):
        showing = words.add_parser(word, help=text)
        showing.add_argument("name")
        showing.set_defaults(run=run)

    for word, text, run in (
        ("create", "create a group", create_group),
        ("change", "change what is given", change_group),
    ):
        setting = words.add_parser(word, help=text)
        setting.add_argument("name")
        # Four are typed otherwise than they are stored.
        setting.add_argument("--start-at", default=None, metavar="WHEN", help="start at this time")
        setting.add_argument(
            "--retry", default=None, metavar="POLICY",
            help="ladder, exponential:5s,2h,2 or steps:1s,30s,10m",
        )  # fmt: skip
        setting.add_argument(
            "--paused", action=argparse.BooleanOptionalAction, default=None, help="hand out nothing"
        )
        setting.add_argument(
            "--room", action="append", default=None, dest="rooms",
            help="for machine_room; several may be given",
        )  # fmt: skip
        add_options(setting, GroupSettings, but=TYPED_OTHERWISE)
        setting.set_defaults(run=run)

    for word, text, run in (
        ("pause", "hand out nothing more", pause_group),
        ("resume", "end a pause", resume_group),
        ("locks", "which queues are locked, and whose they are", list_locks),
    ):
        narrowing = words.add_parser(word, help=text)
        narrowing.add_argument("name")
        narrowing.add_argument("--topic", default="", help="of this topic only")
        narrowing.set_defaults(run=run)

    reset.add_words(words)

    deleting = words.add_parser("delete", help="delete a group with its progress")
    deleting.add_argument("name")
    deleting.add_argument("--yes", action="store_true", help="do not ask")
    deleting.set_defaults(run=delete_group)
