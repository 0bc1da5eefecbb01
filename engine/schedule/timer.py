"""Exact delays: admission of messages that name the moment of their delivery.

A waiting record lies in RocketMQ's timer topic, names the topic and queue it is bound for, and its
queue entry holds when it is due instead of a tag's hash. `timer_deliver.py` brings it there.
Source: docs/rocketmq-rules.md#exact-times-of-delivery; unlike RocketMQ's, times are not rounded.
"""

import msgspec

from engine.errors import Invalid, Refused
from engine.message import (
    REAL_QID,
    REAL_TOPIC,
    Message,
    StoredMessage,
)
from engine.topic.names import CLOSED_TOPICS, TIMER_TOPIC

TIMER_QUEUE = 0
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
AHEAD_MAX_MS = 365 * 24 * 3600 * 1000


class TimerRule:
    """Asked by intake for every message that has a time of delivery, after it was routed."""

    def admit(self, message: Message, now_ms: int) -> Message:
        """The message to store instead: itself when it is due, else bound for the wait.

        Either way it keeps its time, which its consumers see. A delay level beats the time. Raises
        Invalid for a time over a year ahead, Refused for a message that is bound for a topic of
        the engine's own.
        """
        due_ms = message.deliver_at_ms
        if message.delay_level > 0 or due_ms <= 0:
            return message
        if due_ms <= now_ms:
            properties = {**message.properties, TIMER_OUT_MS: str(due_ms)}
            return msgspec.structs.replace(message, properties=properties)
        check_due(due_ms, now_ms)
        if message.topic in CLOSED_TOPICS:
            raise Refused(
                f"a message for {message.topic!r} cannot be delayed",
                field="deliver_at_ms",
                remedy="send it without a delay",
            )
        own = {REAL_TOPIC: message.topic, REAL_QID: str(message.queue), TIMER_OUT_MS: str(due_ms)}
        return msgspec.structs.replace(
            message,
            topic=TIMER_TOPIC,
            queue=TIMER_QUEUE,
            properties={**message.properties, **own},
        )


def check_due(due_ms: int, now_ms: int) -> None:
    """Invalid for a time of delivery that lies too far ahead."""
    if due_ms - now_ms > AHEAD_MAX_MS:
        raise Invalid(
            f"the time of delivery {due_ms} is over {AHEAD_MAX_MS} ms (a year) ahead",
            field="deliver_at_ms",
            remedy="give a time within a year, in ms since 1970 UTC",
            code="invalid_delay",
        )


def due_ms_of(message: Message | StoredMessage, stored_ms: int) -> int:
    """The third field of a queue entry of the timer topic; without a time it is due at once."""
    text = message.properties.get(TIMER_OUT_MS, "")
    return int(text) if text.isdecimal() and len(text) < 19 else stored_ms
