"""Writes a table as JSON lines, whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from analytics.errors import Refused
from engine.report_tables import ResultTable

ROWS_MAX = 2_000_000  # of one table and run
Rows = list[dict[str, Any]]
ARROW = {
    "STRING": pa.string(), "INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(), "JSON": pa.string(),
}  # fmt: skip


def typed(rows: Rows, table: ResultTable) -> "pa.Table":
    """The columns of the table, in its order and its types; others are left out."""
    schema = pa.schema([(field.name, ARROW[field.kind]) for field in table.columns])
    return pa.Table.from_pylist(rows, schema=schema)


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
