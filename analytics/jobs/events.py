"""What happened, counted: the base of throughput, outcomes and failures; small, computed once."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.columns import in_hours, is_retry, origins, weight, with_origin
from analytics.jobs.definitions import FAILURE_KINDS, TRACED_KINDS, Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "kind", "topic", "group", "is_retried", "reason"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """target, kind, topic (the origin), group, is_retried, reason; messages (DOUBLE), counted."""
    assert frames.trace is not None
    assert frames.messages is not None
    reason = F.when(F.col("kind").isin(*FAILURE_KINDS), F.col("detail")).otherwise("")
    rows = (
        in_hours(frames.trace.where(F.col("kind").isin(*TRACED_KINDS)), "at_ms", params)
        .withColumn("reason", reason)
        .withColumn("is_retried", F.coalesce(F.col("attempt") > 1, F.lit(False)))
    )
    known = origins(frames.messages, params, LOOKBACK_HOURS["messages"])
    is_placed_retry = is_retry() & F.col("first_offset").isNotNull()
    plain = rows.where(~is_placed_retry).withColumn("stands_for", F.col("message_count"))
    # A run of retries may come from several topics: one row for each message.
    last = F.col("first_offset") + F.col("message_count") - 1
    each = rows.where(is_placed_retry).withColumn(
        "offset", F.explode(F.sequence("first_offset", last))
    )
    retried = with_origin(each.withColumn("stands_for", F.lit(1).cast("bigint")), known)
    wanted = [*CELL, "stands_for", "sample"]
    return (
        plain.select(*wanted)
        .unionByName(retried.select(*wanted))
        .groupBy(*CELL)
        .agg(
            F.sum(F.col("stands_for") * weight()).alias("messages"),
            F.sum("stands_for").alias("counted"),
        )
    )
