"""Writes a table as JSON lines, whole or not at all."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from analytics.errors import Refused
from engine.report_tables import ResultTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_MAX = 2_000_000  # of one table and run
Rows = list[dict[str, Any]]
KINDS = {"JSON": "STRING"}


def typed(rows: "DataFrame", table: ResultTable) -> "DataFrame":
    """The columns of the table, in its order and its types; others are left out."""
    return rows.select(
        *(F.col(each.name).cast(KINDS.get(each.kind, each.kind)) for each in table.columns)
    )


def rows_of(rows: "DataFrame", table: ResultTable) -> Rows:
    """Compute the table; at most ROWS_MAX + 1 rows of it."""
    rows_read: Rows = typed(rows, table).limit(ROWS_MAX + 1).toArrow().to_pylist()
    return rows_read


def write(rows: Rows, table: ResultTable, folder: Path) -> Rows:
    """Write `<name>.ndjson`, ordered by the key; the rows in that order.

    Raises Refused for more than ROWS_MAX rows, OSError where the disk refuses.
    """
    check_size(len(rows), table.name)
    lines = sorted(
        rows, key=lambda row: tuple((row[name] is not None, row[name]) for name in table.key)
    )
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines)
    replace(folder / f"{table.name}.ndjson", text)
    return lines


def check_size(count: int, name: str) -> None:
    """Refused for more than ROWS_MAX rows of a table."""
    if count > ROWS_MAX:
        raise Refused(
            f"{name} would have more than {ROWS_MAX:,} rows",
            "run fewer hours at a time",
            field="hours",
        )


def replace(path: Path, text: str) -> None:
    """Write a file in one step; on the disk when this returns."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
