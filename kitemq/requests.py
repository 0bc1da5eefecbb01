"""Requests and their replies."""

from collections.abc import Mapping
from urllib.parse import quote
from uuid import uuid4

import msgspec

from kitemq.connection import ServerConnection
from kitemq.errors import Invalid, KiteError, NoReply, Unreachable
from kitemq.message import Message, body_text, checked_properties, new_message
from kitemq.model.conversion import convert, decoded
from kitemq.model.requests import NewReply, NewRequest, RequestAnswer, StoredReply

TIMEOUT_S = 10.0
TIMEOUT_MAX_S = 30.0
ANSWER_EXTRA_S = 5.0  # beyond the request's time, before its answer counts as lost
TIMEOUT_CODE = "timeout"


class Reply(msgspec.Struct, frozen=True):
    """The reply to a request. `message_id` is its own; `late`: the requester no longer waited."""

    body: bytes
    correlation_id: str
    message_id: str
    tag: str
    properties: dict[str, str]
    stored_ms: int
    late: bool = False

    @property
    def text(self) -> str:
        """The body as UTF-8; raises UnicodeDecodeError where it is none."""
        return self.body.decode()


async def ask(
    connection: ServerConnection, topic: str, message: Message | bytes | str, timeout_s: float
) -> Reply:
    """Send a request over an open connection and wait for its reply; raises NoReply."""
    correlation_id = uuid4().hex
    request = new_request(message, timeout_s, correlation_id)
    path = f"/topics/{quote(topic, safe='')}/request"
    try:
        answer = await connection.call("POST", path, request, timeout_s=timeout_s + ANSWER_EXTRA_S)
    except KiteError as error:
        raise failure_of(error, correlation_id) from None
    return reply_of(msgspec.convert(answer, RequestAnswer, dec_hook=decoded))


def new_request(
    message: Message | bytes | str, timeout_s: float, correlation_id: str
) -> NewRequest:
    """The body of POST /topics/{topic}/request; raises Invalid for what cannot be written."""
    check_timeout(timeout_s)
    request = message if isinstance(message, Message) else Message(body=message)
    return NewRequest(new_message(request), max(1, round(timeout_s * 1000)), correlation_id)


def check_timeout(timeout_s: float) -> None:
    """Raise Invalid for a time that no request may take."""
    if not 0 < timeout_s <= TIMEOUT_MAX_S:
        raise Invalid(
            f"timeout_s is {timeout_s}",
            field="timeout_s",
            remedy=f"more than 0 and at most {TIMEOUT_MAX_S:g} seconds",
        )


def new_reply(
    body: bytes | str,
    *,
    correlation_id: str = "",
    receipt: str = "",
    tag: str = "",
    properties: Mapping[str, str] | None = None,
) -> NewReply:
    """The body of POST /replies; raises Invalid for what cannot be written."""
    text, encoding = body_text(body)
    own = checked_properties(properties or {})
    return NewReply(text, correlation_id, receipt, encoding, tag, own)


def reply_of(answer: RequestAnswer | StoredReply, *, late: bool = False) -> Reply:
    """The reply in an answer of the REST interface."""
    others = {"body": answer.reply.content, "correlation_id": answer.correlation_id}
    return convert(answer.reply, Reply, late=late, **others)


def failure_of(error: KiteError, correlation_id: str) -> KiteError:
    """The error of a request: NoReply where it was, or may have been, sent."""
    if error.code != TIMEOUT_CODE and not isinstance(error, Unreachable):
        return error
    return NoReply(error.detail, correlation_id)
