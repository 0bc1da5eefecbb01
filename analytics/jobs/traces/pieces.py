"""What a run reads, as rows for Spark: parts of Parquet files, read where the work is done.

A row names a part of a file that its task opens by the path. Of an object store it holds a whole
file, which Spark has read: it knows the store, its jars and its keys.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.errors import StoreUnreadable
from analytics.jobs.inputs import FILE_URL, is_local_path
from analytics.manifest import HOUR_MS, REMEDY, Manifest, hour_end_ms
from analytics.schemas import FRAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_ROWS = 600_000
# Texts that differ from row to row: a dictionary of them goes whole wherever a few rows go.
MANIFOLD = frozenset({"keys", "message_group", "message_id"})
WHERE = re.compile(r"(\w+)/dt=([0-9-]+)/hr=([0-9]+)/[^/]+$")
NAMED = pa.schema(
    [
        ("task", pa.int32()),
        ("path", pa.string()),
        ("part", pa.int32()),
        ("parts", pa.int32()),
        ("content", pa.binary()),
    ]
)


class Piece(NamedTuple):
    """Part `part` of `parts` of a file, by its row groups; `content` is the file, if it is here."""

    path: str
    part: int
    parts: int
    content: bytes | None

    @property
    def frame(self) -> str:
        return self._where()[0]

    @property
    def hour(self) -> int:
        """The number of the hour that all its rows lie in."""
        _, day, hour = self._where()
        return hour_end_ms(f"{day}T{hour}") // HOUR_MS - 1

    def read(self, columns: Sequence[str]) -> "pa.Table":
        """Its rows in the order of the file; texts that repeat come as dictionaries.

        Raises StoreUnreadable.
        """
        texts = {each.name for each in FRAMES[self.frame] if each.kind == "STRING"}
        repeated = sorted((texts & set(columns)) - MANIFOLD)
        source: Any = self.path if self.content is None else pa.BufferReader(self.content)
        try:
            with pq.ParquetFile(source, read_dictionary=repeated) as file:
                count = file.num_row_groups
                begin, end = (count * part // self.parts for part in (self.part, self.part + 1))
                groups = list(range(begin, end))
                rows = file.read_row_groups(groups, columns=list(columns), use_threads=False)
                return rows.select(list(columns))
        except (OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise StoreUnreadable(
                f"{self.path} cannot be read ({reason})", f"bring it back, or {REMEDY}"
            ) from None

    def _where(self) -> tuple[str, str, str]:
        found = WHERE.search(self.path)
        assert found is not None, self.path
        return found[1], found[2], found[3]


def frame_of(
    spark: "SparkSession",
    root: str,
    manifest: Manifest,
    wanted: Iterable[tuple[str, Iterable[str]]],
) -> "DataFrame":
    """Every file of these hours, by frame: a row for each piece, as many to a task as fit."""
    from pyspark.sql import functions as F

    files = [
        (f"{root}/{folder}", rows)
        for frame, hours in wanted
        for folder, rows in manifest.files(frame, hours)
    ]
    if files and not is_local_path(root):
        whole = spark.read.format("binaryFile").load([path for path, _ in files])
        return whole.select("path", F.lit(0).alias("part"), F.lit(1).alias("parts"), "content")
    pieces: list[dict[str, Any]] = []
    task, left = 0, TASK_ROWS
    for path, rows in files:
        parts = max(1, -(-rows // TASK_ROWS))
        for part in range(parts):
            if left < rows // parts:
                task, left = task + 1, TASK_ROWS
            left -= rows // parts
            piece = Piece(path.removeprefix(FILE_URL), part, parts, None)
            pieces.append({"task": task, **piece._asdict()})
    named = spark.createDataFrame(pa.Table.from_pylist(pieces, schema=NAMED))
    return named.repartitionById(task + 1, F.col("task")).drop("task")
