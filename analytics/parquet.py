"""JSON lines to Parquet: `python -m analytics.parquet ROWS.ndjson OUT.parquet NAME:KIND …`.

The server hands figures out as Parquet without holding Arrow in its own memory. Kinds are those of
`engine/report_tables.py`; the file is whole or not there.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from analytics.quiet import become_idle

CHUNK_ROWS = 20_000
TYPES = {
    "STRING": pa.string(),
    "JSON": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
}


def write(source: Path, target: Path, columns: Sequence[tuple[str, str]]) -> int:
    """Write the rows of `source`, perhaps none, as `target`; how many."""
    schema = pa.schema([(name, TYPES[kind]) for name, kind in columns])
    temporary, count = target.with_name(f"{target.name}.tmp"), 0
    with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        rows = _rows(source)
        while chunk := list(islice(rows, CHUNK_ROWS)):
            writer.write_table(pa.Table.from_pylist(chunk, schema=schema))
            count += len(chunk)
    temporary.replace(target)
    return count


def _rows(source: Path) -> Iterator[dict[str, Any]]:
    if not source.exists():
        return
    with source.open("rb") as file:
        for line in file:
            yield msgspec.json.decode(line)


def main(arguments: Sequence[str]) -> int:
    """0 when done, 2 for wrong words."""
    if len(arguments) < 3:
        sys.stderr.write("give ROWS.ndjson OUT.parquet NAME:KIND ...\n")
        return 2
    become_idle()
    source, target, *words = arguments
    pairs = [(name, kind) for name, _, kind in (word.partition(":") for word in words)]
    write(Path(source), Path(target), pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
