"""How long each queue was in which state, for states other than OK."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from analytics.jobs import lag_series
from analytics.jobs.columns import hour_name
from analytics.jobs.definitions import InputFrames, Params
from analytics.jobs.lag_rules import OK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def build(frames: InputFrames, params: Params) -> "DataFrame":
    """The table `lag_bands`."""
    base = frames.series if frames.series is not None else lag_series.build(frames, params)
    step_ms = params.step_s * 1000
    series = Window.partitionBy(*lag_series.SERIES).orderBy("t")
    # A queue that was not sampled for a while begins a new band.
    goes_on = (F.lag("state").over(series) == F.col("state")) & (
        F.lag("t").over(series) == F.col("t") - step_ms
    )
    begins = F.when(F.coalesce(goes_on, F.lit(False)), 0).otherwise(1)
    bands = base.withColumn("begins", begins).withColumn("band", F.sum("begins").over(series))
    return (
        bands.where(F.col("state") != OK)
        .groupBy(*lag_series.SERIES, "band", "state")
        .agg(
            F.min("t").alias("begin_ms"),
            (F.max("t") + step_ms).alias("end_ms"),
            F.max("lag").alias("lag_max"),
            F.max("time_lag_ms").alias("time_lag_max_ms"),
        )
        .withColumn("hour", hour_name(F.col("target")))
    )
