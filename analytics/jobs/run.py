"""One run of a job in a session: reads, computes and writes every table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from analytics.errors import Refused
from analytics.jobs import inputs, lag_now, lag_series
from analytics.jobs.catalog import BUILDS
from analytics.jobs.definitions import InputFrames, Params
from analytics.jobs.inputs import Input
from analytics.jobs.outputs import Rows, rows_of, write
from analytics.jobs.progress import JobProgress
from analytics.jobs.traces import build, message_ids, pieces, tables
from analytics.manifest import FrameManifest
from analytics.schemas import LAG, MESSAGES, TRACE
from engine.report_tables import ALL, RESULTS_BY_NAME, TRACES_JOB, ResultTable, manifest, tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREVIOUS = ("group", "topic", "queue", "state", "raw_state")
# What Spark sees of traces are a few dozen rows of some MiB each: code that it makes for them, and
# plans that it makes anew between the steps, cost more than they do, and so do several at once.
PLAINLY = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
}
Inputs = dict[str, Input]
Made = tuple[dict[str, Rows], dict[str, int]]  # the rows of each table, and the counters


class RunWork(msgspec.Struct):
    """What is to be done; `previous` may be None."""

    job: str
    hours: list[str]
    root: str
    output: Path
    params: Params
    previous: Path | None


def run(spark: "SparkSession", work: RunWork, progress: JobProgress) -> dict[str, Any]:
    """What of `result.json` only the work itself knows. Raises Refused, and Spark's own errors."""
    known = inputs.load_manifest(spark, work.root)
    input_hours = inputs.input_hours(known, work.job, work.hours)
    perform = _traces if work.job == TRACES_JOB else _lag
    rows, counters = perform(spark, work, known, input_hours, progress)
    counters |= {"late": sum(each.late_rows for each in input_hours.values())}
    return {
        "fingerprints": inputs.fingerprints(known, work.job, work.hours),
        "input": msgspec.to_builtins(input_hours),
        "rows_in": sum(each.rows for each in input_hours.values()),
        "rows_out": sum(len(each) for each in rows.values()),
        "input_position": known.position,
        "input_at_ms": known.at_ms,
        "lag_ms": known.lag_ms,
        "counters": counters,
        "tables": {
            name: _result_fields(RESULTS_BY_NAME[name], those) for name, those in rows.items()
        },
    }


def _traces(
    spark: "SparkSession",
    work: RunWork,
    known: FrameManifest,
    input_hours: Inputs,
    progress: JobProgress,
) -> Made:
    params = replace(work.params, at_ms=known.at_ms)
    progress.enter("computing")
    for name, value in PLAINLY.items():
        spark.conf.set(name, value)
    read = [(frame, each.hours) for frame, each in input_hours.items()]
    frames = InputFrames(
        pieces=pieces.pieces_of(spark, work.root, known, read),
        rows=_rows(known, work.hours, params.hours),
    )
    rows, counters = tables.collect(build.build(frames, params))
    progress.enter("naming")
    records = pieces.pieces_of(spark, work.root, known, [(MESSAGES, input_hours[MESSAGES].hours)])
    message_ids.fill_in(rows["slowest"], records)
    progress.enter("writing")
    for name, those in rows.items():
        rows[name] = write(those, RESULTS_BY_NAME[name], work.output)
    return rows, counters


def _rows(known: FrameManifest, names: list[str], hours: tuple[int, ...]) -> dict[int, int]:
    """How many rows each wanted hour reads; of earlier records few."""
    return {
        hour: known.row_count(TRACE, inputs.hours_read(TRACE, [name]))
        + known.row_count(MESSAGES, [name])
        for name, hour in zip(names, hours, strict=True)
    }


def _lag(
    spark: "SparkSession",
    work: RunWork,
    known: FrameManifest,
    input_hours: Inputs,
    progress: JobProgress,
) -> Made:
    progress.enter("reading")
    samples = inputs.read_lag(spark, work.root, known.paths(LAG, input_hours[LAG].hours))
    doubled = inputs.doubled_samples(samples)
    if doubled:
        samples = samples.dropDuplicates(list(inputs.SAMPLE))
    params = replace(work.params, at_ms=known.lag_ms)
    before = _previous(spark, work.previous) if work.previous else None
    frames = InputFrames(lag=samples, previous=before)
    series = lag_series.build(frames, params).persist()
    try:
        rows = {}
        for table in tables_of(work.job):
            if table.replaces != ALL or lag_now.is_covered(params):
                progress.enter(table.name)
                made = BUILDS[table.name](replace(frames, series=series), params)
                rows[table.name] = write(rows_of(made, table), table, work.output)
    finally:
        series.unpersist()
    return rows, {"duplicates": doubled}


def _result_fields(table: ResultTable, rows: Rows) -> dict[str, object]:
    return {"rows": len(rows), "file": f"{table.name}.ndjson", **manifest(table)}


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
