"""What runs a job's steps: Spark, or this process alone where there is little to do.

A job is a plan of steps over rows of BLOB. Both engines run the same steps, so the figures are the
same; Spark does so in several workers, on this machine or on others, and takes seconds to start.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
import pyarrow as pa

from analytics.errors import StoreUnreadable
from analytics.jobs.inputs import is_local_path, load_local
from analytics.jobs.pieces import FilePart, tasks_of
from analytics.manifest import NAME, FrameManifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterable["pa.RecordBatch"]
Step = Callable[[Batches], Iterator["pa.RecordBatch"]]
Work = Callable[[FilePart], Iterator["pa.RecordBatch"]]
FrameHours = Iterable[tuple[str, Iterable[str]]]  # frames, each with the hours to read


class Flow(Protocol):
    """Rows on their way through the steps of a job."""

    def then(self, tasks: int, step: Step) -> "Flow":
        """What a step makes of the rows of each task; `task` of a row is from 0 to `tasks` - 1."""

    def collect(self) -> "pa.Table":
        """Compute them."""


class Pieces(Protocol):
    """Parts of files that a job reads."""

    def map(self, work: Work, schema: "pa.Schema") -> Flow:
        """All that `work` makes of them, as rows of that schema."""


class JobEngine(Protocol):
    """Reads the Parquet folder, a path or a URL, and runs steps over its files."""

    def manifest(self, root: str) -> FrameManifest:
        """What is in the folder. Raises StoreUnreadable."""

    def pieces(self, root: str, manifest: FrameManifest, read: FrameHours) -> Pieces:
        """Every file of these hours, by frame."""


@dataclass(frozen=True)
class PlainFlow:
    """Rows that this process makes, task after task."""

    batches: Batches
    schema: "pa.Schema"

    def then(self, tasks: int, step: Step) -> "PlainFlow":
        return PlainFlow(self._by_task(step), self.schema)

    def _by_task(self, step: Step) -> "Iterator[pa.RecordBatch]":
        by_task: dict[int, list[pa.RecordBatch]] = {}
        for batch in self.batches:
            # Each has one row.
            by_task.setdefault(batch["task"][0].as_py(), []).append(batch)
        for task in sorted(by_task):
            yield from step(by_task.pop(task))

    def collect(self) -> "pa.Table":
        return pa.Table.from_batches(self.batches, self.schema)


@dataclass(frozen=True)
class PlainPieces:
    """Parts of files of this machine."""

    parts: tuple[FilePart, ...]

    def map(self, work: Work, schema: "pa.Schema") -> PlainFlow:
        return PlainFlow((batch for part in self.parts for batch in work(part)), schema)


class PlainEngine:
    """This process; only for files of this machine."""

    def manifest(self, root: str) -> FrameManifest:
        return load_local(root)

    def pieces(self, root: str, manifest: FrameManifest, read: FrameHours) -> PlainPieces:
        tasks = tasks_of(root, manifest, read)
        return PlainPieces(tuple(part for task in tasks for part in task))


@dataclass(frozen=True)
class SparkFlow:
    """Rows that Spark's workers make."""

    rows: "DataFrame"

    def then(self, tasks: int, step: Step) -> "SparkFlow":
        from pyspark.sql import functions as F

        by_task = self.rows.repartitionById(tasks, F.col("task"))
        return SparkFlow(by_task.mapInArrow(step, self.rows.schema))

    def collect(self) -> "pa.Table":
        return self.rows.toArrow()


@dataclass(frozen=True)
class SparkPieces:
    """`rows` for Spark: the number of a task in `named` each, or a whole file each."""

    rows: "DataFrame"
    named: tuple[tuple[FilePart, ...], ...] = ()

    def map(self, work: Work, schema: "pa.Schema") -> SparkFlow:
        from pyspark.sql.pandas.types import from_arrow_schema

        read = _ReadTask(self.named, work).run
        return SparkFlow(self.rows.mapInArrow(read, from_arrow_schema(schema)))


@dataclass(frozen=True)
class _ReadTask:
    """What Spark runs."""

    named: tuple[tuple[FilePart, ...], ...]
    work: Work

    def run(self, batches: Batches) -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for row in batch.to_pylist():
                for piece in self.named[row["id"]] if self.named else (FilePart(**row),):
                    yield from self.work(piece)


# What Spark sees are a few dozen rows of some MiB each: code that it makes for them, and plans that
# it makes anew between the steps, cost more than they do, and so do several at once.
PLAINLY = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
}


class SparkEngine:
    """A session, which it sets up for these steps."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        for name, value in PLAINLY.items():
            spark.conf.set(name, value)

    def manifest(self, root: str) -> FrameManifest:
        if is_local_path(root):
            return load_local(root)
        rows = self._spark.read.option("wholetext", True).text(f"{root}/{NAME}").collect()
        try:
            return msgspec.json.decode(rows[0][0], type=FrameManifest)
        except (IndexError, msgspec.DecodeError) as error:
            raise StoreUnreadable(f"{root}/{NAME} is no manifest ({error})", "run the roll") from (
                None
            )

    def pieces(self, root: str, manifest: FrameManifest, read: FrameHours) -> SparkPieces:
        """As many of a file's parts to a task as fit."""
        tasks = tasks_of(root, manifest, read)
        if tasks and not is_local_path(root):
            from pyspark.sql import functions as F

            paths = list(dict.fromkeys(part.path for task in tasks for part in task))
            whole = self._spark.read.format("binaryFile").load(paths)
            only_part = F.lit(0).alias("part"), F.lit(1).alias("parts")
            return SparkPieces(whole.select("path", *only_part, "content"))
        numbers = self._spark.range(0, len(tasks), 1, max(1, len(tasks)))
        return SparkPieces(numbers, tuple(map(tuple, tasks)))
