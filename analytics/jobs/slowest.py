"""The messages that took longest from their birth to their acknowledgement."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs import attempts
from analytics.jobs.columns import for_targets, hour_name, ranked
from analytics.jobs.definitions import Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "topic", "group"]
PLACE = ["target", "stored_topic", "queue", "offset"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """The table `slowest`."""
    assert frames.messages is not None
    base = frames.attempts if frames.attempts is not None else attempts.build(frames, params)
    taken = base.where(attempts.is_in_target("acked_ms") & F.col("born_ms").isNotNull())
    slow = taken.withColumn(
        "end_to_end_ms", F.greatest(F.col("acked_ms") - F.col("born_ms"), F.lit(0))
    )
    order = [F.desc("end_to_end_ms"), *(F.asc(name) for name in PLACE)]
    top = ranked(slow, CELL, order).where(F.col("rank") <= params.slowest_max)
    records = for_targets(frames.messages, "stored_ms", params, LOOKBACK_HOURS["messages"]).select(
        "target", F.col("topic").alias("stored_topic"), "queue", "offset", "message_id"
    )
    found = (
        records.join(F.broadcast(top.select(*PLACE).distinct()), PLACE)
        .groupBy(*PLACE)
        .agg(F.max("message_id").alias("message_id"))
    )
    return (
        top.join(found, PLACE, "left")
        .join(F.broadcast(attempts.clients(frames)), "client_hash", "left")
        .withColumn("message_id", F.coalesce("message_id", F.lit("")))
        .withColumn("client", F.coalesce("client", F.lit("")))
        .withColumn("hour", hour_name(F.col("target")))
    )
