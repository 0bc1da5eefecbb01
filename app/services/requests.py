"""Sends requests over a topic and waits for their replies; replies to received requests."""

from collections.abc import Callable
from typing import NamedTuple

from app.errors import ReplyTimeout
from app.messaging import Messaging
from app.server_host import ServerHost
from engine.broker import PendingRequest, RequestCounts, RequestReply
from engine.errors import Invalid, Stopping
from engine.message import Message, StoredMessage
from kitemq.model.numbers import is_whole

GRACE_S = 1.0  # the engine says itself when the time is over; this is for one that does not tick
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
TTL_DIGITS_MAX = 9


class Answered(NamedTuple):
    """A request with its reply."""

    request: PendingRequest
    reply: StoredMessage


class Requests:
    """Requests and replies for every endpoint; the engine stores them."""

    def __init__(self, host: ServerHost, messaging: Messaging) -> None:
        self._host = host
        self._messaging = messaging

    @property
    def engine(self) -> RequestReply:
        """The engine's own verbs, for endpoints that wait by themselves, reply or look."""
        return self._host.broker.requests

    @property
    def counts(self) -> RequestCounts:
        """How many requests wait, and how the others ended since the start."""
        return self.engine.counts

    async def ask(
        self, message: Message, *, timeout_ms: int, client: str, correlation_id: str = ""
    ) -> Answered:
        """Send a request and wait for its reply.

        Raises ReplyTimeout after `timeout_ms`, Stopping when the server stops meanwhile, and what
        `broker.requests.request` raises. Cancelling it leaves a late reply to be fetched.
        """
        begun: list[PendingRequest] = []

        def begin(wake: Callable[[], None]) -> PendingRequest:
            request = self.engine.request(
                message,
                timeout_ms=timeout_ms,
                client=client,
                on_end=wake,
                correlation_id=correlation_id,
            )
            begun.append(request)
            return request

        is_over = await self._host.wait(begin, timeout_ms / 1000 + GRACE_S)
        request = begun[0] if begun else None
        if request is not None and request.reply is not None:
            return Answered(request, request.reply)
        if request is None or not (is_over or self._host.is_ready):
            raise Stopping("the server is stopping", retry_after_s=5.0)
        raise ReplyTimeout(request.correlation_id, timeout_ms)

    async def request_at(self, topic: str, queue: int, offset: int) -> StoredMessage:
        """The request that was received from there; MessageNotFound, Invalid where it is none."""
        message = await self._messaging.message(topic, queue, offset)
        if not message.properties.get(CORRELATION_ID):
            raise Invalid(
                "the message is no request: it has no correlation id",
                field="receipt",
                remedy="reply to what was sent with POST /topics/{topic}/request",
            )
        return message


def ttl_ms_of(request: StoredMessage) -> int:
    """For how long its requester waits; 0 where the message does not say."""
    text = request.properties.get(TTL, "")
    is_number = is_whole(text, TTL_DIGITS_MAX)
    return int(text) if is_number else 0
