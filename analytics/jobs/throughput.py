"""How much was stored, and how much happened, by hour, kind, topic and group."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs import events, stored
from analytics.jobs.columns import hour_name, scaled
from analytics.jobs.definitions import STORED_KINDS, Frames, Params

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "kind", "topic", "group"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `throughput`."""
    named = [F.lit(text) for pair in STORED_KINDS.items() for text in pair]
    records = frames.stored if frames.stored is not None else stored.build(frames, params)
    # A half message is of a group of producers; everything else has a consumer group or none.
    counted = (
        records.withColumn("kind", F.create_map(*named)[F.col("role")])
        .withColumn("topic", F.col("origin_topic"))
        .groupBy(*CELL)
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("messages").alias("counted"),
            F.sum("bytes").alias("bytes"),
        )
    )
    base = frames.events if frames.events is not None else events.build(frames, params)
    happened = base.groupBy(*CELL).agg(
        scaled(F.col("messages")).alias("messages"),
        F.sum("counted").alias("counted"),
        F.lit(None).cast("bigint").alias("bytes"),
    )
    return counted.unionByName(happened).withColumn("hour", hour_name(F.col("target")))
