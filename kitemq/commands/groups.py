"""`kitemq groups`: list, show, create, change, pause, members, locks, lag, reset, delete."""

from typing import Any

from kitemq.client import Client
from kitemq.commands import reset
from kitemq.commands.asking import confirmed
from kitemq.commands.command import (
    CommandGroup,
    CommandOptions,
    DeleteOptions,
    NamedOptions,
    OptionalChoice,
    argument,
    option,
    repeated,
    several,
    yes_option,
)
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.settings import settings_of, settings_options
from kitemq.commands.times import milliseconds, time_ms
from kitemq.errors import Invalid
from kitemq.model.groups import GroupSettings, GroupStatus, NewGroup
from kitemq.rest import Json

COLUMNS = (
    "name", "status", "status_reason", "members", "mode", "ordered", "retry_max", "start",
    "consume_enabled", "dead_letters",
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


STATUSES = [status.value for status in GroupStatus]

groups = CommandGroup("groups")
for command in (reset.reset_group, reset.undo_reset, reset.list_resets):
    groups.add_command(command)
topic_option = option("--topic", default="", help="of this topic only")


# Four settings are typed otherwise than they are stored.
group_settings = several(
    argument("name"),
    option("--start-at", metavar="WHEN", help="start at this time"),
    option("--retry", metavar="POLICY", help="ladder, exponential:5s,2h,2 or steps:1s,30s,10m"),
    option("--paused/--no-paused", default=None, help="hand out nothing"),
    repeated("--room", "rooms", help="for machine_room; several may be given"),
    settings_options(GroupSettings, but=TYPED_OTHERWISE),
)


class GroupListOptions(CommandOptions):
    q: str
    status: str


@groups.command("list", help="groups by name")
@argument("q", default="", help="part of the name")
@option("--status", type=OptionalChoice(STATUSES), default="", help="with this status only")
def list_groups(options: GroupListOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.rows(client.groups.list(q=options.q, status=options.status), COLUMNS)
    return Exit.OK


@groups.command("show", help="one group's settings")
@argument("name")
def show_group(options: NamedOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.groups.get(options.name))
    return Exit.OK


class GroupOptions(CommandOptions):
    name: str
    start_at: str | None
    retry: str | None
    paused: bool | None
    rooms: list[str] | None
    settings: dict[str, Any]


@groups.command("create", help="create a group")
@group_settings
def create_group(options: GroupOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.groups.create(options.name, **_settings(options, NewGroup)))
    return Exit.OK


@groups.command("change", help="change what is given")
@group_settings
def change_group(options: GroupOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.groups.change(options.name, **_settings(options, GroupSettings)))
    return Exit.OK


class PauseOptions(CommandOptions):
    name: str
    topic: str


@groups.command("pause", help="hand out nothing more")
@argument("name")
@topic_option
def pause_group(options: PauseOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.groups.pause(options.name, topic=options.topic))
    return Exit.OK


@groups.command("resume", help="end a pause")
@argument("name")
@topic_option
def resume_group(options: PauseOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.groups.resume(options.name, topic=options.topic))
    return Exit.OK


@groups.command("members", help="consumers that are alive")
@argument("name")
def list_members(options: NamedOptions, output: Output) -> int:
    with Client(options.server) as client:
        warnings = client.members.warnings(options.name)
        output.rows(client.members.list(options.name), MEMBER_COLUMNS)
    for warning in warnings:
        note(f"{warning.code}: {warning.detail}")
    return Exit.OK


@groups.command("locks", help="which queues are locked, and whose they are")
@argument("name")
@topic_option
def list_locks(options: PauseOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.rows(client.members.locks(options.name, topic=options.topic), LOCK_COLUMNS)
    return Exit.OK


@groups.command("lag", help="what a group has still to do")
@argument("name")
def show_lag(options: NamedOptions, output: Output) -> int:
    with Client(options.server) as client:
        lag = client.groups.lag(options.name)
    output.row(lag)
    if not output.is_json:
        output.rows(lag.queues, LAG_COLUMNS)
    return Exit.OK


@groups.command("delete", help="delete a group with its progress")
@argument("name")
@yes_option
def delete_group(options: DeleteOptions, output: Output) -> int:
    confirmed(f"delete group {options.name} with its progress", yes=options.yes)
    with Client(options.server) as client:
        client.groups.delete(options.name)
    output.line(f"group {options.name} is deleted", {"deleted": options.name})
    return Exit.OK


def _settings(options: GroupOptions, kind: type[GroupSettings]) -> Json:
    given: Json = {"name": options.name, "rooms": options.rooms, **options.settings}
    if options.start_at is not None:
        given |= {"start": "time", "start_at_ms": time_ms(options.start_at, "--start-at")}
    if options.retry is not None:
        given["retry_policy"] = _policy(options.retry)
    if options.paused is not None:
        given["consume_enabled"] = not options.paused
    return settings_of(given, kind)


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
