"""Latencies as histograms, a row for each hour, metric, topic, group (and client): mergeable."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from analytics.hist import GAMMA, bucket_sql
from analytics.jobs import attempts, stored
from analytics.jobs.columns import for_targets, hour_name, in_hours, ranked, scaled, weight
from analytics.jobs.definitions import (
    DECIDED,
    DECISION,
    END_TO_END,
    HOUR_MS,
    LATENESS_LEVEL,
    METRICS,
    OTHERS,
    PROCESS,
    UNFINISHED,
    UNMATCHED,
    WAIT,
    Frames,
    Params,
)
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CELL = ["target", "metric", "topic", "group", "client"]
MEASURED = (END_TO_END, WAIT, PROCESS, UNFINISHED, UNMATCHED)
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `latency`."""
    _, known = attempts.bases(frames, params)
    counted = frames.values if frames.values is not None else values(frames, params)
    told = counted.where(F.col("metric").isin(*METRICS))
    return _cells(_with_clients(told, known, params))


def values(frames: Frames, params: Params) -> "DataFrame":
    """Counts by target, metric, topic, group, cell, client_hash and bucket; small.

    `cell` and `client_hash` are NULL where they do not apply. The metrics are METRICS, UNFINISHED
    and UNMATCHED.
    """
    rows, known = attempts.bases(frames, params)
    names = attempts.cells(known).withColumnRenamed("topic", "own_topic")
    measured = _measured(attempts.with_origins(rows, known, frames, params), params)
    # Numbers first, names for the few rows that are left.
    few = (
        _counted(measured, ["cell", "origin_topic"])
        .join(F.broadcast(names), "cell")
        .withColumn("metric", F.element_at(F.array(*map(F.lit, MEASURED)), F.col("metric") + 1))
        .withColumn("topic", F.coalesce("origin_topic", "own_topic"))
        .drop("origin_topic", "own_topic")
    )
    others = _of_levels(frames, params).unionByName(_of_decisions(frames, params))
    told = few.unionByName(_counted(others, ["topic", "group"]), allowMissingColumns=True)
    return told.unionByName(_of_stored(frames, params), allowMissingColumns=True)


def _counted(rows: "DataFrame", by: list[str]) -> "DataFrame":
    value = F.greatest("value", F.lit(0))
    return (
        rows.withColumn("bucket", F.expr(bucket_sql("value")))
        .groupBy("target", "metric", *by, "client_hash", "bucket")
        .agg(
            F.count("*").alias("n"),
            F.sum("weight").alias("weight"),
            F.sum(value).alias("total"),
            F.min(value).alias("least"),
            F.max(value).alias("most"),
            F.sum((F.col("value") < 0).cast("bigint")).alias("skewed"),
        )
    )


def _measured(rows: "DataFrame", params: Params) -> "DataFrame":
    """What each attempt tells, a row for each metric (its number in MEASURED)."""
    acked, delivered, ended = F.col("acked_ms"), F.col("delivered_ms"), F.col("ended_ms")
    is_acked = attempts.is_in_target("acked_ms")
    due = delivered + params.unfinished_s * 1000
    is_open = ended.isNull() | (ended < delivered)
    hour = F.col("target") * HOUR_MS
    is_due = (due >= hour) & (due < hour + HOUR_MS) & (due < params.at_ms)
    zero = F.lit(0).cast("bigint")
    told = {
        END_TO_END: F.when(is_acked, acked - F.col("born_ms")),
        WAIT: F.when(attempts.is_in_target("opened_ms"), F.col("opened_ms") - F.col("stored_ms")),
        PROCESS: F.when(is_acked & (delivered <= acked), acked - delivered),
        UNFINISHED: F.when(is_due & is_open, zero),
        UNMATCHED: F.when(is_acked & delivered.isNull(), zero),
    }
    pairs = [part for number, name in enumerate(MEASURED) for part in (F.lit(number), told[name])]
    each = rows.select(
        "target",
        "cell",
        "origin_topic",
        attempts.weight().alias("weight"),
        "client_hash",
        F.stack(F.lit(len(told)), *pairs).alias("metric", "value"),
    ).where(F.col("value").isNotNull())
    client = F.when(F.col("metric") == MEASURED.index(PROCESS), F.col("client_hash"))
    return each.withColumn("client_hash", client)


def _of_stored(frames: Frames, params: Params) -> "DataFrame":
    """What the records alone tell: how fast they were stored, and how late they were released."""
    base = frames.stored if frames.stored is not None else stored.build(frames, params)
    return base.where(F.col("bucket").isNotNull()).select(
        "target",
        "metric",
        F.col("origin_topic").alias("topic"),
        F.lit("").alias("group"),
        "bucket",
        F.col("messages").alias("n"),
        F.col("messages").cast("double").alias("weight"),
        "total",
        "least",
        "most",
        "skewed",
    )


