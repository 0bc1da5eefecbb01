"""What the trace rows count up to, by everything that has a name: small, and read once.

The counts of events and the names behind the hashes of attempts are both taken from it.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.columns import hour_of, since, weight
from analytics.jobs.definitions import FAILURE_KINDS, TRACED_KINDS, Frames, Params
from analytics.results import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAMES = ["happened", "kind", "group", "topic", "client", "is_placed", "is_retried", "reason"]


def build(frames: Frames, params: Params) -> "DataFrame":
    """By NAMES (`happened` is the hour's number): messages, counted.

    Of the wanted hours and those before them that attempts reach into.
    """
    assert frames.trace is not None
    rows = since(frames.trace, "at_ms", params, LOOKBACK_HOURS["trace"])
    return (
        rows.where(F.col("kind").isin(*TRACED_KINDS))
        .select(
            hour_of("at_ms").alias("happened"),
            "kind",
            "group",
            "topic",
            "client",
            F.col("first_offset").isNotNull().alias("is_placed"),
            (F.coalesce("attempt", F.lit(0)) > 1).alias("is_retried"),
            reason(),
            "message_count",
            "sample",
        )
        .groupBy(*NAMES)
        .agg(
            F.sum(F.col("message_count") * weight()).alias("messages"),
            F.sum("message_count").alias("counted"),
        )
    )


def reason() -> "Column":
    """Why, of what is a failure."""
    is_failure = F.col("kind").isin(*FAILURE_KINDS)
    return F.when(is_failure, F.col("detail")).otherwise("").alias("reason")
