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
    "end_to_end": N_("From its making at the producer until a group acknowledged it."),
    "broker": N_("From its making at the producer until the server had stored it."),
    "wait": N_("From being stored until it was first handed out to a group."),
    "process": N_("From the last hand-out until it was acknowledged."),
    "lateness_level": N_("How long after its delay level's time a message was there to consume."),
    "lateness_timer": N_("How long after its exact time a message was there to consume."),
    "decision": N_("From the half message until it was committed or rolled back."),
}
KINDS = {
    "message": N_("stored"),
    "retry": N_("stored for a retry"),
    "dead_letter": N_("stored as dead letters"),
    "delayed": N_("stored to wait"),
    "half": N_("half messages"),
    "given_up": N_("given-up half messages"),
    "reply": N_("replies"),
    "delivered": N_("handed out"),
    "acked": N_("acknowledged"),
    "failed": N_("failed"),
    "expired": N_("time ran out"),
    "returned": N_("put back"),
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
    "OK": N_("in time"),
}
ORDER = {code: rank for rank, code in enumerate(STATES)}
STATE_TONES = {
    **dict.fromkeys(("LOST", "OFFLINE", "STALLED", "STOPPED", "AT_RISK", "REWIND"), "bad"),
    **dict.fromkeys(("FALLING_BEHIND", "SLOW"), "warn"),
    "OK": "ok",
}
# One sentence each; {names} are parameters, put into words by `_param_text`.
ADVICE = {
    "wait_for_samples": N_("Only %(completeness)s of the samples are there: nothing can be said."),
    "messages_lost": N_(
        "Retention deleted %(lost)s messages of queue %(queue)s before they were read: keep "
        "messages longer, or consume faster."
    ),
    "was_reset": N_("The offsets of queue %(queue)s were reset by hand."),
    "was_rewound": N_(
        "The committed offset of queue %(queue)s went back and nobody reset it: look for a client "
        "that commits an old place."
    ),
    "start_consumers": N_("No member is there and %(lag)s messages wait: start consumers."),
    "wake_consumers": N_(
        "%(members)s members are there, yet nothing is done and %(lag)s messages wait: look at "
        "the clients' logs."
    ),
    "look_at_message": N_(
        "Queue %(queue)s does not get past offset %(committed)s: look at that message."
    ),
    "retention_comes": N_(
        "Retention reaches queue %(queue)s in %(risk_s)s at %(consume_per_s)s consumed a second: "
        "keep messages longer, or consume faster now."
    ),
    "add_consumers": N_(
        "%(consume_per_s)s a second are consumed and %(produce_per_s)s produced: add consumers "
        "(%(members)s members for %(queues)s queues)."
    ),
    "speed_up_consumers": N_(
        "%(consume_per_s)s a second are consumed and %(produce_per_s)s produced. A member more "
        "would get no queue (%(members)s members for %(queues)s queues): speed up the work, or "
        "add queues."
    ),
    "wait_for_end": N_("At this pace it has caught up in %(eta_s)s."),
    "raise_rate": N_(
        "The oldest message is %(time_lag_ms)s old and %(slo_ms)s is fine; %(consume_per_s)s a "
        "second are consumed: raise that."
    ),
    "spread_keys": N_(
        "Queue %(hot_queue)s holds most of the %(lag)s messages that wait: spread the messages "
        "over more keys, or message groups."
    ),
}
ETA_MAX_S = 86_400
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
