"""A group on a topic, hour by hour: its worst queue, its hot queue, and the time in each state."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.jobs.definitions import Params
from analytics.jobs.lag_rows import Row, rows
from analytics.jobs.lag_rules import WORST_FIRST, advice
from analytics.jobs.lag_series import Evaluations
from analytics.jobs.lag_windows import NONE, Floats, divided, sums_of_known
from analytics.jobs.traces.blobs import Ints, begins, keys

HOT_FACTOR, HOT_SHARE = 3, 0.2
CELL = ("target", "group", "topic")
Columns = dict[str, "npt.NDArray[Any]"]


def build(series: Evaluations, params: Params) -> list[Row]:
    """The table `lag_hours`."""
    if not len(series):
        return []
    (cell,) = keys([getattr(series, name) for name in CELL])
    cell = np.cumsum(np.diff(cell, prepend=cell[:1]) != 0)  # rows are in this order
    states, evaluated = _states(series, cell, params), _evaluated(series, cell)
    hours = rows(series, _ends(series, cell) | _hours(series, cell))
    for at, row in enumerate(hours):
        row |= {"state_ms": _json(states[at]), "evaluated": _json(evaluated[at])}
        row["advice"], row["advice_params"] = advice(row)
    return hours


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _ends(series: Evaluations, cell: Ints) -> Columns:
    """The hour's last evaluation, all queues of a group on a topic taken together."""
    last = np.maximum.reduceat(series.t, begins(cell))
    is_end = series.t == last[cell]
    ends, cell = series.take(is_end), cell[is_end]
    starts = begins(cell)
    queues = np.diff(starts, append=len(cell))
    # Of equally bad queues the one that lags most, then the lowest number.
    worst = ends.take(np.lexsort((ends.queue, -ends.lag, ends.state, cell))[starts])
    most = ends.take(np.lexsort((ends.queue, -ends.lag, cell))[starts])
    by_lag = ends.lag[np.lexsort((ends.lag, cell))]
    median = (by_lag[starts + (queues - 1) // 2] + by_lag[starts + queues // 2]) / 2
    total = np.add.reduceat(ends.lag, starts)
    is_hot = (queues > 1) & (most.lag > HOT_FACTOR * median) & (most.lag > HOT_SHARE * total)
    members = np.maximum.reduceat(ends.members, starts)
    return {
        **{name: getattr(worst, name) for name in (*CELL, *OF_WORST)},
        "worst_queue": worst.queue,
        "at_ms": worst.t,
        "queues": queues,
        "lag": total,
        "time_lag_ms": np.maximum.reduceat(ends.time_lag_ms, starts),
        "produce_per_s": _sums(ends.produce_per_s, starts),
        "consume_per_s": _sums(ends.consume_per_s, starts),
        "eta_s": np.fmax.reduceat(ends.eta_s, starts),
        "retry_waiting": np.maximum.reduceat(ends.retry_waiting, starts),
        "dead": np.maximum.reduceat(ends.dead, starts),
        "members": members,
        "idle_members": np.where(members < 0, NONE, np.maximum(members - queues, 0)),
        "hot_queue": np.where(is_hot, most.queue, NONE),
    }


OF_WORST = ("queue", "state", "committed", "risk_s", "slo_ms")


def _sums(values: Floats, starts: Ints) -> Floats:
    """Without what is not known; NaN where nothing is."""
    is_known = np.logical_or.reduceat(~np.isnan(values), starts)
    return np.where(is_known, np.add.reduceat(np.nan_to_num(values), starts), np.nan)


def _hours(series: Evaluations, cell: Ints) -> Columns:
    """What the whole hour saw."""
    (moment,) = keys([cell, series.t])
    order = np.argsort(moment, kind="stable")
    starts, all_ = begins(moment[order]), series.take(order)
    queues = np.diff(starts, append=len(order))
    completeness = divided(np.add.reduceat(all_.completeness, starts), queues)
    lag = np.add.reduceat(all_.lag, starts)
    lost = sums_of_known(all_.lost_step, starts)
    hours = begins(cell[order][starts])
    evaluations = np.diff(hours, append=len(starts))
    by_hour = begins(cell)
    return {
        "lag_max": np.maximum.reduceat(lag, hours),
        "time_lag_max_ms": np.maximum.reduceat(series.time_lag_ms, by_hour),
        "worst_state": np.minimum.reduceat(series.state, by_hour),
        "evaluations": evaluations,
        "lost": sums_of_known(lost, hours),
        "completeness": divided(np.add.reduceat(completeness, hours), evaluations),
    }


def _states(series: Evaluations, cell: Ints, params: Params) -> list[dict[str, int]]:
    """Of each cell the time in each state, by its name."""
    kinds = len(WORST_FIRST)
    counts = np.bincount(cell * kinds + series.state, minlength=(int(cell[-1]) + 1) * kinds)
    step_ms, names = params.step_s * 1000, sorted(WORST_FIRST)
    return [
        {name: n * step_ms for name in names if (n := of_cell[WORST_FIRST.index(name)])}
        for of_cell in counts.reshape(-1, kinds).tolist()
    ]


def _evaluated(series: Evaluations, cell: Ints) -> list[list[list[int]]]:
    """The stretches of each cell's hour in which any queue was evaluated and sampled, in order."""
    stretches: list[list[list[int]]] = [[] for _ in range(int(cell[-1]) + 1)]
    is_sampled = series.known_ms < series.known_end_ms
    columns = (cell, series.known_ms, series.known_end_ms)
    parts = np.stack([column[is_sampled] for column in columns], axis=1)
    for at, begin, end in np.unique(parts, axis=0).tolist():
        own = stretches[at]
        if own and begin <= own[-1][1]:
            own[-1][1] = max(own[-1][1], end)
        else:
            own.append([begin, end])
    return stretches
