"""`kitemq topics purge` and `kitemq retention`: purging topics, and the state of retention."""

from typing import Any

import click

from kitemq.client import Client
from kitemq.commands.asking import confirmed
from kitemq.commands.command import (
    ClientCommand,
    CommandOptions,
    argument,
    flag,
    option,
    repeated,
    yes_option,
)
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.times import time_ms
from kitemq.errors import Invalid
from kitemq.model.numbers import INT64_DIGITS, is_whole

COLUMNS = ("queue", "from_offset", "to_offset", "count")


class PurgeOptions(CommandOptions):
    name: str
    all: bool
    before: str | None
    before_offset: list[str] | None
    dry_run: bool
    yes: bool


@click.command(
    "purge",
    cls=ClientCommand,
    one_of=("all", "before", "before_offset"),
    needs_one=True,
    help="make messages of a topic unreadable for good",
)
@argument("name")
@flag("--all", "everything that can be read now")
@option("--before", metavar="TIME", help="stored before it: ISO 8601, or ms")
@repeated(
    "--before-offset",
    metavar="QUEUE=OFFSET",
    help="before an offset of a queue; may be given for several queues",
)
@flag("--dry-run", "only count what would go")
@yes_option
def purge_topic(options: PurgeOptions, output: Output) -> int:
    extent = _extent(options)
    with Client(options.server) as client:
        purged = client.topics.purge(options.name, **extent, dry_run=True)
        if not options.dry_run:
            confirmed(f"purge {purged.count} messages of topic {options.name}", yes=options.yes)
            purged = client.topics.purge(options.name, **extent)
    if output.is_json:
        output.row(purged)
    else:
        output.rows(purged.queues, COLUMNS)
        note(f"{purged.count} messages {'would go' if options.dry_run else 'are gone'}")
    return Exit.OK


@click.command("retention", cls=ClientCommand)
def retention(options: CommandOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.server.retention())
    return Exit.OK


def _extent(options: PurgeOptions) -> dict[str, Any]:
    if options.all:
        return {"everything": True}
    if options.before is not None:
        return {"before_ms": time_ms(options.before, "--before")}
    offsets = {}
    for pair in options.before_offset or ():
        queue, separator, offset = pair.partition("=")
        if not (separator and is_whole(queue, INT64_DIGITS) and is_whole(offset, INT64_DIGITS)):
            raise Invalid(
                f"{pair!r} is no QUEUE=OFFSET", field="--before-offset", remedy="as in 0=1200"
            )
        offsets[int(queue)] = int(offset)
    return {"before_offset": offsets}
