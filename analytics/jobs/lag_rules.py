"""The states of a queue of a group: which one, how bad it is, and what to do about it.

The first rule that holds names the state; every figure is of the window before the evaluation.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from analytics.jobs.definitions import Params

if TYPE_CHECKING:
    from pyspark.sql import Column

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
AT_ONCE = (LOST, OFFLINE)  # published without waiting for a second evaluation


def raw_state(params: Params) -> "Column":
    """The state by the figures that `lag_series` gathers."""
    no_commit = F.col("committed") == F.col("first_committed")
    is_active = F.col("active_ms") > F.col("t") - params.window_s * 1000
    is_idle = no_commit & ~F.coalesce(is_active, F.lit(False))
    rules = (
        (UNKNOWN, (F.col("n") < SAMPLES_MIN) | (F.col("completeness") < COMPLETENESS_MIN)),
        (LOST, F.col("lost") > 0),
        (REWIND, F.col("was_rewound")),
        (RESET, F.col("was_reset")),
        (OK, F.col("was_clear")),
        (OFFLINE, is_idle & (F.col("members") == 0)),
        (STOPPED, is_idle),
        (STALLED, no_commit & (F.col("lag") >= F.col("first_lag"))),
        (AT_RISK, F.col("risk_s") < params.horizon_s),
        (FALLING_BEHIND, _falls_behind()),
        (CATCHING_UP, F.col("slope_per_s") < -F.col("trend_min")),
        (SLOW, F.col("time_lag_ms") > F.col("slo_ms")),
    )
    state = F.when(*_condition(rules[0]))
    for rule in rules[1:]:
        state = state.when(*_condition(rule))
    return state.otherwise(STEADY)


def _condition(rule: "tuple[str, Column]") -> "tuple[Column, Column]":
    name, condition = rule
    return F.coalesce(condition, F.lit(False)), F.lit(name)


def _falls_behind() -> "Column":
    """With a limit of its own when that is passed, else when it grew the time before too."""
    has_limit = F.col("slo_ms").isNotNull()
    is_late = F.when(has_limit, F.col("time_lag_ms") > F.col("slo_ms")).otherwise(
        F.coalesce("grew_before", F.lit(False))
    )
    return F.col("is_growing") & is_late


def severity(state: str) -> "Column":
    """0 for the worst state."""
    ranks = F.create_map(
        *(
            F.lit(each)
            for pair in zip(WORST_FIRST, range(len(WORST_FIRST)), strict=True)
            for each in pair
        )
    )
    return ranks[F.col(state)]


def state_of(severity_column: "Column") -> "Column":
    """The state of a severity."""
    return F.element_at(
        F.array(*(F.lit(each) for each in WORST_FIRST)), (severity_column + 1).cast("int")
    )


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


def advice(has_hot_queue: bool) -> "tuple[Column, Column]":
    """Code and parameters of the sentence for `state`; a hot queue is named before slowness."""
    code, params = F.lit(""), F.lit("{}")
    for state, (name, columns) in ADVICE.items():
        if not name:
            continue
        code, params = _choose(F.col("state") == state, name, columns, code, params)
    is_full = (F.col("state") == FALLING_BEHIND) & (F.col("members") >= F.col("queues"))
    code, params = _choose(is_full, *NO_ROOM, code, params)
    if has_hot_queue:
        is_hot = F.col("state").isin(FALLING_BEHIND, SLOW) & F.col("hot_queue").isNotNull()
        code, params = _choose(is_hot, *HOT_QUEUE, code, params)
    return code, params


def _choose(
    condition: "Column", name: str, columns: tuple[str, ...], code: "Column", params: "Column"
) -> "tuple[Column, Column]":
    holds = F.coalesce(condition, F.lit(False))
    values = F.to_json(F.struct(*columns))
    return F.when(holds, name).otherwise(code), F.when(holds, values).otherwise(params)
