"""Definitions of topics in a file: CSV with a head, JSON (a list, or a page of the API), or JSON
lines. Pure.

What the console's list, the API and `kitemq topics export` write can be read again: figures beside
the definitions are passed over, an apostrophe that a spreadsheet needs is taken off. A column that
nobody knows is refused, as it may be a setting whose name is not spelled right.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.errors import Invalid
from kitemq.model.spreadsheet_cells import unguarded
from kitemq.model.topics import DEFINITION_COLUMNS, IMPORT_CHARS_MAX, NULLABLE, TopicDefinition

ROWS_MAX = 10_000
FORMATS = ("csv", "json")
# Figures that lists show beside a topic's definition.
FIGURES = frozenset(
    {"system", "created_ms", "messages", "in_per_s", "groups", "worst_lag", "last_message"}
    | {"unknown", "read_at"}
)
# Types of the engine's own topics, whose names are refused anyway.
SYSTEM_TYPES = frozenset({"RETRY", "DLQ", "SYSTEM"})
NO_JSON = (msgspec.DecodeError, RecursionError)


@dataclass(frozen=True)
class FileRow:
    """A row of a file, counted from 1; `fault` says why it defines no topic."""

    number: int
    name: str
    definition: TopicDefinition | None
    fault: Invalid | None = None


def read(content: str, format: str = "") -> list[FileRow]:
    """The rows of a file; Invalid where the file as a whole cannot be read, or is too large."""
    if len(content) > IMPORT_CHARS_MAX:
        raise Invalid(
            f"the file has {len(content):,} characters; at most {IMPORT_CHARS_MAX:,} are read",
            field="content",
            remedy="divide it",
        )
    text = content.removeprefix("\ufeff").strip()
    kind = format or ("json" if text[:1] in ("{", "[") else "csv")
    rows = list(_bounded(_objects(text) if kind == "json" else _lines(text)))
    if not rows:
        raise Invalid("the file holds no topic", field="content", remedy="choose another file")
    return rows


def line(definition: TopicDefinition) -> str:
    """A definition as a line of JSON, which `read` takes."""
    return msgspec.json.encode(definition).decode()


def _bounded(objects: Iterator[Mapping[str, Any]]) -> Iterator[FileRow]:
    for number, values in enumerate(objects, 1):
        if number > ROWS_MAX:
            raise Invalid(
                f"the file has more than {ROWS_MAX:,} rows", field="content", remedy="divide it"
            )
        yield _row(number, values)


def _row(number: int, values: Mapping[str, Any]) -> FileRow:
    settings = {key: value for key, value in values.items() if key not in FIGURES}
    if "topic" in settings:
        settings.setdefault("name", settings.pop("topic"))
    if settings.get("type") in SYSTEM_TYPES:
        del settings["type"]
    # Empty cells of what has no default of the broker's are left out.
    settings = {
        key: value for key, value in settings.items() if value is not None or key in NULLABLE
    }
    name = str(settings.get("name", ""))
    try:
        return FileRow(number, name, msgspec.convert(settings, TopicDefinition, strict=False))
    except msgspec.ValidationError as error:
        return FileRow(number, name, None, _fault(error))


def _fault(error: msgspec.ValidationError) -> Invalid:
    """msgspec's sentence, with the column it is about."""
    detail, __, place = str(error).partition(" - at `$.")
    named = detail.rpartition("field `")[2].rstrip("`") if "field `" in detail else ""
    if "unknown field" in detail:
        columns = ", ".join(DEFINITION_COLUMNS)
        return Invalid(f"there is no column {named!r}", field=named, remedy=f"known are {columns}")
    field = named or place.rstrip("`")
    return Invalid(detail, field=field, remedy="add it" if named else "correct the value")


def _lines(text: str) -> Iterator[Mapping[str, Any]]:
    """Rows of CSV by the names of its head; an empty cell is None."""
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        head = [cell.strip().lower() for cell in next(reader, [])]
        if not {"topic", "name"} & set(head):
            raise Invalid(
                "the first line names no column “topic” or “name”",
                field="content",
                remedy=f"begin with a line of column names: {','.join(DEFINITION_COLUMNS)}",
            )
        for cells in reader:
            if len(cells) > len(head):
                raise Invalid(
                    f"line {reader.line_num} has {len(cells)} cells, its head {len(head)}",
                    field="content",
                    remedy="put cells with commas in quotes",
                )
            if any(cells):
                yield dict(zip(head, map(_cell, cells), strict=False))
    except csv.Error as error:
        raise Invalid(
            f"line {reader.line_num} is no CSV: {error}", field="content", remedy="correct the line"
        ) from None


def _cell(text: str) -> str | None:
    text = text.strip()
    return unguarded(text) or None


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The objects of a list, of a page with `items`, or of JSON lines."""
    try:
        whole = msgspec.json.decode(text)
    except NO_JSON:
        yield from _json_lines(text)
        return
    items = whole.get("items", [whole]) if isinstance(whole, dict) else whole
    for item in items if isinstance(items, list) else [items]:
        yield _object(item)


def _json_lines(text: str) -> Iterator[Mapping[str, Any]]:
    for number, each in enumerate(text.splitlines(), 1):
        if not each.strip():
            continue
        try:
            item = msgspec.json.decode(each)
        except NO_JSON as error:
            raise Invalid(
                f"line {number} is no JSON: {error}", field="content", remedy="correct the line"
            ) from None
        yield _object(item)


def _object(item: object) -> Mapping[str, Any]:
    if isinstance(item, dict):
        return item
    raise Invalid(
        "the file holds something that is no topic",
        field="content",
        remedy='give objects like {"name": "orders"}',
    )
