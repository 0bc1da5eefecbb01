"""The frames that a run reads: exactly the files that the manifest named when it began."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from analytics.errors import Refused, StoreUnreadable
from analytics.jobs.columns import UNIQUE
from analytics.manifest import NAME, PARTITION_DDL, Manifest, load
from analytics.results import INPUTS, LOOKBACK_HOURS, fingerprint, hours_before
from analytics.schemas import FRAMES, LAG, TRACE, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_URL = "file://"


class Input(msgspec.Struct):
    """What was read of one frame."""

    hours: list[str]
    rows: int
    late_rows: int


def is_local_path(root: str) -> bool:
    """Whether a root is a path of this machine, and no URL of some store."""
    return "://" not in root or root.startswith(FILE_URL)


def load_local(root: str) -> Manifest:
    """The manifest of a local folder; raises StoreUnreadable."""
    return load(Path(root.removeprefix(FILE_URL)))


def load_manifest(spark: "SparkSession", root: str) -> Manifest:
    """The manifest of a local folder or of a URL; raises StoreUnreadable."""
    if is_local_path(root):
        return load_local(root)
    rows = spark.read.option("wholetext", True).text(f"{root}/{NAME}").collect()
    try:
        return msgspec.json.decode(rows[0][0], type=Manifest)
    except (IndexError, msgspec.DecodeError) as error:
        raise StoreUnreadable(f"{root}/{NAME} is no manifest ({error})", "run the roll") from None


def hours_read(frame: str, hours: Iterable[str]) -> set[str]:
    """The wanted hours and those before that they need."""
    return {each for hour in hours for each in hours_before(hour, LOOKBACK_HOURS[frame])}


def read(
    spark: "SparkSession", root: str, manifest: Manifest, job: str, hours: Iterable[str]
) -> "tuple[dict[str, DataFrame], dict[str, Input]]":
    """The frames of a job by name, and what is in them."""
    wanted = list(hours)
    frames, inputs = {}, {}
    for frame in INPUTS[job]:
        read_hours = hours_read(frame, wanted)
        known = manifest.partitions(frame)
        there = sorted(read_hours & known.keys())
        frames[frame] = _frame(spark, root, frame, manifest.paths(frame, there))
        inputs[frame] = Input(
            there,
            manifest.row_count(frame, there),
            sum(known[hour].late_rows for hour in there),
        )
    return frames, inputs


def fingerprints(manifest: Manifest, job: str, hours: Iterable[str]) -> dict[str, str]:
    """By hour, see `results.fingerprint`."""
    known = {frame: manifest.fingerprints(frame) for frame in INPUTS[job]}
    return {hour: fingerprint(job, hour, known) for hour in hours}


def is_in_order(root: str, manifest: Manifest, frame: str, hours: Iterable[str]) -> bool:
    """Whether the rows of each hour lie in their log's order, each place once: no row is doubled.

    So the roll writes them. Read without Spark, which takes a tenth of the time; False where
    that cannot tell: off this machine, or of lag samples.
    """
    if frame == LAG or not is_local_path(root):
        return False
    folder = Path(root.removeprefix(FILE_URL))
    for hour in hours:
        last: list[int] = []
        for path in manifest.paths(frame, [hour]):
            with pq.ParquetFile(folder / path) as file:
                for number in range(file.num_row_groups):
                    group = file.read_row_group(number, columns=UNIQUE[frame])
                    if not (group.num_rows and _is_rising(group, last)):
                        return False
                    last = [column[-1].as_py() for column in group.columns]
    return True


def _is_rising(group: "pa.Table", last: list[int]) -> bool:
    """Whether each row lies behind the one before; `last` is the one before all, if any."""
    columns = [column.to_numpy() for column in group.columns]
    if last:
        columns = [np.insert(column, 0, one) for column, one in zip(columns, last, strict=True)]
    is_behind = np.zeros(len(columns[0]) - 1, dtype=bool)
    for column in reversed(columns):
        step = np.diff(column)
        is_behind = (step > 0) | ((step == 0) & is_behind)
    return bool(is_behind.all())


def duplicates(frame: str, rows: "DataFrame") -> int:
    """How many rows are there more than once, beyond the first."""
    if frame == TRACE and not _looks_doubled(rows):
        return 0
    found = rows.agg(F.count("*"), F.count_distinct(*UNIQUE[frame])).first()
    assert found is not None
    return int(found[0] - found[1])


def _looks_doubled(trace: "DataFrame") -> bool:
    """Whether the numbers of any record's rows are not each number once: cheap, and mostly false.

    A record's rows are numbered, and an hour mostly has a whole stretch of them.
    """
    number = F.col("row_number").cast("bigint")
    records = trace.groupBy("log_position").agg(
        F.count("*").alias("n"),
        F.min(number).alias("a"),
        F.max(number).alias("b"),
        F.sum(number).alias("s"),
        F.sum(number * number).alias("q"),
    )
    a, b = F.col("a"), F.col("b")
    squares = (b * (b + 1) * (2 * b + 1) - (a - 1) * a * (2 * a - 1)) / 6
    is_stretch = (
        (F.col("n") == b - a + 1)
        & (F.col("s") == (a + b) * F.col("n") / 2)
        & (F.col("q") == squares)
    )
    return bool(records.where(~is_stretch).take(1))


def check_root(root: str, *, is_local: bool, is_shared: bool) -> None:
    """Refused where the workers of a cluster would look for files that only this machine has."""
    if not root:
        raise Refused("root is empty", "give the folder of the Parquet", field="root")
    if is_local_path(root) and not is_local and not is_shared:
        raise Refused(
            f"{root} is a path of this machine, the workers are on others",
            "give a URL, or set is_shared (the server's setting report_root_is_shared) where all "
            "of them see that path",
            field="root",
        )


def _frame(spark: "SparkSession", root: str, frame: str, paths: list[str]) -> "DataFrame":
    assert frame in FRAMES
    if not paths:
        return spark.createDataFrame([], ddl(frame) + PARTITION_DDL)
    reader = spark.read.schema(ddl(frame) + PARTITION_DDL).option("basePath", f"{root}/{frame}")
    return reader.parquet(*[f"{root}/{path}" for path in paths])
