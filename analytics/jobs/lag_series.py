"""Every evaluation of every queue: figures of the window before it, and the state. The base of all
lag tables, computed once.

Each hour is evaluated together with the one before it, so that what is published depends on
nothing but these two, and on `previous` where the one before is missing.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from analytics.jobs.columns import for_targets
from analytics.jobs.definitions import HOUR_MS, InputFrames, Params
from analytics.jobs.lag_rules import AT_ONCE, ETA_FACTOR, TREND_SHARE, raw_state
from engine.report_hours import LOOKBACK_HOURS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SERIES = ["target", "group", "topic", "queue"]
GRACE_SAMPLES = 2
LAST = (
    "min_offset",
    "max_offset",
    "committed",
    "lag",
    "oldest_ms",
    "retry_waiting",
    "dead",
    "members",
    "active_ms",
)
FIRST = ("min_offset", "max_offset", "committed", "lag")


def build(frames: InputFrames, params: Params) -> "DataFrame":
    """Rows by target, group, topic, queue and `t` (ms, of the evaluation), only of the target hour.

    `raw_state` is what the rules say, `state` what is published, the rest figures. From `known_ms`
    to `known_end_ms` samples bear the state out; NULL where the step from `t` on has none.
    """
    samples = _steps(frames, params)
    windows = _windows(samples, params).join(_sampled(samples, params), [*SERIES, "t"], "left")
    figures = _figures(windows, params)
    series = Window.partitionBy(*SERIES).orderBy("t")
    series_rows = figures.withColumn("grew_before", F.lag("is_growing").over(series)).withColumn(
        "raw_state", raw_state(params)
    )
    return _published(series_rows, frames, params).where(F.col("t") >= F.col("target") * HOUR_MS)


def _steps(frames: InputFrames, params: Params) -> "DataFrame":
    """Samples, with what changed since the one before."""
    assert frames.lag is not None
    samples = for_targets(frames.lag, "at_ms", params, LOOKBACK_HOURS["lag"])
    series = Window.partitionBy(*SERIES).orderBy("at_ms")

    def change(name: str) -> "Column":
        return F.col(name) - F.lag(name).over(series)

    fell = change("committed") < 0
    # A topic that was made anew begins at 0 too, and so does a group that a person resets.
    by_hand = F.coalesce(change("resets") > 0, F.lit(False)) | (change("max_offset") < 0)
    age_ms = F.col("at_ms") - F.col("oldest_ms")
    grace_ms = int(1000 * (params.grace_s or GRACE_SAMPLES * params.sample_s))
    return samples.select(
        "*",
        F.coalesce(fell & by_hand, F.lit(False)).alias("is_reset"),
        F.coalesce(fell & ~by_hand, F.lit(False)).alias("is_rewind"),
        F.when(change("expired").isNotNull(), F.greatest(change("expired"), F.lit(0))).alias(
            "expired_more"
        ),
        ((F.col("lag") == 0) | F.coalesce(age_ms <= grace_ms, F.lit(False))).alias("is_clear"),
    )


def _windows(samples: "DataFrame", params: Params) -> "DataFrame":
    """One row for each evaluation whose window has samples."""
    step_ms, window_ms = params.step_s * 1000, params.window_s * 1000
    first = F.ceil(F.col("at_ms") / step_ms)
    last = F.floor((F.col("at_ms") + window_ms - 1) / step_ms)
    begin = (F.col("target") - LOOKBACK_HOURS["lag"]) * HOUR_MS
    # With steps longer than the window some samples belong to no evaluation.
    steps = F.explode(F.sequence(first, last)).alias("step")
    stepped = (
        samples.where(first <= last).select("*", steps).withColumn("t", F.col("step") * step_ms)
    )
    windows = stepped.where(
        (F.col("t") >= begin)
        & (F.col("t") < (F.col("target") + 1) * HOUR_MS)
        & (F.col("t") <= params.at_ms)
    )
    return windows.groupBy(*SERIES, "t").agg(
        F.count("*").alias("n"),
        ((F.max("at_ms") - F.min("at_ms")) / 1000).alias("span_s"),
        F.max("at_ms").alias("at_ms"),
        *(F.max_by(name, "at_ms").alias(name) for name in LAST),
        *(F.min_by(name, "at_ms").alias(f"first_{name}") for name in FIRST),
        F.max("is_reset").alias("was_reset"),
        F.max("is_rewind").alias("was_rewound"),
        F.max("is_clear").alias("was_clear"),
        F.sum("expired_more").alias("expired_more"),
        # Windows may overlap: what is added up over them is only that of the last step.
        F.sum(F.when(F.col("at_ms") > F.col("t") - step_ms, F.col("expired_more"))).alias(
            "lost_step"
        ),
        F.regr_slope(F.col("lag").cast("double"), (F.col("at_ms") - F.col("t")) / 1000).alias(
            "slope_per_s"
        ),
    )


def _sampled(samples: "DataFrame", params: Params) -> "DataFrame":
    """Of each step, the time around its samples: nothing is known of the rest of it.

    A sample speaks for the time to its neighbours: twice their distance, so that one may be late.
    """
    step_ms, near_ms = params.step_s * 1000, int(GRACE_SAMPLES * params.sample_s * 1000)
    step = F.floor(F.col("at_ms") / step_ms) * step_ms
    latest = samples.withColumn("t", step.cast("bigint")).groupBy(*SERIES, "t")
    first, last, end = F.min("at_ms") - near_ms, F.max("at_ms") + near_ms, F.col("t") + step_ms
    return latest.agg(first.alias("first"), last.alias("last")).select(
        *SERIES,
        "t",
        F.greatest("t", "first").alias("known_ms"),
        F.least(end, "last", F.lit(params.at_ms).cast("bigint")).alias("known_end_ms"),
    )


def _figures(windows: "DataFrame", params: Params) -> "DataFrame":
    def per_s(name: str) -> "Column":
        return F.try_divide((F.col(name) - F.col(f"first_{name}")).cast("double"), F.col("span_s"))

    unread = F.greatest(F.col("min_offset") - F.col("committed"), F.lit(0))
    covered = F.col("n") * params.sample_s / params.window_s
    rated = (
        windows.withColumn("produce_per_s", per_s("max_offset"))
        .withColumn("consume_per_s", per_s("committed"))
        .withColumn("expiry_per_s", per_s("min_offset"))
        .withColumn("lost", F.greatest(unread, "expired_more"))
        .withColumn("completeness", F.least(F.lit(1.0), covered))
        .withColumn("slo_ms", _limit_ms(params))
    )
    overtaken = F.col("expiry_per_s") - F.col("consume_per_s")
    room = (F.col("committed") - F.col("min_offset")).cast("double")
    age_ms = F.greatest(F.col("at_ms") - F.col("oldest_ms"), F.lit(0))
    return (
        rated.withColumn("risk_s", F.when(overtaken > 0, F.try_divide(room, overtaken)))
        .withColumn("time_lag_ms", F.when(F.col("lag") > 0, age_ms).otherwise(0))
        .withColumn("trend_min", F.greatest(TREND_SHARE * F.col("produce_per_s"), F.lit(1e-9)))
        .withColumn("is_growing", F.col("slope_per_s") > F.col("trend_min"))
    )


def _limit_ms(params: Params) -> "Column":
    common = params.slo_default_s
    default = F.lit(None if common is None else int(common * 1000)).cast("bigint")
    if not params.slo_s:
        return default
    pairs = [F.lit(each) for name, s in params.slo_s.items() for each in (name, int(s * 1000))]
    return F.coalesce(F.create_map(*pairs)[F.col("group")], default)


def _published(series_rows: "DataFrame", frames: InputFrames, params: Params) -> "DataFrame":
    """With `state`: a change counts when it was found twice running, some at once."""
    rows = series_rows.withColumn("known_state", F.lit(None).cast("string"))
    if frames.previous is not None:
        first = F.lit(min(params.hours)).cast("bigint")
        before = frames.previous.select(
            first.alias("target"),
            "group",
            "topic",
            F.col("queue").cast("int").alias("queue"),
            F.lit(-1).cast("bigint").alias("t"),
            "raw_state",
            F.col("state").alias("known_state"),
        )
        rows = rows.unionByName(before, allowMissingColumns=True)
    series = Window.partitionBy(*SERIES).orderBy("t")
    earlier = F.lag("raw_state").over(series)
    raw = F.col("raw_state")
    is_sure = earlier.isNull() | (raw == earlier) | raw.isin(*AT_ONCE)
    sure = F.coalesce("known_state", F.when(is_sure, raw))
    falls = F.col("slope_per_s") < -F.col("trend_min")
    is_faster = F.col("consume_per_s") > ETA_FACTOR * F.col("produce_per_s")
    eta_s = F.when(falls & is_faster, -F.col("lag") / F.col("slope_per_s"))
    return (
        rows.withColumn("sure", sure)
        .withColumn("state", F.last("sure", ignorenulls=True).over(series))
        .withColumn("eta_s", F.when(F.col("state") == "CATCHING_UP", eta_s))
    )
