"""The states of a queue of a group: which one, how bad it is, and what to do about it.

The first rule that holds names the state; every figure is of the window before the evaluation. A
state is handled as its severity, 0 for the worst: its index in WORST_FIRST.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from analytics.jobs.definitions import Params
from analytics.jobs.traces.blobs import Ints, Mask

if TYPE_CHECKING:
    from analytics.jobs.lag_windows import LagWindows, WindowFigures

SAMPLES_MIN = 3
COMPLETENESS_MIN = 0.5
TREND_SHARE = 0.05  # of what is produced: a lag that changes less is steady
ETA_FACTOR = 1.05  # so much faster than produced must be consumed for an end to be told

UNKNOWN, LOST, RESET, REWIND, OK = "UNKNOWN", "LOST", "RESET", "REWIND", "OK"
OFFLINE, STOPPED, STALLED, AT_RISK = "OFFLINE", "STOPPED", "STALLED", "AT_RISK"
FALLING_BEHIND, CATCHING_UP, STEADY, SLOW = "FALLING_BEHIND", "CATCHING_UP", "STEADY", "SLOW"
WORST_FIRST = (
    LOST,
    OFFLINE,
    STALLED,
    STOPPED,
    AT_RISK,
    REWIND,
    FALLING_BEHIND,
    SLOW,
    CATCHING_UP,
    UNKNOWN,
    RESET,
    STEADY,
    OK,
)
SEVERITY = {state: rank for rank, state in enumerate(WORST_FIRST)}
AT_ONCE = (LOST, OFFLINE)  # published without waiting for a second evaluation


def raw_states(
    windows: "LagWindows", figures: "WindowFigures", grew_before: Mask, params: Params
) -> Ints:
    """The severity of each window's state, by its figures; NaN fulfils no rule."""
    last = windows.last
    no_commit = last.committed == windows.first.committed
    is_idle = no_commit & ~(last.active_ms > windows.t - params.window_s * 1000)
    # With a limit of its own when that is passed, else when it grew the time before too.
    has_limit = figures.slo_ms >= 0
    is_late = has_limit & (figures.time_lag_ms > figures.slo_ms)
    rules = (
        (UNKNOWN, (windows.n < SAMPLES_MIN) | (figures.completeness < COMPLETENESS_MIN)),
        (LOST, figures.lost > 0),
        (REWIND, windows.was_rewound),
        (RESET, windows.was_reset),
        (OK, windows.was_clear),
        (OFFLINE, is_idle & (last.members == 0)),
        (STOPPED, is_idle),
        (STALLED, no_commit & (last.lag >= windows.first.lag)),
        (AT_RISK, figures.risk_s < params.horizon_s),
        (FALLING_BEHIND, figures.is_growing & np.where(has_limit, is_late, grew_before)),
        (CATCHING_UP, windows.slope_per_s < -figures.trend_min),
        (SLOW, is_late),
    )
    holds = [condition for _, condition in rules]
    states: Ints = np.select(holds, [SEVERITY[name] for name, _ in rules], SEVERITY[STEADY])
    return states


# Of each state: the code of its sentence, and the columns that are its parameters.
RATES = ("consume_per_s", "produce_per_s", "queues", "members")
ADVICE: dict[str, tuple[str, tuple[str, ...]]] = {
    UNKNOWN: ("wait_for_samples", ("completeness",)),
    LOST: ("messages_lost", ("lost", "queue")),
    RESET: ("was_reset", ("queue",)),
    REWIND: ("was_rewound", ("queue",)),
    OK: ("", ()),
    OFFLINE: ("start_consumers", ("lag",)),
    STOPPED: ("wake_consumers", ("lag", "members")),
    STALLED: ("look_at_message", ("queue", "committed")),
    AT_RISK: ("retention_comes", ("risk_s", "consume_per_s", "queue")),
    FALLING_BEHIND: ("add_consumers", RATES),
    CATCHING_UP: ("wait_for_end", ("eta_s",)),
    STEADY: ("", ()),
    SLOW: ("raise_rate", ("time_lag_ms", "slo_ms", "consume_per_s")),
}
HOT_QUEUE = ("spread_keys", ("hot_queue", "lag"))
NO_ROOM = ("speed_up_consumers", RATES)  # there is a member for each queue already


def advice(row: Mapping[str, Any]) -> tuple[str, str]:
    """Code and parameters of the sentence for a row; a hot queue is named before slowness."""
    state = row["state"]
    code, names = ADVICE[state]
    if state in (FALLING_BEHIND, SLOW) and row.get("hot_queue") is not None:
        code, names = HOT_QUEUE
    elif state == FALLING_BEHIND and (row["members"] or 0) >= row["queues"]:
        code, names = NO_ROOM
    params = {name: row[name] for name in names if row[name] is not None}
    return code, json.dumps(params, separators=(",", ":"))
