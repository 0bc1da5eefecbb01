"""What happened, counted: the base of throughput, outcomes and failures; small, computed once."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs import activity
from analytics.jobs.attempts import offsets
from analytics.jobs.columns import PLACE, in_hours, is_retry, origins, weight
from analytics.jobs.definitions import TRACED_KINDS, Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "kind", "topic", "group", "is_retried", "reason"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """target, kind, topic (the origin), group, is_retried, reason; messages (DOUBLE), counted."""
    known = frames.activity if frames.activity is not None else activity.build(frames, params)
    is_plain = ~(is_retry() & F.col("is_placed"))
    plain = known.where(is_plain).withColumn("target", F.col("happened"))
    wanted = plain.where(F.col("target").isin(*params.hours))
    rows = wanted.select(*CELL, "messages", "counted").unionByName(_retried(frames, params))
    return rows.groupBy(*CELL).agg(
        F.sum("messages").alias("messages"), F.sum("counted").alias("counted")
    )


def _retried(frames: Frames, params: Params) -> "DataFrame":
    """A run of retries may come from several topics: one row for each message."""
    assert frames.trace is not None
    assert frames.messages is not None
    taken = frames.trace.where(
        is_retry() & F.col("first_offset").isNotNull() & F.col("kind").isin(*TRACED_KINDS)
    )
    each = (
        in_hours(taken, "at_ms", params)
        .withColumn("reason", activity.reason())
        .withColumn("is_retried", F.coalesce("attempt", F.lit(0)) > 1)
        .withColumn("offset", F.explode(offsets()))
    )
    origin = origins(frames.messages, params, LOOKBACK_HOURS["messages"])
    found = each.join(origin, PLACE, "left").withColumn(
        "topic", F.coalesce("origin_topic", "topic")
    )
    return found.select(*CELL, weight().alias("messages"), F.lit(1).cast("bigint").alias("counted"))
