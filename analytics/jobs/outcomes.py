"""Attempts and how they ended, with the rates of retries and dead letters."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs import events, latency
from analytics.jobs.columns import hour_name
from analytics.jobs.definitions import UNFINISHED, Frames, Params

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CELL = ["target", "topic", "group"]
COUNTED = {
    "attempts": "delivered",
    "acked": "acked",
    "failed": "failed",
    "expired": "expired",
    "returned": "returned",
    "dead": "dead",
}


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `outcomes`."""
    base = frames.events if frames.events is not None else events.build(frames, params)
    happened = (
        base.where(F.col("kind").isin(*COUNTED.values()))
        .groupBy(*CELL)
        .agg(
            *(_sum(F.col("kind") == kind).alias(name) for name, kind in COUNTED.items()),
            _sum((F.col("kind") == "delivered") & F.col("is_retried")).alias("retried"),
            F.lit(0).cast("bigint").alias("unfinished"),
        )
    )
    names = [*COUNTED, "retried", "unfinished"]
    rows = happened.unionByName(_unfinished(frames, params), allowMissingColumns=True)
    summed = rows.groupBy(*CELL).agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in names)
    )
    ended = F.col("acked") + F.col("dead")
    return (
        summed.withColumn("retry_rate", _share(F.col("retried"), F.col("attempts")))
        .withColumn("dead_rate", _share(F.col("dead"), ended))
        .withColumn("success_rate", _share(F.col("acked"), ended))
        .withColumn("hour", hour_name(F.col("target")))
    )


def _sum(condition: "Column") -> "Column":
    return F.round(F.sum(F.when(condition, F.col("messages")).otherwise(0.0))).cast("bigint")


def _share(part: "Column", whole: "Column") -> "Column":
    return F.try_divide(part.cast("double"), whole.cast("double"))


def _unfinished(frames: Frames, params: Params) -> "DataFrame":
    """Attempts whose time was over in the hour, and that had no end when hour or input ended."""
    counted = frames.values if frames.values is not None else latency.values(frames, params)
    return (
        counted.where(F.col("metric") == UNFINISHED)
        .groupBy(*CELL)
        .agg(F.round(F.sum("weight")).cast("bigint").alias("unfinished"))
    )
