"""Messages in a file: CSV with a head, or NDJSON (a message as REST takes it on each line). Pure.

A line that is no message has its fault and does not stop the others; a file that cannot be cut
into lines is refused as a whole.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.errors import Invalid
from kitemq.model.produce import NewMessage
from kitemq.model.spreadsheet_cells import unguarded

ROWS_MAX = 5_000
CHARS_MAX = 4_000_000
PROPERTY = "properties."  # a column "properties.NAME" holds one property
COLUMNS = tuple(field.name for field in msgspec.structs.fields(NewMessage))


@dataclass(frozen=True)
class FileMessage:
    """A line of a file, counted from 1; `fault` says why it is no message."""

    number: int
    new: NewMessage | None
    fault: Invalid | None = None


def read(content: str) -> list[FileMessage]:
    """The messages of a file; Invalid where the file cannot be read, or is too large."""
    if len(content) > CHARS_MAX:
        raise Invalid(
            f"the file has {len(content):,} characters; at most {CHARS_MAX:,} are read",
            field="content",
            remedy="divide it",
        )
    text = content.removeprefix("\ufeff")
    messages: list[FileMessage] = []
    for message in _json_lines(text) if text.lstrip()[:1] == "{" else _csv_lines(text):
        if len(messages) == ROWS_MAX:
            raise Invalid(
                f"the file has more than {ROWS_MAX:,} messages", field="content", remedy="divide it"
            )
        messages.append(message)
    if not messages:
        raise Invalid("the file has no message", field="content", remedy="choose another file")
    return messages


def _json_lines(text: str) -> Iterator[FileMessage]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield FileMessage(number, msgspec.json.decode(line, type=NewMessage))
            except (msgspec.MsgspecError, RecursionError) as error:
                yield FileMessage(number, None, _fault(error))


def _csv_lines(text: str) -> Iterator[FileMessage]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 1
    try:
        head = [cell.strip() for cell in next(reader, [])]
        _check_head(head)
        number = reader.line_num + 1
        for cells in reader:
            if any(cells):
                yield _csv_message(number, head, cells)
            number = reader.line_num + 1
    except csv.Error as error:
        raise Invalid(
            f"line {number} is no CSV: {error}", field="content", remedy="correct the line"
        ) from None


def _check_head(head: list[str]) -> None:
    unknown = [name for name in head if name not in COLUMNS and not name.startswith(PROPERTY)]
    if "body" in head and not unknown:
        return
    raise Invalid(
        f"line 1: there is no column {unknown[0][:60]!r}" if unknown else "line 1 names no “body”",
        field="content",
        remedy=f"begin with names of {', '.join(COLUMNS)} or {PROPERTY}NAME",
    )


def _csv_message(number: int, head: list[str], cells: list[str]) -> FileMessage:
    if len(cells) > len(head):
        detail = f"the line has {len(cells)} cells, its head {len(head)}"
        fault = Invalid(detail, field="", remedy="put cells with commas in quotes")
        return FileMessage(number, None, fault)
    values = dict(zip(head, map(unguarded, cells), strict=False))
    fields: dict[str, Any] = {
        name: text for name, text in values.items() if text and name in COLUMNS
    }
    fields.setdefault("body", "")
    try:
        if "keys" in fields:
            fields["keys"] = fields["keys"].split()
        own = msgspec.json.decode(fields.get("properties", "{}"), type=dict[str, str])
        fields["properties"] = own | _properties(values)
        return FileMessage(number, msgspec.convert(fields, NewMessage, strict=False))
    except (msgspec.MsgspecError, RecursionError) as error:
        return FileMessage(number, None, _fault(error))


def _properties(values: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PROPERTY): text
        for name, text in values.items()
        if text and name.startswith(PROPERTY)
    }


def _fault(error: Exception) -> Invalid:
    """msgspec's sentence, with the field it is about."""
    detail, __, place = str(error).partition(" - at `$.")
    if detail.startswith("Expected `int`"):
        detail = "the value is no whole number"
    named = detail.rpartition("field `")[2].rstrip("`") if "field `" in detail else ""
    return Invalid(detail, field=named or place.rstrip("`"), remedy="correct the value")
