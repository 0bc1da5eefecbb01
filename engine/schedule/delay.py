"""Admission of delayed messages: they wait in a system topic, one queue for each level.

A waiting record names the topic and queue it is bound for, and its queue entry holds when it is
due instead of a tag's hash. `deliver.py` brings it there.
"""

import msgspec

from engine.errors import Refused
from engine.message import DELAY, REAL_QID, REAL_TOPIC, Message
from engine.schedule.levels import DelayLevels
from engine.topic.names import CLOSED_TOPICS, SCHEDULE_TOPIC


class DelayRule:
    """Asked by intake for every message that has a delay level, after it was routed."""

    def __init__(self, levels: DelayLevels) -> None:
        self._levels = levels

    def admit(self, message: Message, now_ms: int) -> Message:
        """The message to store instead: itself when there is no wait, else bound for the wait.

        Raises Refused for a message that is bound for a topic of the engine's own.
        """
        level = self._levels.clamp(message.delay_level)
        if level == 0 or message.topic == SCHEDULE_TOPIC:
            return message
        if message.topic in CLOSED_TOPICS:
            raise Refused(
                f"a message for {message.topic!r} cannot be delayed",
                field="delay_level",
                remedy="send it without a delay",
            )
        place = {DELAY: str(level), REAL_TOPIC: message.topic, REAL_QID: str(message.queue)}
        return msgspec.structs.replace(
            message,
            topic=SCHEDULE_TOPIC,
            queue=level - 1,
            delay_level=level,
            properties={**message.properties, **place},
        )
