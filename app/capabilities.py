"""What the engine behind `app.messaging` can do, and the refusal of what it cannot.

The embedded engine can do all of it. `app.messaging` gives the table, endpoints and services ask it
where another engine may have no answer.
"""

from typing import NamedTuple

from engine.errors import Refused
from kitemq.model.server import Capabilities

NOT_SUPPORTED = "not_supported"
EMBEDDED = Capabilities(
    exact_timers=True,
    timer_changes=True,
    message_acks=True,
    sql_filters=True,
    transaction_queries=True,
    dead_letter_replays=True,
    uncounted_releases=True,
    member_shares=True,
)


class Lack(NamedTuple):
    """How the lack of a capability is refused: what the engine does not do, and a way around."""

    detail: str
    remedy: str


LACKS = {
    "exact_timers": Lack("delivers at no exact time", "choose a delay level"),
    "timer_changes": Lack(
        "neither lists nor changes messages that wait for their time",
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
}


def require(capabilities: Capabilities, name: str, *, field: str = "") -> None:
    """Raise Refused (`not_supported`) if the engine lacks a capability.

    `name` is a field of Capabilities, `field` the input at fault if there is one.
    """
    if not getattr(capabilities, name):
        lack = LACKS[name]
        raise Refused(
            f"the engine behind this server {lack.detail}",
            field=field or name,
            remedy=lack.remedy,
            code=NOT_SUPPORTED,
        )
