"""The words for the reports' codes: states, measures, kinds, outcomes, and advice."""

import json
import re
from typing import Any

from app.ui.framework import formats
from app.ui.framework.language import N_, _, translated

PARAMETER = re.compile(r"%\((\w+)\)s")
METRICS = {
    "end_to_end": N_("End to end"),
    "broker": N_("Until stored"),
    "wait": N_("Wait in the queue"),
    "process": N_("Consume time"),
    "lateness_level": N_("Lateness of delay levels"),
    "lateness_timer": N_("Lateness of exact times"),
    "decision": N_("Until a transaction was decided"),
}
METRIC_HELP = {
    "end_to_end": N_("From creation to acknowledgement"),
    "broker": N_("From creation to stored"),
    "wait": N_("From stored to first delivery"),
    "process": N_("From last delivery to acknowledgement"),
    "lateness_level": N_("From the delay level's due time to availability"),
    "lateness_timer": N_("From the exact due time to availability"),
    "decision": N_("From half message to commit or rollback"),
}
KINDS = {
    "message": N_("stored"),
    "retry": N_("stored for a retry"),
    "dead_letter": N_("stored as dead letters"),
    "delayed": N_("stored as scheduled"),
    "half": N_("half messages"),
    "given_up": N_("given-up half messages"),
    "reply": N_("replies"),
    "delivered": N_("delivered"),
    "acked": N_("acknowledged"),
    "failed": N_("failed"),
    "expired": N_("timed out"),
    "returned": N_("returned"),
    "dead": N_("dead"),
    "pulled": N_("pulled"),
    "refused": N_("refused"),
}
OUTCOMES = {
    "half": N_("begun"),
    "committed": N_("committed"),
    "rolled_back": N_("rolled back"),
    "checked": N_("checked"),
    "check_given_up": N_("given up"),
    "check_resumed": N_("checks resumed"),
}
VALUES = {"key": N_("Keys"), "tag": N_("Tags"), "message_group": N_("Message groups")}
# From the worst to the best, as the report orders them.
STATES = {
    "LOST": N_("lost"),
    "OFFLINE": N_("offline"),
    "STALLED": N_("stalled"),
    "STOPPED": N_("stopped"),
    "AT_RISK": N_("at risk"),
    "REWIND": N_("rewound"),
    "FALLING_BEHIND": N_("falling behind"),
    "SLOW": N_("slow"),
    "CATCHING_UP": N_("catching up"),
    "UNKNOWN": N_("unknown"),
    "RESET": N_("reset"),
    "STEADY": N_("steady"),
    "OK": N_("on time"),
}
ORDER = {code: rank for rank, code in enumerate(STATES)}
STATE_TONES = {
    **dict.fromkeys(("LOST", "OFFLINE", "STALLED", "STOPPED", "AT_RISK", "REWIND"), "bad"),
    **dict.fromkeys(("FALLING_BEHIND", "SLOW"), "warn"),
    "OK": "ok",
}
# One sentence each; {names} are parameters, put into words by `_param_text`.
ADVICE = {
    "wait_for_samples": N_("Not enough samples: %(completeness)s present."),
    "messages_lost": N_(
        "%(lost)s messages of queue %(queue)s expired unread: increase retention or consume faster."
    ),
    "was_reset": N_("The offsets of queue %(queue)s were reset manually."),
    "was_rewound": N_(
        "The committed offset of queue %(queue)s moved back without a reset: check for a client "
        "that commits an old offset."
    ),
    "start_consumers": N_("No members, %(lag)s messages unread: start consumers."),
    "wake_consumers": N_(
        "%(members)s members, no progress, %(lag)s messages unread: check the clients' logs."
    ),
    "look_at_message": N_("Queue %(queue)s is stuck at offset %(committed)s: check that message."),
    "retention_comes": N_(
        "Messages in queue %(queue)s begin to expire unread in %(risk_s)s at %(consume_per_s)s "
        "consumed per second: increase retention or consume faster."
    ),
    "add_consumers": N_(
        "%(consume_per_s)s per second consumed, %(produce_per_s)s produced: add consumers "
        "(%(members)s members for %(queues)s queues)."
    ),
    "speed_up_consumers": N_(
        "%(consume_per_s)s per second consumed, %(produce_per_s)s produced. Further members "
        "would get no queue (%(members)s members for %(queues)s queues): speed up processing "
        "or add queues."
    ),
    "wait_for_end": N_("Caught up in about %(eta_s)s at this rate."),
    "raise_rate": N_(
        "The oldest message is %(time_lag_ms)s old, the limit is %(slo_ms)s; %(consume_per_s)s "
        "per second consumed: increase this rate."
    ),
    "spread_keys": N_(
        "Queue %(hot_queue)s has most of the %(lag)s unread messages: distribute messages over "
        "more keys or message groups."
    ),
}
ETA_MAX_S = 86_400
CHANGE_MIN = 0.0005  # smaller changes round to nothing
TIMES_MIN = 9.0  # larger changes are told as a multiple
VERDICTS = {"worse": N_("worse"), "better": N_("better")}
NUMBERS = ("lag", "lost", "members", "queues")


def state(code: str) -> str:
    """A state of lag in words."""
    return translated(STATES.get(code, code))


def tone(code: str) -> str:
    """The tone of a state's badge."""
    return STATE_TONES.get(code, "")


def state_look(code: str) -> str:
    """The CSS class of a state in a chart of bands."""
    return f"state-{code.lower().replace('_', '-')}"


def severity(code: str) -> int:
    """The rank of a state: 0 is the worst, unknown states come last."""
    return ORDER.get(code, len(ORDER))


def change(ratio: float | None) -> str:
    """A change from the previous range: "+12.5 %", "unchanged", "27 times"; None is one from 0."""
    if ratio is None:
        return _("from 0")
    if ratio >= TIMES_MIN:
        return _("%(n)s times", n=f"{ratio + 1:,.0f}")
    return f"{100 * ratio:+.1f} %" if abs(ratio) >= CHANGE_MIN else _("unchanged")


def verdict(tone: str) -> str:
    """Whether a change is for the worse, in a word."""
    return translated(VERDICTS.get(tone, ""))


def advice(code: str, stored: str) -> str:
    """The sentence for an advice of the lag report; "" for none.

    `stored` is a JSON object with the parameters. An advice unknown to this version is shown as its
    code.
    """
    if not code:
        return ""
    text = ADVICE.get(code)
    if text is None:
        return code
    params = _params(stored)
    names = PARAMETER.findall(text)
    return translated(text) % {name: _param_text(name, params.get(name)) for name in names}


def _params(stored: str) -> dict[str, Any]:
    try:
        params = json.loads(stored)
    except ValueError:
        return {}
    return params if isinstance(params, dict) else {}


def _param_text(name: str, value: Any) -> str:
    """A parameter in words, by the unit at the end of its name."""
    if not isinstance(value, int | float):
        return _("an unknown number of") if name in NUMBERS else _("unknown")
    if name == "completeness":
        return f"{100 * value:.0f} %"
    if name.endswith("_per_s"):
        return formats.rate(value)
    if name == "eta_s" and value > ETA_MAX_S:
        return _("more than a day")
    if name.endswith("_s"):
        return formats.duration(round(value * 1000))
    if name.endswith("_ms"):
        return formats.duration(round(value))
    return str(value) if name in ("queue", "hot_queue", "committed") else formats.count(int(value))
