"""`kitemq search`: one text in everything, or through a topic by time, filter and content."""

from datetime import UTC, datetime
from typing import get_args

import click
from msgspec.structs import asdict

from kitemq.client import Client
from kitemq.commands.command import ClientCommand, CommandOptions, argument, option
from kitemq.commands.consume import FILTER_HELP
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.times import time_ms
from kitemq.errors import Invalid
from kitemq.model.messages import Order, Stored
from kitemq.rest import Json

COLUMNS = ("stored", "topic", "queue", "offset", "message_id", "tag", "keys", "body")
BODY_CHARS_MAX = 60
LIMIT_DEFAULT = 100
PAGE = 200


class SearchOptions(CommandOptions):
    text: str
    topic: str
    key: str
    begin: str | None
    end: str | None
    filter: str
    contains: str
    order: Order
    limit: int


@click.command(cls=ClientCommand)
@argument("text", default="", help="an id, a key, or part of a topic's or group's name")
@option("--topic", default="", help="look through this topic instead")
@option("--key", default="", help="with --topic: by key, newest first")
@option("--from", "begin", metavar="WHEN", help="stored since")
@option("--until", "end", metavar="WHEN", help="stored before")
@option("--filter", default="*", help=FILTER_HELP)
@option("--contains", default="", help="a text that the body holds")
@option("--order", type=click.Choice(get_args(Order)), default="oldest", help="which come first")
@option("--limit", type=int, default=LIMIT_DEFAULT, help="messages at most (100)")
def search(options: SearchOptions, output: Output) -> int:
    is_by_text = bool(options.text)
    if is_by_text == bool(options.topic):
        raise Invalid(
            "give either a text or --topic", field="text", remedy="as in kitemq search order-17"
        )
    with Client(options.server) as client:
        if is_by_text:
            return _by_text(client, options.text, output)
        if options.key:
            return _by_key(client, options, output)
        return _through(client, options, output)


def _by_text(client: Client, text: str, output: Output) -> int:
    result = client.messages.find_anything(text)
    if output.is_json:
        output.row(result)
        return Exit.OK
    output.rows(map(_row, result.messages), COLUMNS)
    if result.topics:
        note(f"topics ({result.topics_total}): {', '.join(result.topics)}")
    if result.groups:
        note(f"groups ({result.groups_total}): {', '.join(result.groups)}")
    if result.messages_cut:
        note("there may be more messages with this key")
    return Exit.OK


def _by_key(client: Client, options: SearchOptions, output: Output) -> int:
    times = _times(options)
    messages = client.messages.find_by_key(
        options.topic, options.key, limit=options.limit + 1, **times
    )
    has_more = len(messages) > options.limit
    messages = messages[: options.limit]
    output.rows(messages if output.is_json else map(_row, messages), COLUMNS)
    if has_more:
        note(f"stopped at {options.limit}: give a higher --limit, or an earlier --until")
    return Exit.OK


def _through(client: Client, options: SearchOptions, output: Output) -> int:
    """Page by page, so that a person sees how far it is."""
    times, cursor = _times(options), ""
    messages: list[Stored] = []
    while True:
        page = client.messages.search_page(
            options.topic,
            **times,
            filter=options.filter,
            contains=options.contains,
            order=options.order,
            limit=min(PAGE, options.limit - len(messages)),
            cursor=cursor,
        )
        messages += page.items
        note(f"scanned {page.scanned} of {page.total}, found {page.matched}")
        cursor = page.next_cursor or ""
        if not cursor or len(messages) >= options.limit:
            break
    output.rows(messages if output.is_json else map(_row, messages), COLUMNS)
    if cursor:
        bound = "an earlier --until" if options.order == "newest" else "a later --from"
        note(f"stopped at {options.limit}: give a higher --limit, or {bound}")
    return Exit.OK


def _times(options: SearchOptions) -> dict[str, int]:
    bounds = {"begin_ms": options.begin, "end_ms": options.end}
    flags = {"begin_ms": "--from", "end_ms": "--until"}
    return {name: time_ms(text, flags[name]) for name, text in bounds.items() if text is not None}


def _row(message: Stored) -> Json:
    stored = datetime.fromtimestamp(message.stored_ms / 1000, UTC)
    return {
        **asdict(message),
        "stored": stored.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "keys": " ".join(message.keys),
        "body": message.body[:BODY_CHARS_MAX].replace("\n", " "),
    }
