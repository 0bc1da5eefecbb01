"""Request and reply: what is asked, what comes back, and the client's part over REST."""

import base64
from collections.abc import Mapping
from urllib.parse import quote
from uuid import uuid4

import msgspec

from kitemq.connection import Connection
from kitemq.errors import Invalid, KiteError, NoReply, Unreachable
from kitemq.message import Message, body_document, checked_properties, document_of
from kitemq.model.conversion import convert, decoded
from kitemq.model.requests import KeptReply, ReplyState, RequestAnswer
from kitemq.rest import Json, RestConnection

TIMEOUT_S = 10.0
TIMEOUT_MAX_S = 30.0
ANSWER_EXTRA_S = 5.0  # beyond the request's time, before its answer counts as lost
TIMEOUT_CODE = "timeout"


class Reply(msgspec.Struct, frozen=True):
    """The reply to a request. `message_id` is its own; `late`: nobody waited when it came."""

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


class Requesting(RestConnection):
    """What a client can ask over a topic, and answer, without a connection."""

    def request(
        self,
        topic: str,
        message: Message | bytes | str,
        *,
        timeout_s: float = TIMEOUT_S,
        correlation_id: str = "",
    ) -> Reply:
        """Send a message and wait up to `timeout_s` (30) for the reply to it.

        Raises NoReply after that; its `correlation_id` finds a reply that comes later.
        """
        correlation_id = correlation_id or uuid4().hex
        document = request_document(message, timeout_s, correlation_id)
        path = f"/topics/{quote(topic, safe='')}/request"
        try:
            answer = self._typed(RequestAnswer, "POST", path, json=document, wait_s=timeout_s)
        except KiteError as error:
            raise failure_of(error, correlation_id) from None
        return reply_of(answer)

    def reply(
        self,
        body: bytes | str,
        *,
        correlation_id: str = "",
        receipt: str = "",
        tag: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Answer a request, named by its correlation id or by the receipt that it came with.

        "delivered"; "late" where nobody waits any more: it is kept; "already" where the request
        was answered before.
        """
        named = {"correlation_id": correlation_id, "receipt": receipt}
        document = {**reply_document(body, tag, properties), **_given(named)}
        return self._typed(ReplyState, "POST", "/replies", json=document).result

    def find_reply(self, correlation_id: str) -> Reply:
        """The reply to a request, late or not, while it is kept; NotFound where there is none."""
        path = f"/replies/{quote(correlation_id, safe='')}"
        kept = self._typed(KeptReply, "GET", path, params={"encoding": "base64"})
        return reply_of(kept, late=kept.late)


async def ask(
    connection: Connection, topic: str, message: Message | bytes | str, timeout_s: float
) -> Reply:
    """Send a request over an open connection and wait for its reply; raises NoReply."""
    correlation_id = uuid4().hex
    document = request_document(message, timeout_s, correlation_id)
    path = f"/topics/{quote(topic, safe='')}/request"
    try:
        answer = await connection.call("POST", path, document, timeout_s=timeout_s + ANSWER_EXTRA_S)
    except KiteError as error:
        raise failure_of(error, correlation_id) from None
    return reply_of(msgspec.convert(answer, RequestAnswer, dec_hook=decoded))


def request_document(message: Message | bytes | str, timeout_s: float, correlation_id: str) -> Json:
    """The body of POST /topics/{topic}/request; raises Invalid for what cannot be written."""
    check_timeout(timeout_s)
    given = message if isinstance(message, Message) else Message(body=message)
    timeout_ms = max(1, round(timeout_s * 1000))
    return {
        "message": document_of(given),
        "timeout_ms": timeout_ms,
        "correlation_id": correlation_id,
    }


def check_timeout(timeout_s: float) -> None:
    """Raise Invalid for a time that no request may take."""
    if not 0 < timeout_s <= TIMEOUT_MAX_S:
        raise Invalid(
            f"timeout_s is {timeout_s}",
            field="timeout_s",
            remedy=f"more than 0 and at most {TIMEOUT_MAX_S:g} seconds",
        )


def reply_document(body: bytes | str, tag: str, properties: Mapping[str, str] | None) -> Json:
    """The body of POST /replies but for the request's name; raises Invalid."""
    return {**body_document(body), "tag": tag, "properties": checked_properties(properties or {})}


def reply_of(answer: RequestAnswer | KeptReply, *, late: bool = False) -> Reply:
    """The reply in an answer of the REST interface."""
    stored = answer.reply
    is_base64 = stored.encoding == "base64"
    body = base64.b64decode(stored.body) if is_base64 else stored.body.encode()
    return convert(stored, Reply, body=body, correlation_id=answer.correlation_id, late=late)


def failure_of(error: KiteError, correlation_id: str) -> KiteError:
    """The error of a request: NoReply where it was, or may have been, sent."""
    if error.code != TIMEOUT_CODE and not isinstance(error, Unreachable):
        return error
    return NoReply(error.detail, correlation_id)


def _given(texts: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}
