"""Tables as CSV, none of whose cells a spreadsheet would run. Pure."""

import csv
import io
from collections.abc import Iterable, Sequence

from kitemq.model.spreadsheet_cells import Cell, guarded


def lines(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Rows of guarded cells as CSV: quotes, commas and line ends in a cell are kept."""
    target = io.StringIO()
    csv.writer(target).writerows(map(guarded, row) for row in rows)
    return target.getvalue().encode()
