"""`kitemq groups`: list, show, create, change, lag, reset, delete."""

import argparse

from kitemq.client import Client, Json
from kitemq.commands.asking import confirmed
from kitemq.commands.output import Exit, Output
from kitemq.errors import Invalid

COLUMNS = ("name", "retry_max", "start", "consume_enabled", "dead_letters")
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
        output.row(client.create_group(options.name, **_settings(options)))
    return Exit.OK


def change_group(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.change_group(options.name, **_settings(options)))
    return Exit.OK


def show_lag(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        lag = client.lag(options.name)
    output.row(lag)
    if not output.is_json:
        output.rows(lag["queues"], LAG_COLUMNS)
    return Exit.OK


def reset_group(options: argparse.Namespace, output: Output) -> int:
    confirmed(f"move group {options.name} in {options.topic} to {options.to}", options)
    with Client(options.server) as client:
        queues = client.topic(options.topic)["queues"]
        chosen = [each for each in queues if options.queue in (None, each["queue"])]
        if not chosen:
            raise Invalid(
                f"topic {options.topic} has no queue {options.queue}",
                field="queue",
                remedy=f"give 0 to {len(queues) - 1}",
            )
        for queue in chosen:
            offset = _offset(options.to, queue)
            client.commit_offset(options.name, options.topic, queue["queue"], offset)
            output.line(
                f"queue {queue['queue']} goes on at offset {offset}",
                {"group": options.name, "topic": options.topic, "queue": queue["queue"],
                 "offset": str(offset)},
            )  # fmt: skip
    return Exit.OK


def delete_group(options: argparse.Namespace, output: Output) -> int:
    confirmed(f"delete group {options.name} with its progress", options)
    with Client(options.server) as client:
        client.delete_group(options.name)
    output.line(f"group {options.name} is deleted", {"deleted": options.name})
    return Exit.OK


def _offset(text: str, queue: Json) -> int:
    if text == "earliest":
        return int(queue["min_offset"])
    if text == "latest":
        return int(queue["max_offset"])
    if text.isascii() and text.isdecimal():
        return int(text)
    raise Invalid(
        f"{text!r} is no place in a queue", field="to", remedy="earliest, latest or an offset"
    )


def _settings(options: argparse.Namespace) -> Json:
    given: Json = {"retry_max": options.retry_max, "start": options.start}
    if options.paused is not None:
        given["consume_enabled"] = not options.paused
    return {name: value for name, value in given.items() if value is not None}


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
        setting.add_argument("--retry-max", type=int, default=None, help="retries after the first")
        setting.add_argument("--start", default=None, help="earliest or latest")
        setting.add_argument(
            "--paused", action=argparse.BooleanOptionalAction, default=None, help="hand out nothing"
        )
        setting.set_defaults(run=run)

    resetting = words.add_parser("reset", help="let a group go on at another place")
    resetting.add_argument("name")
    resetting.add_argument("topic")
    resetting.add_argument("--to", required=True, help="earliest, latest or an offset")
    resetting.add_argument("--queue", type=int, default=None, help="this queue only")
    resetting.add_argument("--yes", action="store_true", help="do not ask")
    resetting.set_defaults(run=reset_group)

    deleting = words.add_parser("delete", help="delete a group with its progress")
    deleting.add_argument("name")
    deleting.add_argument("--yes", action="store_true", help="do not ask")
    deleting.set_defaults(run=delete_group)
