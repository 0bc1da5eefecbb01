"""The most frequent keys, tags and message groups of what was stored: exact, none estimated."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.columns import hour_name, in_hours
from analytics.jobs.definitions import KEY, MESSAGE_GROUP, TAG, Frames, Params
from analytics.jobs.rest import most

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CELL = ["target", "topic", "kind"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `hot_keys`."""
    assert frames.messages is not None
    rows = in_hours(frames.messages.where(F.col("role") == "message"), "stored_ms", params)
    keys = rows.where(F.col("keys") != "")
    each = keys.select("target", "topic", "size_bytes", F.explode(_split()).alias("value"))
    counted = (
        _counted(each, "value", KEY)
        .unionByName(_counted(rows, "tag", TAG))
        .unionByName(_counted(rows, "message_group", MESSAGE_GROUP))
    )
    found = most(
        counted, CELL, "value", "values", sums=("messages", "bytes"), count_max=params.values_max
    )
    return found.withColumn("hour", hour_name(F.col("target")))


def _split() -> "Column":
    """The different keys of a message; most have one."""
    several = F.array_distinct(F.split("keys", " "))
    return F.when(F.instr("keys", " ") == 0, F.array("keys")).otherwise(several)


def _counted(rows: "DataFrame", name: str, kind: str) -> "DataFrame":
    return (
        rows.where(F.col(name) != "")
        .groupBy("target", "topic", F.col(name).alias("value"))
        .agg(
            F.count("*").alias("messages"),
            F.sum(F.col("size_bytes").cast("bigint")).alias("bytes"),
        )
        .withColumn("kind", F.lit(kind))
    )
