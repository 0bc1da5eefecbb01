"""Expressions and steps that several reports share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from analytics.jobs.definitions import ALL, HOUR_MS, RETRY_PREFIX, Params

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

UNIQUE = {
    "trace": ["log_position", "row_number"],
    "messages": ["log_position"],
    "lag": ["at_ms", "group", "topic", "queue"],
}
FORM = "yyyy-MM-dd'T'HH"
PLACE = ["target", "topic", "queue", "offset"]


def hour_of(clock: str) -> "Column":
    """The number of the hour since 1970 that a time in ms lies in."""
    return F.expr(f"`{clock}` div {HOUR_MS}")  # of whole numbers, not of doubles


def hour_name(number: "Column") -> "Column":
    """The name of an hour by its number."""
    return F.date_format(F.timestamp_seconds(number * 3600), FORM)


def in_hours(frame: "DataFrame", clock: str, params: Params) -> "DataFrame":
    """The rows of the wanted hours, `target` being their hour."""
    return for_targets(frame, clock, params, 0)


def for_targets(frame: "DataFrame", clock: str, params: Params, back: int) -> "DataFrame":
    """Every row once for each wanted hour that reads it: its own, and the `back` hours after it.

    So that an hour's result does not depend on which others are computed along with it.
    """
    rows = since(frame, clock, params, back)
    if len(params.hours) == 1:
        return rows.withColumn("target", F.lit(params.hours[0]).cast("bigint"))
    reads = [hour_of(clock) + later for later in range(back + 1)]
    target = F.explode(F.array(*reads)) if back else reads[0]
    return rows.withColumn("target", target).where(F.col("target").isin(*params.hours))


def since(frame: "DataFrame", clock: str, params: Params, back: int) -> "DataFrame":
    """The rows from `back` hours before the first wanted hour to the end of the last one."""
    begin, end = min(params.hours) - back, max(params.hours) + 1
    return frame.where((F.col(clock) >= begin * HOUR_MS) & (F.col(clock) < end * HOUR_MS))


def weight() -> "Column":
    """How many messages one traced message stands for."""
    return F.lit(float(ALL)) / F.col("sample")


def scaled(value: "Column") -> "Column":
    """A sum of weights as a count of messages."""
    return F.round(F.sum(value)).cast("bigint")


def is_retry(topic: str = "topic") -> "Column":
    """Whether a topic is the retry topic of a group."""
    return F.col(topic).startswith(RETRY_PREFIX)


def origins(messages: "DataFrame", params: Params, back: int) -> "DataFrame":
    """Where retries come from: target, topic, queue, offset of the retry, and its origin_topic."""
    retries = messages.where((F.col("role") == "retry") & (F.col("origin_topic") != ""))
    return (
        for_targets(retries, "stored_ms", params, back)
        .groupBy(*PLACE)
        .agg(F.max_by("origin_topic", "stored_ms").alias("origin_topic"))
    )


def ranked(frame: "DataFrame", within: Sequence[str], order: "Sequence[Column]") -> "DataFrame":
    """The same with `rank`, 1 for the first of each cell."""
    return frame.withColumn(
        "rank", F.row_number().over(Window.partitionBy(*within).orderBy(*order))
    )
