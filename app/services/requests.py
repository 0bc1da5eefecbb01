"""What endpoints read of a request's message."""

from app.messaging import Messaging
from engine.errors import Invalid
from engine.message import StoredMessage
from kitemq.model.numbers import is_whole

CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
TTL_DIGITS_MAX = 9


async def request_at(messaging: Messaging, topic: str, queue: int, offset: int) -> StoredMessage:
    """The request that was received from there; MessageNotFound, Invalid where it is none."""
    message = await messaging.message(topic, queue, offset)
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
