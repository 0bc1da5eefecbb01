"""`kitemq topics export` and `import`: definitions of topics in a file, without their messages."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TextIO

import click
from msgspec import to_builtins
from msgspec.structs import replace

from kitemq.client import Client
from kitemq.commands.asking import confirmed
from kitemq.commands.command import (
    ClientCommand,
    CommandOptions,
    OptionalChoice,
    argument,
    dry_run_option,
    option,
    yes_option,
)
from kitemq.commands.output import Exit, Output, note
from kitemq.errors import Invalid
from kitemq.model.spreadsheet_cells import guarded
from kitemq.model.topics import DEFINITION_COLUMNS, ImportedTopic

ROW_COLUMNS = ("number", "topic", "outcome", "changed", "field", "detail", "remedy")
FILE_BYTES_MAX = 16 * 2**20
FORMATS = ("csv", "json")
DOING = ("create", "change")
UNAPPLIED = ("refused", "failed", "unreached")


class ExportOptions(CommandOptions):
    file: str
    q: str
    format: str


@click.command("export", cls=ClientCommand, help="write the definitions of topics into a file")
@argument("file", default="-", metavar="FILE", help="- for the screen")
@option("--q", default="", metavar="TEXT", help="part of the name")
@option(
    "--format",
    type=OptionalChoice(FORMATS),
    default="",
    help="else by the file's name, or JSON lines",
)
def export_topics(options: ExportOptions, output: Output) -> int:
    is_csv = options.format == "csv" or (not options.format and options.file.endswith(".csv"))
    write = _write_csv if is_csv else _write_lines
    with Client(options.server) as client:
        topics = (
            {name: getattr(each, name) for name in DEFINITION_COLUMNS}
            for each in client.topics.list(q=options.q)
        )
        if options.file == "-":
            count = write(sys.stdout, topics)
        else:
            with Path(options.file).open("w", encoding="utf-8", newline="") as file:
                count = write(file, topics)
    note(f"{count} topics")
    return Exit.OK


class ImportOptions(CommandOptions):
    file: str
    format: Literal["", "csv", "json"]
    dry_run: bool
    yes: bool


@click.command("import", cls=ClientCommand, help="create and change topics by such a file")
@argument("file", metavar="FILE", help="CSV with a head, or JSON; - reads it")
@option(
    "--format", type=OptionalChoice(FORMATS), default="", help="else the file's first letter tells"
)
@dry_run_option
@yes_option
def import_topics(options: ImportOptions, output: Output) -> int:
    content = _content(options.file)
    with Client(options.server) as client:
        rows = client.topics.import_file(content, format=options.format, dry_run=True).rows
        doing = [row for row in rows if row.outcome in DOING]
        if doing and not options.dry_run:
            confirmed(f"create or change {len(doing)} topics", yes=options.yes)
            plan = json.dumps([_planned(row) for row in doing])
            done = iter(client.topics.import_file(plan, format="json").rows)
            rows = [
                replace(next(done), number=row.number) if row.outcome in DOING else row
                for row in rows
            ]
    output.rows(map(_document, rows), ROW_COLUMNS)
    counts = Counter(row.outcome for row in rows)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    note(f"{summary}{'; nothing was changed' if options.dry_run else ''}")
    unapplied = sum(counts[outcome] for outcome in UNAPPLIED)
    return (Exit.REFUSED if unapplied == len(rows) else Exit.PARTIAL) if unapplied else Exit.OK


def _planned(row: ImportedTopic) -> dict[str, Any]:
    """What a dry run showed of a row, to be done just so: a topic that changed since is left."""
    changes = {each.field: each.after for each in row.changes}
    return {"name": row.topic, "seen": row.seen, **changes}


def _content(name: str) -> str:
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) <= FILE_BYTES_MAX:
            return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{name}: {error}", field="file", remedy="give a file of UTF-8") from None
    raise Invalid(f"{name} is too large", field="file", remedy="divide it")


def _document(row: ImportedTopic) -> dict[str, Any]:
    """The row with its changes in one cell."""
    changes = [
        f"{each.field} {_text(each.before)} -> {_text(each.after)}"
        for each in row.changes
        if each.before != ""
    ]
    return {**to_builtins(row), "changed": "; ".join(changes)}


def _text(value: Any) -> str:
    return "default" if value is None else str(value)


def _write_lines(file: TextIO, topics: Iterator[dict[str, Any]]) -> int:
    count = 0
    for topic in topics:
        file.write(json.dumps(topic, ensure_ascii=False) + "\n")
        count += 1
    return count


def _write_csv(file: TextIO, topics: Iterator[dict[str, Any]]) -> int:
    """A cell that a spreadsheet would run gets an apostrophe, which an import takes off."""
    writer = csv.writer(file)
    writer.writerow(DEFINITION_COLUMNS)
    count = 0
    for topic in topics:
        cells = ("" if topic[name] is None else str(topic[name]) for name in DEFINITION_COLUMNS)
        writer.writerow(map(guarded, cells))
        count += 1
    return count
