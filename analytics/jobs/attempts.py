"""What became of each message that was handed out: a row for each group and place in a queue.

The base of the latencies, of the slowest messages and of unfinished attempts; computed once. The
rows are many, so names stand in a small frame beside (`places`) and the rows hold hashes of them:
Spark aggregates numbers several times faster than texts.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.columns import for_targets, hour_of, is_retry, origins
from analytics.jobs.definitions import ALL, ENDS, Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELIVERED, ACKED = "delivered", "acked"
NAMES = ("group", "topic", "queue")


def build(frames: Frames, params: Params) -> "DataFrame":
    """Rows by target hour, place (a hash) and offset.

    Times (NULL if there was none within the target hour and the one before): `opened_ms` first
    delivery of attempt 1, `delivered_ms` last delivery, `acked_ms` first acknowledgement,
    `ended_ms` last end of an attempt. `client_hash` is of the client that got the last delivery.
    """
    at = F.col("at_ms")
    is_delivered = F.col("kind") == DELIVERED
    delivered_ms = F.when(is_delivered, at)
    last = F.col("first_offset") + F.col("message_count") - 1
    rows = for_targets(_taken(frames), "at_ms", params, LOOKBACK_HOURS["trace"]).select(
        "target",
        _place(),
        F.explode(F.sequence("first_offset", last)).alias("offset"),
        F.when(is_delivered & (F.col("attempt") == 1), at).alias("opened_ms"),
        delivered_ms.alias("delivered_ms"),
        F.when(F.col("kind") == ACKED, at).alias("acked_ms"),
        F.when(~is_delivered, at).alias("ended_ms"),
        "attempt",
        "born_ms",
        "stored_ms",
        F.when(is_delivered, F.xxhash64("client")).alias("client_hash"),
        "sample",
    )
    return rows.groupBy("target", "place", "offset").agg(
        F.min("opened_ms").alias("opened_ms"),
        F.max_by("client_hash", "delivered_ms").alias("client_hash"),
        *(F.max(name).alias(name) for name in ("delivered_ms", "ended_ms", "born_ms")),
        *(F.max(name).alias(name) for name in ("stored_ms", "attempt")),
        *(F.min(name).alias(name) for name in ("acked_ms", "sample")),
    )


def places(frames: Frames, params: Params) -> "DataFrame":
    """The names behind the hashes: place, group, topic, queue, client_hash, client."""
    return (
        for_targets(_taken(frames), "at_ms", params, LOOKBACK_HOURS["trace"])
        .select(*NAMES, "client")
        .distinct()
        .select(_place(), *NAMES, F.xxhash64("client").alias("client_hash"), "client")
    )


def bases(frames: Frames, params: Params) -> "tuple[DataFrame, DataFrame]":
    """Attempts and places, made here unless they are kept already."""
    rows = frames.attempts if frames.attempts is not None else build(frames, params)
    known = frames.places if frames.places is not None else places(frames, params)
    return rows, known


def queues(known: "DataFrame") -> "DataFrame":
    """Each place once."""
    return known.select("place", *NAMES).distinct()


def clients(known: "DataFrame") -> "DataFrame":
    """Each client once, by its hash."""
    return known.where(F.col("client") != "").select("client_hash", "client").distinct()


def plain(rows: "DataFrame", known: "DataFrame") -> "DataFrame":
    """Rows of places that are no retry topic's, still without names."""
    retries = queues(known).where(is_retry()).select("place")
    return rows.join(F.broadcast(retries), "place", "left_anti")


def retried(rows: "DataFrame", known: "DataFrame", frames: Frames, params: Params) -> "DataFrame":
    """Rows of retry topics: `topic` is where the message came from, if that is known."""
    assert frames.messages is not None
    retries = queues(known).where(is_retry())
    origin = origins(frames.messages, params, LOOKBACK_HOURS["messages"])
    return (
        rows.join(F.broadcast(retries), "place")
        .join(origin, ["target", "topic", "queue", "offset"], "left")
        .withColumn("stored_topic", F.col("topic"))
        .withColumn("topic", F.coalesce("origin_topic", "topic"))
        .drop("origin_topic")
    )


def named(rows: "DataFrame", known: "DataFrame", frames: Frames, params: Params) -> "DataFrame":
    """Some rows with group, topic (the origin of a retry), stored_topic and queue."""
    others = (
        plain(rows, known)
        .join(F.broadcast(queues(known)), "place")
        .withColumn("stored_topic", F.col("topic"))
    )
    return others.unionByName(retried(rows, known, frames, params))


def is_in_target(clock: str) -> "Column":
    """Whether something happened in the hour that is computed, not in the one before."""
    return hour_of(clock) == F.col("target")


def weight() -> "Column":
    """How many messages a row stands for."""
    return F.lit(float(ALL)) / F.col("sample")


def unmatched(rows: "DataFrame") -> "DataFrame":
    """Acknowledgements of the hour whose delivery is not there: no latency is known of them."""
    return rows.where(is_in_target("acked_ms") & F.col("delivered_ms").isNull())


def _taken(frames: Frames) -> "DataFrame":
    assert frames.trace is not None
    return frames.trace.where(
        F.col("kind").isin(DELIVERED, *ENDS) & F.col("first_offset").isNotNull()
    )


def _place() -> "Column":
    return F.xxhash64(*NAMES).alias("place")
