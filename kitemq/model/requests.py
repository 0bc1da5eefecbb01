"""Replies to requests, their results, and the answer to the requester."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kitemq.model.messages import Stored
from kitemq.model.produce import NewMessage

TIMEOUT_MS_MAX = 30_000
TIMEOUT_MS_DEFAULT = 10_000

CorrelationId = Annotated[
    str,
    Meta(
        max_length=64,
        pattern="^[A-Za-z0-9_-]*$",
        description="At most 64 letters, digits, `_` and `-`.",
    ),
]


class NewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message to which a reply is wanted."""

    message: NewMessage
    timeout_ms: Annotated[
        int, Meta(ge=1, le=TIMEOUT_MS_MAX, description="How long to wait for the reply.")
    ] = TIMEOUT_MS_DEFAULT
    correlation_id: CorrelationId = ""
    client: Annotated[str, Meta(max_length=255, description="Who asks; told to who replies.")] = ""


class RequestAnswer(msgspec.Struct, frozen=True):
    """The reply to a request; `message_id` is the request's own."""

    correlation_id: str
    message_id: str
    reply: Stored


class NewReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A reply to a request, which is named by its correlation id or by the receipt it came with."""

    body: Annotated[str, Meta(description="At most 4 MiB; text, or base64 where so said.")]
    correlation_id: CorrelationId = ""
    receipt: Annotated[str, Meta(description="Settling it before does no harm.")] = ""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    tag: str = ""
    properties: dict[str, str] = {}


class ReplyState(msgspec.Struct, frozen=True):
    """The result of a reply.

    delivered: to the requester; late: the requester no longer waits, and the reply is stored;
    already: the request was answered before, and nothing was stored. `message_id` is that of the
    stored reply.
    """

    correlation_id: str
    result: str
    message_id: str | None


class StoredReply(msgspec.Struct, frozen=True):
    """A stored reply. `late`: the requester no longer waited."""

    correlation_id: str
    late: bool
    reply: Stored


class RequestTotals(msgspec.Struct, frozen=True):
    """Requests since the start: how many wait, and how the others ended.

    `late` and `duplicates` count replies: those that came too late, and those not stored
    because the request was answered before.
    """

    waiting: int
    sent: int
    answered: int
    expired: int
    cancelled: int
    late: int
    duplicates: int
