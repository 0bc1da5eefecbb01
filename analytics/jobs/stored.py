"""What was stored, counted, and how long storing took: the base of several tables; small."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.hist import bucket_sql
from analytics.jobs.columns import in_hours
from analytics.jobs.definitions import BROKER, LATENESS_TIMER, Frames, Params

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMES = ["target", "role", "topic", "queue", "origin_topic", "group", "metric", "bucket"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """By NAMES: messages, bytes; and of the latency `metric`, if there is one, its values.

    `total`, `least`, `most` and `skewed` are of the values in `bucket`; `metric` and `bucket` are
    NULL for records that tell of no latency.
    """
    assert frames.messages is not None
    stored, is_message = F.col("stored_ms"), F.col("role") == "message"
    released = is_message & F.col("due_ms").isNotNull() & F.col("delay_level").isNull()
    is_new = (
        is_message
        & (F.col("source_topic") == "")
        & (F.col("redriven_job") == "")
        & ~F.col("is_transaction")
    )
    value = F.when(released, stored - F.col("due_ms")).when(is_new, stored - F.col("born_ms"))
    told = in_hours(frames.messages, "stored_ms", params).select(
        *NAMES[:6],
        F.when(released, LATENESS_TIMER).when(is_new, BROKER).alias("metric"),
        value.alias("value"),
        F.col("size_bytes").cast("bigint").alias("size_bytes"),
    )
    some = F.greatest("value", F.lit(0))
    some = F.when(F.col("value").isNotNull(), some)
    return (
        told.withColumn("bucket", F.expr(bucket_sql("value")))
        .groupBy(*NAMES)
        .agg(
            F.count("*").alias("messages"),
            F.sum("size_bytes").alias("bytes"),
            F.sum(some).alias("total"),
            F.min(some).alias("least"),
            F.max(some).alias("most"),
            F.sum((F.col("value") < 0).cast("bigint")).alias("skewed"),
        )
    )
