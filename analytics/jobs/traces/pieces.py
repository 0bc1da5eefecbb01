"""What a run reads, for Spark: parts of Parquet files, read where the work is done.

Each task knows the names of its parts, and opens them by their paths. Of an object store it is
given whole files, which Spark has read: it knows the store, its jars and its keys.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.errors import StoreUnreadable
from analytics.jobs.inputs import FILE_URL, is_local_path
from analytics.manifest import HOUR_MS, REMEDY, FrameManifest, hour_end_ms
from analytics.schemas import FRAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TASK_ROWS = 600_000
# Texts that differ from row to row: a dictionary of them goes whole wherever a few rows go.
MANIFOLD = frozenset({"keys", "message_group", "message_id"})
WHERE = re.compile(r"(\w+)/dt=([0-9-]+)/hr=([0-9]+)/[^/]+$")


class FilePart(NamedTuple):
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
        match = WHERE.search(self.path)
        assert match is not None, self.path
        return match[1], match[2], match[3]


Work = Callable[[FilePart], "Iterator[pa.RecordBatch]"]


@dataclass(frozen=True)
class Pieces:
    """`rows` for Spark: the number of a task in `named` each, or a whole file each."""

    rows: "DataFrame"
    named: tuple[tuple[FilePart, ...], ...] = ()

    def map(self, work: Work, schema: "StructType") -> "DataFrame":
        """All that `work` makes of them, as rows of that schema."""
        return self.rows.mapInArrow(_Task(self.named, work).run, schema)


@dataclass(frozen=True)
class _Task:
    """What Spark runs."""

    named: tuple[tuple[FilePart, ...], ...]
    work: Work

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for row in batch.to_pylist():
                for piece in self.named[row["id"]] if self.named else (FilePart(**row),):
                    yield from self.work(piece)


def pieces_of(
    spark: "SparkSession",
    root: str,
    manifest: FrameManifest,
    wanted: Iterable[tuple[str, Iterable[str]]],
) -> Pieces:
    """Every file of these hours, by frame; as many of a file's parts to a task as fit."""
    from pyspark.sql import functions as F

    files = [
        (f"{root}/{folder}", rows)
        for frame, hours in wanted
        for folder, rows in manifest.files(frame, hours)
    ]
    if files and not is_local_path(root):
        whole = spark.read.format("binaryFile").load([path for path, _ in files])
        only_part = F.lit(0).alias("part"), F.lit(1).alias("parts")
        return Pieces(whole.select("path", *only_part, "content"))
    tasks: list[list[FilePart]] = []
    left = 0
    for path, rows in files:
        parts = max(1, -(-rows // TASK_ROWS))
        for part in range(parts):
            if not tasks or left < rows // parts:
                tasks.append([])
                left = TASK_ROWS
            left -= rows // parts
            tasks[-1].append(FilePart(path.removeprefix(FILE_URL), part, parts, None))
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return Pieces(numbers, tuple(map(tuple, tasks)))
