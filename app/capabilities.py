"""What the engine behind `app.messaging` can do, and the refusal of what it cannot.

The embedded engine can do all of it, but is one broker. Endpoints and pages ask the table by name
where another engine may have no answer: endpoints refuse the request, pages leave out the part and
say why.
"""

from typing import NamedTuple

from engine.errors import Refused
from kitemq.model.server import Capabilities

NOT_SUPPORTED = "not_supported"
ENGINE = "the engine behind this server"
EMBEDDED = Capabilities(
    **(dict.fromkeys(Capabilities.__struct_fields__, True) | {"brokers": False})
)


class Lack(NamedTuple):
    """How the lack of a capability is refused: what the engine does not do, and a way around."""

    detail: str
    remedy: str


LACKS = {
    "exact_timers": Lack("delivers at no exact time", "choose a delay level"),
    "timer_changes": Lack(
        "neither delivers waiting messages early nor reschedules them, and recalls none that wait "
        "in a delay level",
        "let the message be delivered, and have its consumer skip it",
    ),
    "message_acks": Lack(
        "acknowledges no single messages", "pull, and commit the offset of the last one"
    ),
    "sql_filters": Lack("filters by no SQL92 expression", "filter by tag, or in the consumer"),
    "transaction_queries": Lack(
        "neither lists nor looks up transactions", "ask the producer that began the transaction"
    ),
    "dead_letter_replays": Lack(
        "replays no dead letters", "consume the topic %DLQ% of the group, and send them again"
    ),
    "uncounted_releases": Lack(
        "counts the attempt of a message that is put back", "give the group more retries"
    ),
    "member_shares": Lack(
        "shares no queues out among the members of a group",
        "receive instead of pulling, or choose the queues in the consumers",
    ),
    "member_queues": Lack(
        "does not tell which queues a member reads", "ask the members of the group"
    ),
    "dismissals": Lack("keeps no note of dead letters that need no review", "let them expire"),
    "reset_history": Lack(
        "remembers no offset resets", "see the audit trail, and reset to the offsets that it names"
    ),
    "purges": Lack("deletes no messages before their time", "set the topic's retention there"),
    "content_search": Lack("looks through no topic by content", "search by id, key or time"),
    "journeys": Lack("records no deliveries", "see the traces of your clients"),
    "traffic_figures": Lack("counts no traffic", "see the metrics of its brokers"),
    "delivery_figures": Lack(
        "counts messages in and out alone: no bytes, times, refusals, acknowledgements or retries",
        "see the metrics of its brokers and clients",
    ),
    "lag_history": Lack("keeps no lag over time", "see the group's lag of now"),
    "log_figures": Lack("shows neither its log nor its disk", "see its brokers' own figures"),
    "reports": Lack("records nothing that reports compute from", "read its topics with Spark"),
    "trace_reports": Lack(
        "records no messages and deliveries, which all reports but that of lag are computed from",
        "see the report of lag, or read its topics with Spark",
    ),
    "delivery_records": Lack(
        "records no deliveries, of which reports have those that clients trace",
        "have your clients trace (enableMsgTrace)",
    ),
    "delay_reports": Lack(
        "does not tell when a message that it released was due",
        "measure it in the consumers",
    ),
    "transaction_reports": Lack(
        "does not tell what became of transactions", "count the decisions in the producers"
    ),
    "transaction_callbacks": Lack(
        "keeps no callbacks of producer groups", "answer checks over a producer's connection"
    ),
    "topic_overrides": Lack(
        "sets durability, retention and traces for all topics alike",
        "leave it out, and set it for the brokers",
    ),
    "group_policies": Lack(
        "sets retries, order and a pause of a group, and no more",
        "leave it out, or set it in the consumers",
    ),
    "brokers": Lack("is one broker, itself", "see its own figures, of the page Engine"),
    "offset_resets": Lack("moves no group by a reset", "commit the offsets of its queues"),
    "request_replies": Lack(
        "sends no requests that wait for a reply", "send a message, and receive its answer"
    ),
    "inflight_figures": Lack(
        "does not tell how much is with consumers", "see the group's lag, and its brokers' figures"
    ),
    "scheduled_list": Lack("lists no messages that wait for their time", "ask their producers"),
    "timer_recalls": Lack(
        "recalls no messages",
        "let the message be delivered, and have its consumer skip it; brokers of RocketMQ recall "
        "with recallMessageEnable",
    ),
}


def not_supported(detail: str, *, field: str, remedy: str) -> Refused:
    """The refusal of what the engine behind this server does not do."""
    return Refused(f"{ENGINE} {detail}", field=field, remedy=remedy, code=NOT_SUPPORTED)


def lack_of(capabilities: Capabilities, name: str) -> str:
    """Why what needs a capability is left out; "" if the engine has it."""
    return "" if getattr(capabilities, name) else f"{ENGINE} {LACKS[name].detail}"


def require(capabilities: Capabilities, name: str, *, field: str = "") -> None:
    """Raise Refused (`not_supported`) if the engine lacks a capability.

    `name` is a field of Capabilities, `field` the input at fault if there is one.
    """
    if not getattr(capabilities, name):
        raise lacking(name, field=field)


def lacking(name: str, *, field: str = "") -> Refused:
    """The refusal (`not_supported`) by an engine that lacks a capability; as `require`."""
    lack = LACKS[name]
    return not_supported(lack.detail, field=field or name, remedy=lack.remedy)
