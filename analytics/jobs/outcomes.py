"""Attempts and how they ended, with the rates of retries and dead letters."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs import attempts, events
from analytics.jobs.columns import hour_name, hour_of
from analytics.jobs.definitions import Frames, Params

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
    base, known = attempts.bases(frames, params)
    delivered = F.col("delivered_ms")
    due = base.withColumn("due_ms", delivered + params.unfinished_s * 1000)
    is_due = (hour_of("due_ms") == F.col("target")) & (F.col("due_ms") < params.at_ms)
    is_open = F.col("ended_ms").isNull() | (F.col("ended_ms") < delivered)
    return (
        attempts.named(due.where(is_due & is_open), known, frames, params)
        .groupBy(*CELL)
        .agg(F.round(F.sum(attempts.weight())).cast("bigint").alias("unfinished"))
    )
