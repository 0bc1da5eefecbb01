"""Which tables a job makes, in which order, and from which bases that are computed once."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from analytics.jobs import (
    activity,
    attempts,
    events,
    failures,
    hot_keys,
    lag_bands,
    lag_hours,
    lag_now,
    lag_series,
    latency,
    outcomes,
    queue_skew,
    slowest,
    stored,
    throughput,
    transactions,
)
from analytics.jobs.definitions import Frames, Params
from analytics.results import LAG_JOB, TRACES_JOB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Build = Callable[[Frames, Params], "DataFrame"]

BUILDS: dict[str, Build] = {
    "latency": latency.build,
    "throughput": throughput.build,
    "outcomes": outcomes.build,
    "failures": failures.build,
    "slowest": slowest.build,
    "hot_keys": hot_keys.build,
    "queue_skew": queue_skew.build,
    "transactions": transactions.build,
    "lag_hours": lag_hours.build,
    "lag_bands": lag_bands.build,
    "lag_now": lag_now.build,
}
# The fields of Frames that are kept while a job runs.
LARGE = ("attempts", "series")  # of them; the others are counts
BASES: dict[str, dict[str, Build]] = {
    TRACES_JOB: {
        "activity": activity.build,
        "stored": stored.build,
        "names": attempts.names,
        "attempts": attempts.build,
        "values": latency.values,
        "slow": slowest.top,
        "events": events.build,
    },
    LAG_JOB: {"series": lag_series.build},
}
