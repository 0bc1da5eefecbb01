"""Expressions and steps that the tables of lag share."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.definitions import HOUR_MS, Params

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FORM = "yyyy-MM-dd'T'HH"


def hour_of(clock: str) -> "Column":
    """The number of the hour since 1970 that a time in ms lies in."""
    return F.expr(f"`{clock}` div {HOUR_MS}")  # of whole numbers, not of doubles


def hour_name(number: "Column") -> "Column":
    """The name of an hour by its number."""
    return F.date_format(F.timestamp_seconds(number * 3600), FORM)


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
