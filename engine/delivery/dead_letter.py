"""Dead letters: messages that a group could not consume, kept with their cause in `%DLQ%group`.

Nothing consumes them by itself: they are read like any topic, and replayed by sending them again.
"""

from enum import StrEnum

from engine.delivery.retry import DeliveryFailure, failed_copy
from engine.message import (
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    FAILED_REASON,
    ORIGIN_MESSAGE_ID,
    Message,
    StoredMessage,
)
from engine.topic.names import dead_letter_topic, retry_topic


class DeadLetterReason(StrEnum):
    """Why a message was given up, as kept in its KITE_REASON property."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    REJECTED = "rejected"  # its consumer said that trying again is no use
    BROADCAST = "broadcast"  # nothing is retried there, and nothing kept


def dead_message(
    group: str,
    stored: StoredMessage,
    attempt: int,
    reason: DeadLetterReason,
    failure: DeliveryFailure,
) -> Message:
    """Builds the dead letter of a message whose delivery number `attempt` was the last.

    Its own `attempt` is one higher, so that RocketMQ's reconsumeTimes counts the failures.
    """
    message = failed_copy(group, stored, attempt, failure)
    message.topic = dead_letter_topic(group)
    properties = message.properties
    properties[DLQ_ORIGIN_TOPIC] = stored.origin_topic
    if stored.topic != retry_topic(group):
        properties[ORIGIN_MESSAGE_ID] = stored.offset_id
    properties[DLQ_ORIGIN_MESSAGE_ID] = properties.get(ORIGIN_MESSAGE_ID, stored.offset_id)
    properties[FAILED_REASON] = reason
    return message
