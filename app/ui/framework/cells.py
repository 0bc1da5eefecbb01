"""Cells of a table for spreadsheets, none of which a spreadsheet would run. Pure."""

import csv
import io
from collections.abc import Iterable, Sequence

RISKY = ("=", "+", "-", "@", "\t", "\r")


def guarded(text: str) -> str:
    """The text with an apostrophe before what a spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(RISKY) else text


def lines(rows: Iterable[Sequence[str]]) -> bytes:
    """Rows of guarded cells as CSV: quotes, commas and line ends in a cell are kept."""
    target = io.StringIO()
    writer = csv.writer(target)
    for row in rows:
        writer.writerow([guarded(cell) for cell in row])
    return target.getvalue().encode()
