"""What became of each message that was handed out: a row for each group and place in a queue.

The base of the latencies, of the slowest messages and of unfinished attempts; computed once. The
rows are many, so names stand in a small frame beside (`names`) and the rows hold hashes of them:
Spark aggregates numbers several times faster than texts.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs import activity
from analytics.jobs.columns import for_targets, hour_of, is_retry, origins
from analytics.jobs.definitions import ALL, ENDS, Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELIVERED, ACKED = "delivered", "acked"
NAMES = ("group", "topic")
KEY = ("target", "cell", "queue", "offset")


def build(frames: Frames, params: Params) -> "DataFrame":
    """Rows by target hour, cell (a hash of group and topic), queue and offset.

    Times (NULL if there was none within the target hour and the one before): `opened_ms` first
    delivery of attempt 1, `delivered_ms` last delivery, `acked_ms` first acknowledgement,
    `ended_ms` last end of an attempt. `client_hash` is of the client that got the last delivery.
    """
    assert frames.trace is not None
    at = F.col("at_ms")
    is_delivered = F.col("kind") == DELIVERED
    taken = frames.trace.where(
        F.col("kind").isin(DELIVERED, *ENDS) & F.col("first_offset").isNotNull()
    )
    rows = for_targets(taken, "at_ms", params, LOOKBACK_HOURS["trace"]).select(
        "target",
        cell(),
        "queue",
        F.explode(offsets()).alias("offset"),
        F.when(is_delivered & (F.col("attempt") == 1), at).alias("opened_ms"),
        F.when(is_delivered, at).alias("delivered_ms"),
        F.when(F.col("kind") == ACKED, at).alias("acked_ms"),
        F.when(~is_delivered, at).alias("ended_ms"),
        "attempt",
        "born_ms",
        "stored_ms",
        F.when(is_delivered, F.xxhash64("client")).alias("client_hash"),
        "sample",
    )
    return rows.groupBy(*KEY).agg(
        F.min("opened_ms").alias("opened_ms"),
        F.max_by("client_hash", "delivered_ms").alias("client_hash"),
        *(F.max(name).alias(name) for name in ("delivered_ms", "ended_ms", "born_ms")),
        *(F.max(name).alias(name) for name in ("stored_ms", "attempt")),
        *(F.min(name).alias(name) for name in ("acked_ms", "sample")),
    )


def offsets() -> "Column":
    """The offsets of a row's run; most runs are of one message."""
    first, count = F.col("first_offset"), F.col("message_count")
    return F.when(count == 1, F.array(first)).otherwise(F.sequence(first, first + count - 1))


def cell() -> "Column":
    """A hash of group and topic; odd for a retry topic's."""
    hashed = F.xxhash64(*NAMES).bitwiseAND(F.lit(-2))
    return hashed.bitwiseOR(is_retry().cast("bigint")).alias("cell")


def names(frames: Frames, params: Params) -> "DataFrame":
    """The names behind the hashes: cell, group, topic, client_hash, client."""
    known = frames.activity if frames.activity is not None else activity.build(frames, params)
    return (
        known.where(F.col("kind").isin(DELIVERED, *ENDS) & F.col("is_placed"))
        .select(*NAMES, "client")
        .distinct()
        .select(cell(), *NAMES, F.xxhash64("client").alias("client_hash"), "client")
    )


def bases(frames: Frames, params: Params) -> "tuple[DataFrame, DataFrame]":
    """Attempts and names, made here unless they are kept already."""
    rows = frames.attempts if frames.attempts is not None else build(frames, params)
    known = frames.names if frames.names is not None else names(frames, params)
    return rows, known


def cells(known: "DataFrame") -> "DataFrame":
    """Each cell once."""
    return known.select("cell", *NAMES).distinct()


def clients(known: "DataFrame") -> "DataFrame":
    """Each client once, by its hash."""
    return known.where(F.col("client") != "").select("client_hash", "client").distinct()


def with_origins(
    rows: "DataFrame", known: "DataFrame", frames: Frames, params: Params
) -> "DataFrame":
    """The same with `origin_topic`: of a retry, where its message came from; NULL if unknown."""
    assert frames.messages is not None
    is_odd = F.col("cell").bitwiseAND(F.lit(1)) == 1
    groups = cells(known).where(is_retry())
    origin = origins(frames.messages, params, LOOKBACK_HOURS["messages"])
    retried = (
        rows.where(is_odd)
        .join(F.broadcast(groups), "cell")
        .join(origin, ["target", "topic", "queue", "offset"], "left")
    )
    plain = rows.where(~is_odd).withColumn("origin_topic", F.lit(None).cast("string"))
    return plain.unionByName(retried.select(*plain.columns))


def named(rows: "DataFrame", known: "DataFrame") -> "DataFrame":
    """Few rows with origins: with group, topic (the origin of a retry), stored_topic."""
    return (
        rows.join(F.broadcast(cells(known)), "cell")
        .withColumn("stored_topic", F.col("topic"))
        .withColumn("topic", F.coalesce("origin_topic", "topic"))
        .drop("origin_topic")
    )


def is_in_target(clock: str) -> "Column":
    """Whether something happened in the hour that is computed, not in the one before."""
    return hour_of(clock) == F.col("target")


def weight() -> "Column":
    """How many messages a row stands for."""
    return F.lit(float(ALL)) / F.col("sample")
