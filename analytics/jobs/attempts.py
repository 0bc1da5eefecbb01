"""What became of each message that was handed out: a row for each group and place in a queue.

The base of the latencies, of the slowest messages and of unfinished attempts; computed once.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.columns import for_targets, hour_of, origins, weight, with_origin
from analytics.jobs.definitions import ENDS, Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELIVERED, ACKED = "delivered", "acked"


def build(frames: Frames, params: Params) -> "DataFrame":
    """Rows by target hour, group, stored_topic, queue and offset; `topic` is the origin.

    Times (NULL if there was none within the target hour and the one before): `opened_ms` first
    delivery of attempt 1, `delivered_ms` last delivery, `acked_ms` first acknowledgement, `ended_ms`
    last end of an attempt. `client` is a hash (`clients`).
    """
    assert frames.trace is not None and frames.messages is not None
    at = F.col("at_ms")
    is_delivered, is_acked = F.col("kind") == DELIVERED, F.col("kind") == ACKED
    rows = (
        _exploded(frames.trace, params)
        .groupBy("target", "group", "topic", "queue", "offset")
        .agg(
            F.min(F.when(is_delivered & (F.col("attempt") == 1), at)).alias("opened_ms"),
            F.max(F.when(is_delivered, at)).alias("delivered_ms"),
            F.min(F.when(is_acked, at)).alias("acked_ms"),
            F.max(F.when(~is_delivered, at)).alias("ended_ms"),
            F.max("born_ms").alias("born_ms"),
            F.max("stored_ms").alias("stored_ms"),
            F.max("attempt").alias("attempt"),
            F.max_by("client_hash", F.when(is_delivered, at)).alias("client_hash"),
            F.max("weight").alias("weight"),
        )
    )
    return with_origin(rows, origins(frames.messages, params, LOOKBACK_HOURS["messages"]))


def clients(frames: Frames) -> "DataFrame":
    """The clients that took deliveries, by their hash."""
    assert frames.trace is not None
    taken = frames.trace.where(F.col("kind") == DELIVERED)
    return taken.select(F.xxhash64("client").alias("client_hash"), "client").distinct()


def is_in_target(clock: str) -> "Column":
    """Whether something happened in the hour that is computed, not in the one before."""
    return hour_of(clock) == F.col("target")


def unmatched(attempts: "DataFrame") -> "DataFrame":
    """Acknowledgements of the hour whose delivery is not there: no latency is known of them."""
    return attempts.where(is_in_target("acked_ms") & F.col("delivered_ms").isNull())


def _exploded(trace: "DataFrame", params: Params) -> "DataFrame":
    taken = trace.where(F.col("kind").isin(DELIVERED, *ENDS) & F.col("first_offset").isNotNull())
    last = F.col("first_offset") + F.col("message_count") - 1
    return for_targets(taken, "at_ms", params, LOOKBACK_HOURS["trace"]).select(
        "target",
        "group",
        "topic",
        "queue",
        F.explode(F.sequence("first_offset", last)).alias("offset"),
        "kind",
        "at_ms",
        "attempt",
        "born_ms",
        "stored_ms",
        F.xxhash64("client").alias("client_hash"),
        weight().alias("weight"),
    )
