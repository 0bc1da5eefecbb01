"""The messages that took longest from their birth to their acknowledgement."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from analytics.hist import bucket_sql
from analytics.jobs import attempts, latency
from analytics.jobs.columns import for_targets, hour_name, ranked
from analytics.jobs.definitions import END_TO_END, Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "topic", "group"]
PLACE = ["target", "stored_topic", "queue", "offset"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `slowest`."""
    assert frames.messages is not None
    _, known = attempts.bases(frames, params)
    found = frames.slow if frames.slow is not None else top(frames, params)
    records = for_targets(frames.messages, "stored_ms", params, LOOKBACK_HOURS["messages"]).select(
        "target", F.col("topic").alias("stored_topic"), "queue", "offset", "message_id"
    )
    ids = (
        records.join(F.broadcast(found.select(*PLACE).distinct()), PLACE)
        .groupBy(*PLACE)
        .agg(F.max("message_id").alias("message_id"))
    )
    return (
        found.join(ids, PLACE, "left")
        .join(F.broadcast(attempts.clients(known)), "client_hash", "left")
        .withColumn("message_id", F.coalesce("message_id", F.lit("")))
        .withColumn("client", F.coalesce("client", F.lit("")))
        .withColumn("hour", hour_name(F.col("target")))
    )


def top(frames: Frames, params: Params) -> "DataFrame":
    """The attempts that the table is made of, ranked."""
    base, known = attempts.bases(frames, params)
    taken = base.where(attempts.is_in_target("acked_ms") & F.col("born_ms").isNotNull())
    timed = taken.withColumn("end_to_end_ms", F.col("acked_ms") - F.col("born_ms"))
    near = timed.join(F.broadcast(_bounds(frames, params)), ["target", "cell"]).where(
        F.expr(bucket_sql("end_to_end_ms")) >= F.col("bound")
    )
    found = attempts.named(attempts.with_origins(near, known, frames, params), known)
    slow = found.withColumn("end_to_end_ms", F.greatest("end_to_end_ms", F.lit(0)))
    order = [F.desc("end_to_end_ms"), *(F.asc(name) for name in PLACE)]
    return ranked(slow, CELL, order).where(F.col("rank") <= params.slowest_max)


def _bounds(frames: Frames, params: Params) -> "DataFrame":
    """The bucket that the slowest of each cell lie in or above: few rows need to be sorted."""
    values = frames.values if frames.values is not None else latency.values(frames, params)
    by_bucket = (
        values.where((F.col("metric") == END_TO_END) & F.col("cell").isNotNull())
        .groupBy("target", "cell", "topic", "bucket")
        .agg(F.sum("n").alias("n"))
    )
    from_above = Window.partitionBy("target", "cell", "topic").orderBy(F.desc("bucket"))
    seen = by_bucket.withColumn("above", F.sum("n").over(from_above) - F.col("n"))
    return (
        seen.where(F.col("above") < params.slowest_max)
        .groupBy("target", "cell")
        .agg(F.min("bucket").alias("bound"))
    )