def _of_levels(frames: Frames, params: Params) -> "DataFrame":
    """Releases by a delay level: due as the record says that they replaced."""
    assert frames.messages is not None
    place = ["target", "source_topic", "source_queue", "source_offset"]
    waiting = frames.messages.where((F.col("role") == "delayed") & F.col("due_ms").isNotNull())
    due = (
        for_targets(waiting, "stored_ms", params, LOOKBACK_HOURS["messages"])
        .groupBy(
            "target",
            F.col("topic").alias("source_topic"),
            F.col("queue").alias("source_queue"),
            F.col("offset").alias("source_offset"),
        )
        .agg(F.max("due_ms").alias("level_due_ms"))
    )
    is_level = F.col("delay_level").isNotNull() & F.col("role").isin("message", "retry")
    rows = in_hours(frames.messages.where(is_level), "stored_ms", params).join(due, place)
    return rows.select(
        "target",
        F.lit(LATENESS_LEVEL).alias("metric"),
        F.col("origin_topic").alias("topic"),
        "group",
        F.lit(None).cast("bigint").alias("client_hash"),
        (F.col("stored_ms") - F.col("level_due_ms")).alias("value"),
        F.lit(1.0).alias("weight"),
    )


def _of_decisions(frames: Frames, params: Params) -> "DataFrame":
    assert frames.trace is not None
    assert frames.messages is not None
    halves = (
        for_targets(
            frames.messages.where(F.col("role") == "half"),
            "stored_ms",
            params,
            LOOKBACK_HOURS["messages"],
        )
        .groupBy("target", F.col("queue").alias("queue"), F.col("offset").alias("first_offset"))
        .agg(F.max("stored_ms").alias("half_ms"), F.max("target_topic").alias("half_topic"))
    )
    taken = frames.trace.where(F.col("kind").isin(*DECIDED)).drop("topic", "stored_ms")
    rows = in_hours(taken, "at_ms", params).join(halves, ["target", "queue", "first_offset"])
    return rows.select(
        "target",
        F.lit(DECISION).alias("metric"),
        F.col("half_topic").alias("topic"),
        "group",
        F.lit(None).cast("bigint").alias("client_hash"),
        (F.col("at_ms") - F.col("half_ms")).alias("value"),
        weight().alias("weight"),
    )


def _with_clients(buckets: "DataFrame", known: "DataFrame", params: Params) -> "DataFrame":
    """Names for the busiest clients of each cell, OTHERS for the rest; "" where none is asked."""
    within = ["target", "metric", "topic", "group"]
    per_client = (
        buckets.where(F.col("client_hash").isNotNull())
        .groupBy(*within, "client_hash")
        .agg(F.sum("n").alias("of_client"))
        .join(F.broadcast(attempts.clients(known)), "client_hash")
    )
    busiest = ranked(per_client, within, [F.desc("of_client"), F.asc("client")])
    kept = busiest.where(F.col("rank") <= params.clients_max).select(
        *within, "client_hash", "client"
    )
    named = buckets.join(kept, [*within, "client_hash"], "left")
    none = F.when(F.col("client_hash").isNull(), "").otherwise(OTHERS)
    return named.withColumn("client", F.coalesce("client", none))


def _cells(buckets: "DataFrame") -> "DataFrame":
    each = buckets.groupBy(*CELL, "bucket").agg(
        *(F.sum(name).alias(name) for name in ("n", "weight", "total", "skewed")),
        F.min("least").alias("least"),
        F.max("most").alias("most"),
    )
    cell = Window.partitionBy(*CELL)
    known = each.withColumn("seen", F.sum("n").over(cell.orderBy("bucket"))).withColumn(
        "of_cell", F.sum("n").over(cell)
    )
    packed = F.array_join(
        F.transform(
            F.sort_array(F.collect_list(F.struct("bucket", "n"))),
            lambda pair: F.concat(
                F.lit('"'), pair["bucket"].cast("string"), F.lit('":'), pair["n"].cast("string")
            ),
        ),
        ",",
    )
    return (
        known.groupBy(*CELL)
        .agg(
            F.sum("n").alias("n"),
            scaled(F.col("weight")).alias("messages"),
            F.sum("total").alias("total"),
            F.min("least").alias("least"),
            F.max("most").alias("most"),
            F.sum("skewed").alias("skewed"),
            *(_percentile(share).alias(name) for name, share in SHARES.items()),
            F.concat(F.lit("{"), packed, F.lit("}")).alias("buckets"),
        )
        .withColumn("hour", hour_name(F.col("target")))
    )


def _percentile(share: float) -> "Column":
    """As `hist.percentile`: the middle of the first bucket that so many do not exceed."""
    wanted = F.greatest(F.lit(1), F.ceil(F.lit(share) * F.col("of_cell") - 1e-9))
    found = F.min(F.when(F.col("seen") >= wanted, F.col("bucket")))
    return F.pow(F.lit(GAMMA), found + 0.5)
