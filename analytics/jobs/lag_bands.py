"""How long each queue was in which state, for states other than OK."""

import numpy as np

from analytics.jobs.definitions import Params
from analytics.jobs.lag_rows import Row, rows
from analytics.jobs.lag_rules import OK, SEVERITY
from analytics.jobs.lag_series import Evaluations


def build(series: Evaluations, params: Params) -> list[Row]:
    """The table `lag_bands`."""
    if not len(series):
        return []
    step_ms = params.step_s * 1000
    begins = np.ones(len(series), dtype=np.bool_)
    begins[1:] = False
    for column in (series.target, series.group, series.topic, series.queue, series.state):
        begins[1:] |= np.diff(column) != 0
    # A queue that was not sampled for a while begins a new band.
    begins[1:] |= np.diff(series.t) != step_ms
    starts = np.flatnonzero(begins)
    ends = np.r_[starts[1:], len(series)] - 1
    columns = {name: getattr(series, name)[starts] for name in BY} | {
        "begin_ms": series.t[starts],
        "end_ms": series.t[ends] + step_ms,
        "lag_max": np.maximum.reduceat(series.lag, starts),
        "time_lag_max_ms": np.maximum.reduceat(series.time_lag_ms, starts),
    }
    is_told = columns["state"] != SEVERITY[OK]
    return rows(series, {name: column[is_told] for name, column in columns.items()})


BY = ("target", "group", "topic", "queue", "state")
