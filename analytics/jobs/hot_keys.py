"""The most frequent keys, tags and message groups of what was stored: exact, none estimated."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.columns import hour_name, in_hours
from analytics.jobs.definitions import KEY, MESSAGE_GROUP, TAG, Frames, Params
from analytics.jobs.rest import most

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "topic", "kind"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `hot_keys`."""
    assert frames.messages is not None
    rows = in_hours(frames.messages.where(F.col("role") == "message"), "stored_ms", params)
    keys = F.transform(
        F.array_distinct(F.split("keys", " ")),
        lambda key: F.struct(F.lit(KEY).alias("kind"), key.alias("value")),
    )
    others = [
        F.struct(F.lit(kind).alias("kind"), F.col(name).alias("value"))
        for kind, name in ((TAG, "tag"), (MESSAGE_GROUP, "message_group"))
    ]
    each = rows.select(
        "target", "topic", "size_bytes", F.explode(F.concat(keys, F.array(*others))).alias("each")
    )
    counted = (
        each.select("target", "topic", "size_bytes", "each.*")
        .where(F.col("value") != "")
        .groupBy(*CELL, "value")
        .agg(
            F.count("*").alias("messages"),
            F.sum(F.col("size_bytes").cast("bigint")).alias("bytes"),
        )
    )
    found = most(
        counted, CELL, "value", "values", sums=("messages", "bytes"), count_max=params.values_max
    )
    return found.withColumn("hour", hour_name(F.col("target")))
