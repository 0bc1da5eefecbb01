"""The plan of the job: from pieces of Parquet to the tables of each hour."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from analytics.jobs.definitions import InputFrames, Params
from analytics.jobs.traces import blobs
from analytics.jobs.traces.finish import Finish
from analytics.jobs.traces.gather import Gather
from analytics.jobs.traces.scatter import Scatter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GATHER_ROWS = 1_100_000  # that an hour reads and one task puts together, in about 500 MiB
FINISHERS_MAX = 64


def build(frames: InputFrames, params: Params) -> "DataFrame":
    """Rows of BLOB: each table of each wanted hour that anything was recorded for.

    `frames.rows` says how many rows each of them reads; missing ones are few.
    """
    assert frames.pieces is not None
    counts = [max(1, -(-frames.rows.get(hour, 0) // GATHER_ROWS)) for hour in params.hours]
    first = [sum(counts[:at]) for at in range(len(counts))]
    tasks = {hour: (at, n) for hour, at, n in zip(params.hours, first, counts, strict=True)}
    finishers = min(FINISHERS_MAX, len(params.hours))
    finish_in = {hour: at % finishers for at, hour in enumerate(params.hours)}
    blob = from_arrow_schema(blobs.BLOB)
    sent = frames.pieces.map(Scatter(tasks).run, blob)
    counted = sent.repartitionById(sum(counts), F.col("task")).mapInArrow(
        Gather(finish_in, params).run, blob
    )
    return counted.repartitionById(finishers, F.col("task")).mapInArrow(Finish(params).run, blob)
