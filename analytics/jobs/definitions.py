"""What every figure means, in one place; docs/reports.md says the same in prose.

Attempts count in the hour in which they happen, messages in the hour in which they end: each
belongs to exactly one hour, so hours may be added up.
"""

from dataclasses import dataclass, field

HOUR_MS = 3_600_000
ALL = 10_000  # of `sample`: everything
RETRY_PREFIX = "%RETRY%"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

# Latencies in ms. A negative one is two clocks that disagree: it counts as 0, and as skewed.
END_TO_END = "end_to_end"  # born, until the group's first acknowledgement; wished delays included
BROKER = "broker"  # born, until stored; of messages that came from a producer at once
WAIT = "wait"  # stored, until the first delivery of attempt 1
PROCESS = "process"  # last delivery, until the first acknowledgement; not if delivered after it
LATENESS_LEVEL = "lateness_level"  # due by its delay level, until stored for consumers
LATENESS_TIMER = "lateness_timer"  # due at its own time, until stored for consumers
DECISION = "decision"  # half message stored, until committed or rolled back
# Counted along with these, but no latencies:
UNFINISHED = "unfinished"  # attempts whose time was over in the hour without an end
UNMATCHED = "unmatched"  # acknowledgements whose delivery is not at hand
METRICS = (END_TO_END, BROKER, WAIT, PROCESS, LATENESS_LEVEL, LATENESS_TIMER, DECISION)

# What was stored, by the role of the record: exact, with bytes.
STORED_KINDS = {
    "message": "message",
    "retry": "retry",
    "dead": "dead_letter",
    "delayed": "delayed",
    "half": "half",
    "given_up": "given_up",
    "reply": "reply",
}
# What happened to messages, by the kind of the trace row: sampled and scaled.
TRACED_KINDS = ("delivered", "acked", "failed", "expired", "returned", "dead", "pulled", "refused")
FAILURE_KINDS = ("failed", "expired", "dead", "refused")
DELIVERED, ACKED = "delivered", "acked"
ENDS = ("acked", "failed", "expired", "returned", "dead")  # what an attempt ends with
ATTEMPTED = (DELIVERED, *ENDS)
UNTRACED = ("expired", "returned", "dead")  # ends that clients do not trace
OUTCOMES = ("half", "committed", "rolled_back", "checked", "check_given_up", "check_resumed")
DECIDED = ("committed", "rolled_back")
KEY, TAG, MESSAGE_GROUP = "key", "tag", "message_group"
OTHERS = "*"  # for the clients that have no row of their own


@dataclass(frozen=True, kw_only=True)
class Params:
    """What may be chosen. Counts bound the rows of a table: what is beyond is in a row of the rest.

    `hours` are numbers since 1970. Times of the lag report: evaluated every `step_s` over the
    `window_s` before, from samples that are taken every `sample_s`. `horizon_s`: retention that
    overtakes a group sooner puts it at risk. `slo_s` is the time lag that is fine, by group;
    `slo_default_s` that of the others (none, if None). `at_ms`: everything before is known.
    `is_traced_by_clients`: deliveries are those that clients traced, as of a cluster.
    """

    hours: tuple[int, ...] = ()
    at_ms: int = 0
    is_traced_by_clients: bool = False
    clients_max: int = 50  # of a group, topic and hour
    slowest_max: int = 10  # of a group, topic and hour
    reasons_max: int = 20  # of a kind, group, topic and hour
    values_max: int = 100  # of a kind, topic and hour
    unfinished_s: int = 900
    step_s: int = 300
    window_s: int = 360
    sample_s: float = 10.0
    grace_s: float = 0.0  # 2 * sample_s, if less than that
    horizon_s: int = 1_800
    slo_default_s: float | None = None
    slo_s: dict[str, float] = field(default_factory=dict)
