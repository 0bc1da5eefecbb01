"""The frames that a run reads: exactly the files that the manifest named when it began."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analytics.errors import Refused, StoreUnreadable
from analytics.jobs.columns import UNIQUE
from analytics.manifest import NAME, PARTITION_DDL, Manifest, load
from analytics.results import INPUTS, LOOKBACK_HOURS, fingerprint, hours_before
from analytics.schemas import FRAMES, ddl

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


def load_manifest(spark: "SparkSession", root: str) -> Manifest:
    """The manifest of a local folder or of a URL; raises StoreUnreadable."""
    if is_local_path(root):
        return load(Path(root.removeprefix(FILE_URL)))
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


def duplicates(frame: str, rows: "DataFrame") -> int:
    """How many rows are there more than once, beyond the first."""
    total = rows.count()
    return total - rows.select(*UNIQUE[frame]).distinct().count()


def check_root(root: str, *, is_local: bool, is_shared: bool) -> None:
    """Refused where the workers of a cluster would look for files that only this machine has."""
    if not root:
        raise Refused("root is empty", "give the folder of the Parquet", field="root")
    if is_local_path(root) and not is_local and not is_shared:
        raise Refused(
            f"{root} is a path of this machine, the workers are on others",
            "give a URL, or set is_shared where all of them see that path",
            field="root",
        )


def _frame(spark: "SparkSession", root: str, frame: str, paths: list[str]) -> "DataFrame":
    assert frame in FRAMES
    if not paths:
        return spark.createDataFrame([], ddl(frame) + PARTITION_DDL)
    reader = spark.read.schema(ddl(frame) + PARTITION_DDL).option("basePath", f"{root}/{frame}")
    return reader.parquet(*[f"{root}/{path}" for path in paths])
