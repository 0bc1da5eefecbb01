"""Cells of a table for spreadsheets, none of which a spreadsheet would run. Pure."""

import csv
import io
from collections.abc import Iterable, Sequence

RISKY = ("=", "+", "-", "@", "\t", "\r")


Cell = str | int | float | None


def guarded(value: Cell) -> Cell:
    """The value, with an apostrophe before a text that a spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(RISKY) else value


def lines(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Rows of guarded cells as CSV: quotes, commas and line ends in a cell are kept."""
    target = io.StringIO()
    csv.writer(target).writerows(map(guarded, row) for row in rows)
    return target.getvalue().encode()
