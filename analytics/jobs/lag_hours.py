"""A group on a topic, hour by hour: its worst queue, its hot queue, and the time in each state."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from analytics.jobs import lag_series
from analytics.jobs.columns import hour_name
from analytics.jobs.definitions import InputFrames, Params
from analytics.jobs.lag_rules import advice, severity, state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = ["target", "group", "topic"]
HOT_FACTOR, HOT_SHARE = 3, 0.2
WORST = ("queue", "committed", "risk_s", "slo_ms")


def build(frames: InputFrames, params: Params) -> "DataFrame":
    """The table `lag_hours`."""
    base = frames.series if frames.series is not None else lag_series.build(frames, params)
    rows = base.withColumn("severity", severity("state"))
    last = F.max("t").over(Window.partitionBy(*CELL))
    ends = _ends(rows.withColumn("last_t", last).where(F.col("t") == F.col("last_t")))
    joined = (
        ends.join(_hours(rows, params), CELL)
        .join(_states(rows, params), CELL)
        .join(_evaluated(rows), CELL, "left")
        .withColumn("evaluated", F.coalesce("evaluated", F.lit("[]")))
    )
    code, advice_params = advice(has_hot_queue=True)
    return (
        joined.withColumn("advice", code)
        .withColumn("advice_params", advice_params)
        .withColumn("hour", hour_name(F.col("target")))
    )


def _ends(rows: "DataFrame") -> "DataFrame":
    """The hour's last evaluation, all queues of a group on a topic taken together."""
    # Of equally bad queues the one that lags most, then the lowest number.
    order = F.struct(-F.col("severity"), "lag", -F.col("queue"))
    most = F.struct("lag", -F.col("queue"))
    lag, total = F.col("hot_lag"), F.col("lag")
    is_hot = (
        (F.col("queues") > 1) & (lag > HOT_FACTOR * F.col("median")) & (lag > HOT_SHARE * total)
    )
    ends = rows.groupBy(*CELL).agg(
        F.max("t").alias("at_ms"),
        F.count("*").cast("int").alias("queues"),
        F.min("severity").alias("severity"),
        *(F.max_by(name, order).alias(name) for name in WORST),
        F.max_by("queue", most).alias("most_queue"),
        F.max("lag").alias("hot_lag"),
        F.percentile("lag", 0.5).alias("median"),
        F.sum("lag").alias("lag"),
        F.max("time_lag_ms").alias("time_lag_ms"),
        F.sum("produce_per_s").alias("produce_per_s"),
        F.sum("consume_per_s").alias("consume_per_s"),
        F.max("eta_s").alias("eta_s"),
        F.max("retry_waiting").alias("retry_waiting"),
        F.max("dead").alias("dead"),
        F.max("members").alias("members"),
    )
    idle = F.greatest(F.col("members") - F.col("queues"), F.lit(0))
    return (
        ends.withColumn("state", state_of(F.col("severity")))
        .withColumn("worst_queue", F.col("queue"))
        .withColumn("hot_queue", F.when(is_hot, F.col("most_queue")))
        .withColumn("idle_members", idle.cast("int"))
        .drop("severity")
    )


def _hours(rows: "DataFrame", params: Params) -> "DataFrame":
    """What the whole hour saw."""
    by_time = rows.groupBy(*CELL, "t").agg(
        F.sum("lag").alias("lag_then"),
        F.max("time_lag_ms").alias("time_lag_then"),
        F.min("severity").alias("severity"),
        F.avg("completeness").alias("completeness"),
        F.sum("lost_step").alias("lost_then"),
    )
    rows_by_hour = by_time.groupBy(*CELL).agg(
        F.max("lag_then").alias("lag_max"),
        F.max("time_lag_then").alias("time_lag_max_ms"),
        F.min("severity").alias("severity"),
        F.count("*").cast("int").alias("evaluations"),
        F.sum("lost_then").alias("lost"),
        F.sum("completeness").alias("covered"),
    )
    return (
        rows_by_hour.withColumn("worst_state", state_of(F.col("severity")))
        .withColumn("completeness", F.col("covered") / F.col("evaluations"))
        .drop("severity", "covered")
    )


def _states(rows: "DataFrame", params: Params) -> "DataFrame":
    per_state = rows.groupBy(*CELL, "state").agg(
        (F.count("*") * params.step_s * 1000).alias("state_ms")
    )
    entries = F.sort_array(F.collect_list(F.struct("state", "state_ms")))
    return per_state.groupBy(*CELL).agg(F.to_json(F.map_from_entries(entries)).alias("state_ms"))


def _evaluated(rows: "DataFrame") -> "DataFrame":
    """The stretches of the hour in which any queue was evaluated and sampled, in order."""
    begin, end = F.col("known_ms"), F.col("known_end_ms")
    before = Window.partitionBy(*CELL).orderBy("begin", "end")
    reach = F.max("end").over(before.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.when(F.col("begin") <= reach, 0).otherwise(1)
    parts = (
        rows.where(begin < end)
        .select(*CELL, begin.alias("begin"), end.alias("end"))
        .distinct()
        .withColumn("begins", begins)
        .withColumn("stretch", F.sum("begins").over(before))
    )
    whole = parts.groupBy(*CELL, "stretch").agg(F.array(F.min("begin"), F.max("end")).alias("pair"))
    pairs = F.sort_array(F.collect_list("pair"))
    return whole.groupBy(*CELL).agg(F.to_json(pairs).alias("evaluated"))
