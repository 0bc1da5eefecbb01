"""`kitemq topics purge` and `kitemq retention`: what goes, and what is kept for how long."""

import argparse
from typing import Any

from kitemq.client import Client
from kitemq.commands.asking import confirmed
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.times import time_ms
from kitemq.errors import Invalid

COLUMNS = ("queue", "from_offset", "to_offset", "count")


def purge_topic(options: argparse.Namespace, output: Output) -> int:
    extent = _extent(options)
    with Client(options.server) as client:
        purged = client.purge(options.name, **extent, dry_run=True)
        if not options.dry_run:
            confirmed(f"purge {purged.count} messages of topic {options.name}", options)
            purged = client.purge(options.name, **extent)
    if output.is_json:
        output.row(purged)
    else:
        output.rows(purged.queues, COLUMNS)
        note(f"{purged.count} messages {'would go' if options.dry_run else 'are gone'}")
    return Exit.OK


def show_retention(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.retention())
    return Exit.OK


def _extent(options: argparse.Namespace) -> dict[str, Any]:
    if options.all:
        return {"everything": True}
    if options.before is not None:
        return {"before_ms": time_ms(options.before, "--before")}
    offsets = {}
    for pair in options.before_offset:
        queue, separator, offset = pair.partition("=")
        if not (separator and _is_number(queue) and _is_number(offset)):
            raise Invalid(
                f"{pair!r} is no QUEUE=OFFSET", field="--before-offset", remedy="as in 0=1200"
            )
        offsets[int(queue)] = int(offset)
    return {"before_offset": offsets}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def add_word(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `purge` to the words of `topics`."""
    purging = words.add_parser("purge", help="make messages of a topic unreadable for good")
    purging.add_argument("name")
    which = purging.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="everything that can be read now")
    which.add_argument("--before", metavar="TIME", help="stored before it: ISO 8601, or ms")
    which.add_argument(
        "--before-offset",
        metavar="QUEUE=OFFSET",
        action="append",
        help="before an offset of a queue; may be given for several queues",
    )
    purging.add_argument("--dry-run", action="store_true", help="only count what would go")
    purging.add_argument("--yes", action="store_true", help="do not ask")
    purging.set_defaults(run=purge_topic)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `retention`."""
    showing = commands.add_parser("retention", help="what is kept for how long, and what goes next")
    showing.set_defaults(run=show_retention)
