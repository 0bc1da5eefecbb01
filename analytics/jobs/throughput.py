"""How much was stored, and how much happened, by hour, kind, topic and group."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs import events
from analytics.jobs.columns import hour_name, in_hours, scaled
from analytics.jobs.definitions import STORED_KINDS, Frames, Params

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "kind", "topic", "group"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `throughput`."""
    assert frames.messages is not None
    known = [F.lit(text) for pair in STORED_KINDS.items() for text in pair]
    kinds = F.create_map(*known)
    # A half message is of a group of producers; everything else has a consumer group or none.
    stored = (
        in_hours(frames.messages, "stored_ms", params)
        .withColumn("kind", kinds[F.col("role")])
        .withColumn("topic", F.col("origin_topic"))
        .groupBy(*CELL)
        .agg(
            F.count("*").alias("messages"),
            F.count("*").alias("counted"),
            F.sum(F.col("size_bytes").cast("bigint")).alias("bytes"),
        )
    )
    base = frames.events if frames.events is not None else events.build(frames, params)
    happened = base.groupBy(*CELL).agg(
        scaled(F.col("messages")).alias("messages"),
        F.sum("counted").alias("counted"),
        F.lit(None).cast("bigint").alias("bytes"),
    )
    return stored.unionByName(happened).withColumn("hour", hour_name(F.col("target")))
