"""One run of a job in a session: reads, computes table by table, writes each as it is done."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F

from analytics.errors import Refused
from analytics.jobs import inputs, lag_now
from analytics.jobs.catalog import BASES, BUILDS, LARGE
from analytics.jobs.columns import UNIQUE
from analytics.jobs.definitions import UNMATCHED, Frames, Params
from analytics.jobs.outputs import write
from analytics.jobs.progress import Progress
from analytics.results import ALL, LAG_JOB, Table, manifest, tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREVIOUS = ("group", "topic", "queue", "state", "raw_state")
Rows = list[dict[str, object]]


class Work(msgspec.Struct):
    """What is to be done; `previous` may be None."""

    job: str
    hours: list[str]
    root: str
    output: Path
    params: Params
    previous: Path | None


def stages_of(job: str) -> list[str]:
    """What a run goes through, in this order."""
    return ["starting", "reading", *(table.name for table in tables_of(job)), "done"]


def run(spark: "SparkSession", work: Work, progress: Progress) -> dict[str, Any]:
    """What of `result.json` only the work itself knows. Raises Refused, and Spark's own errors."""
    progress.enter("reading")
    known = inputs.load_manifest(spark, work.root)
    read, told = inputs.read(spark, work.root, known, work.job, work.hours)
    doubles = {
        name: 0
        if inputs.is_in_order(work.root, known, name, told[name].hours)
        else inputs.duplicates(name, rows)
        for name, rows in read.items()
    }
    for name, count in doubles.items():
        if count:
            read[name] = read[name].dropDuplicates(UNIQUE[name])
    at_ms = known.lag_ms if work.job == LAG_JOB else known.at_ms
    params = replace(work.params, at_ms=at_ms)
    wanted = [table for table in tables_of(work.job) if _is_wanted(table, params)]
    before = _previous(spark, work.previous) if work.previous else None
    with _bases(work.job, Frames(previous=before, **read), params) as frames:
        rows = {}
        for table in wanted:
            progress.enter(table.name)
            rows[table.name] = write(BUILDS[table.name](frames, params), table, work.output)
        counters = _counters(frames, rows)
    counters |= {
        "duplicates": sum(doubles.values()),
        "late": sum(each.late_rows for each in told.values()),
    }
    return {
        "fingerprints": inputs.fingerprints(known, work.job, work.hours),
        "input": msgspec.to_builtins(told),
        "rows_in": sum(each.rows for each in told.values()),
        "rows_out": sum(len(each) for each in rows.values()),
        "input_position": known.position,
        "input_at_ms": known.at_ms,
        "lag_ms": known.lag_ms,
        "counters": counters,
        "tables": {table.name: _told(table, rows[table.name]) for table in wanted},
    }


def _is_wanted(table: Table, params: Params) -> bool:
    return table.replaces != ALL or lag_now.is_covered(params)


def _told(table: Table, rows: Rows) -> dict[str, object]:
    return {"rows": len(rows), "file": f"{table.name}.ndjson", **manifest(table)}


@contextmanager
def _bases(job: str, frames: Frames, params: Params) -> Iterator[Frames]:
    """With what several tables start from, kept until they are all there."""
    made: list[DataFrame] = []
    try:
        for name, build in BASES[job].items():
            rows = build(frames, params)
            # What is small needs no shuffling between tables once it is in one piece.
            made.append((rows if name in LARGE else rows.coalesce(1)).persist())
            frames = replace(frames, **{name: made[-1]})
        yield frames
    finally:
        for each in made:
            each.unpersist()


def _counters(frames: Frames, rows: dict[str, Rows]) -> dict[str, int]:
    if frames.values is None:
        return {}
    estimated = [_int(row, "messages") - _int(row, "counted") for row in rows["throughput"]]
    unmatched = frames.values.where(F.col("metric") == UNMATCHED).agg(F.sum("n")).first()
    assert unmatched is not None
    return {
        "skewed": sum(_int(row, "skewed") for row in rows["latency"]),
        "unmatched_acks": int(unmatched[0] or 0),
        "estimated": sum(estimated),
    }


def _int(row: dict[str, object], name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value


def _previous(spark: "SparkSession", path: Path) -> "DataFrame | None":
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        columns = {name: [row[name] for row in rows] for name in PREVIOUS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"{path} cannot be read ({type(error).__name__}: {error})",
            "give rows of lag_now as JSON lines",
            field="previous",
        ) from None
    return spark.createDataFrame(pa.table(columns)) if rows else None
