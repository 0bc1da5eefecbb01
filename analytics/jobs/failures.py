"""Why attempts failed and messages were given up or refused: the most frequent reasons."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs import events
from analytics.jobs.columns import hour_name
from analytics.jobs.definitions import FAILURE_KINDS, Frames, Params
from analytics.jobs.rest import most

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "kind", "topic", "group"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `failures`."""
    base = frames.events if frames.events is not None else events.build(frames, params)
    counted = (
        base.where(F.col("kind").isin(*FAILURE_KINDS))
        .groupBy(*CELL, "reason")
        .agg(
            F.round(F.sum("messages")).cast("bigint").alias("messages"),
            F.sum("counted").alias("counted"),
        )
    )
    rows = most(
        counted,
        CELL,
        "reason",
        "reasons",
        sums=("messages", "counted"),
        count_max=params.reasons_max,
    )
    return rows.withColumn("hour", hour_name(F.col("target")))
