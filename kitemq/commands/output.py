"""What commands print: tables for people, JSON lines for programs; and the exit codes.

Standard output carries results only; progress and errors go to standard error.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, cast

import msgspec

from kitemq.errors import KiteError, Rejected, Unreachable
from kitemq.model.conversion import encoded

Row = dict[str, Any] | msgspec.Struct


class Exit(IntEnum):
    """Exit codes; they are API."""

    OK = 0
    FAILED = 1  # something went wrong that was not the caller's fault
    REFUSED = 2  # wrong usage, or the server said no
    PARTIAL = 3  # partial success; standard error names the failures
    UNREACHABLE = 4  # no server there, or no answer in time
    INTERRUPTED = 130  # Ctrl-C before it was done


def exit_of(error: KiteError) -> Exit:
    """The exit code for what went wrong."""
    if isinstance(error, Unreachable):
        return Exit.UNREACHABLE
    return Exit.REFUSED if isinstance(error, Rejected) else Exit.FAILED


class Output:
    """Prints rows as a table on a terminal, as JSON lines elsewhere or on request."""

    def __init__(self, *, is_json: bool = False, is_table: bool = False) -> None:
        self.is_json = is_json or (not is_table and not sys.stdout.isatty())

    def rows(self, rows: Iterable[Row], columns: Sequence[str]) -> None:
        """Many rows; the table shows `columns` only, the JSON everything."""
        if self.is_json:
            for row in rows:
                self.row(row)
            return
        cells = [[_cell(row.get(column)) for column in columns] for row in map(document, rows)]
        lines = [[column.upper().replace("_", " ") for column in columns], *cells]
        widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
        for line in lines:
            padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            _write("  ".join(padded).rstrip())
        if not cells:
            note("nothing found")

    def row(self, row: Row) -> None:
        """One result."""
        if self.is_json:
            _write(_json(row))
            return
        fields = document(row)
        width = max((len(name) for name in fields), default=0)
        for name, value in fields.items():
            if not isinstance(value, list):
                _write(f"{name.replace('_', ' ').ljust(width)}  {_cell(value)}")

    def line(self, text: str, row: Row) -> None:
        """One result of many: `text` on a terminal, `row` as JSON elsewhere."""
        _write(_json(row) if self.is_json else text)


def note(text: str) -> None:
    """Something for the person, not for the program that reads the results."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def complain(error: KiteError) -> None:
    """Say what went wrong, where, and what to do about it."""
    where = f"{error.field}: " if error.field else ""
    note(f"kitemq: {where}{error.detail} [{error.code}]")
    if error.remedy:
        note(f"        {error.remedy}")


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def document(row: Row) -> dict[str, Any]:
    """A row as JSON has it."""
    return cast(dict[str, Any], msgspec.to_builtins(row, enc_hook=encoded))


def _json(row: Row) -> str:
    return json.dumps(document(row), ensure_ascii=False, separators=(",", ":"))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
