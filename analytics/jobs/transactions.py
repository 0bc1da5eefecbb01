"""What became of transactions: half messages, decisions, and the checks that asked for them."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.columns import for_targets, hour_name, in_hours
from analytics.jobs.definitions import OUTCOMES, Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HALF = OUTCOMES[0]


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `transactions`."""
    assert frames.trace is not None
    assert frames.messages is not None
    halves = frames.messages.where(F.col("role") == HALF)
    begun = in_hours(halves, "stored_ms", params).select(
        "target",
        F.col("target_topic").alias("topic"),
        F.col("producer_group").alias("group"),
        F.lit(HALF).alias("outcome"),
        F.lit("").alias("detail"),
    )
    bound = (
        for_targets(halves, "stored_ms", params, LOOKBACK_HOURS["messages"])
        .groupBy("target", "queue", F.col("offset").alias("first_offset"))
        .agg(F.max_by("target_topic", "stored_ms").alias("bound_for"))
    )
    taken = frames.trace.where(F.col("kind").isin(*OUTCOMES[1:]))
    decided = (
        in_hours(taken, "at_ms", params)
        .join(bound, ["target", "queue", "first_offset"], "left")
        .select(
            "target",
            F.coalesce("bound_for", F.lit("")).alias("topic"),
            "group",
            F.col("kind").alias("outcome"),
            "detail",
        )
    )
    return (
        begun.unionByName(decided)
        .groupBy("target", "topic", "group", "outcome", "detail")
        .agg(F.count("*").alias("messages"))
        .withColumn("hour", hour_name(F.col("target")))
    )
