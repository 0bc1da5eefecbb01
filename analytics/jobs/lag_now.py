"""The newest evaluation of each queue, with all its figures."""

from collections import Counter

import numpy as np

from analytics.jobs.definitions import HOUR_MS, Params
from analytics.jobs.lag_rows import Row, rows_of
from analytics.jobs.lag_rules import advice
from analytics.jobs.lag_series import Evaluations


def newest_ms(params: Params) -> int:
    """When the newest evaluation is."""
    return params.at_ms - params.at_ms % (params.step_s * 1000)


def is_covered(params: Params) -> bool:
    """Whether the newest evaluation is one of this run's; else the table must stay as it is."""
    return newest_ms(params) // HOUR_MS in params.hours


def build(series: Evaluations, params: Params) -> list[Row]:
    """The table `lag_now`."""
    newest = np.flatnonzero(series.t == newest_ms(params))
    rows = rows_of(series.take(newest))
    queues = Counter((row["group"], row["topic"]) for row in rows)
    for row in rows:
        row |= {"queues": queues[row["group"], row["topic"]], "at_ms": row["t"]}
        row["advice"], row["advice_params"] = advice(row)
    return rows
