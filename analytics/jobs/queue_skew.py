"""How evenly the queues of a topic are filled."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from analytics.jobs import stored
from analytics.jobs.columns import hour_name
from analytics.jobs.definitions import Frames, Params

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `queue_skew`."""
    records = frames.stored if frames.stored is not None else stored.build(frames, params)
    counted = (
        records.where(F.col("role") == "message")
        .groupBy("target", "topic", "queue")
        .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
    )
    topic = Window.partitionBy("target", "topic")
    whole = F.sum("messages").over(topic)
    return (
        counted.withColumn("queues", F.count("*").over(topic).cast("int"))
        .withColumn("share", F.col("messages") / whole)
        .withColumn("skew", F.col("messages") / F.avg("messages").over(topic))
        .withColumn("hour", hour_name(F.col("target")))
    )
