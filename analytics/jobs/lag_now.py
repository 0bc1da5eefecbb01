"""The newest evaluation of each queue, with all its figures."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from analytics.jobs import lag_series
from analytics.jobs.columns import hour_name
from analytics.jobs.definitions import HOUR_MS, InputFrames, Params
from analytics.jobs.lag_rules import advice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def newest_ms(params: Params) -> int:
    """When the newest evaluation is."""
    return params.at_ms - params.at_ms % (params.step_s * 1000)


def is_covered(params: Params) -> bool:
    """Whether the newest evaluation is one of this run's; else the table must stay as it is."""
    return newest_ms(params) // HOUR_MS in params.hours


def build(frames: InputFrames, params: Params) -> "DataFrame":
    """The table `lag_now`."""
    base = frames.series if frames.series is not None else lag_series.build(frames, params)
    rows = base.where(F.col("t") == newest_ms(params)).withColumn(
        "queues", F.count("*").over(Window.partitionBy("group", "topic")).cast("int")
    )
    code, advice_params = advice(has_hot_queue=False)
    return (
        rows.withColumn("advice", code)
        .withColumn("advice_params", advice_params)
        .withColumn("at_ms", F.col("t"))
        .withColumn("hour", hour_name(F.col("target")))
    )
