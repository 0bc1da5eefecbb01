"""Finds in the log which delayed messages Apache RocketMQ already delivered.

RocketMQ saves the progress of its delays only from time to time, so after a kill its files are
late. A delivered record keeps the properties of the waiting one, which identify it.
"""

from typing import Any, NamedTuple

from engine.message import (
    DELAY,
    REAL_TOPIC,
    UNIQ_KEY,
    StoredMessage,
)
from engine.schedule.timer import TIMER_DEQUEUE_MS, TIMER_OUT_MS, TIMER_ROLL_TIMES
from engine.topic.names import CLOSED_TOPICS, OP_TOPIC, TIMER_TOPIC
from engine.txn.half_messages import COMMIT_BIT, TRANSACTION_BITS

NOTES_MAX = 1_000_000  # of each kind
LATE_MS = 10_000  # RocketMQ writes down every second how far its timers are
DELETED = "TIMER_DEL_UNIQKEY"


class DelayedMessage(NamedTuple):
    """The last message that left a delay level: what it says, and where its record lies."""

    topic: str
    message_id: str
    attempt: int
    position: int
    end: int


class TimedMessage(NamedTuple):
    """A message of the timer queue: bound for where, under which id, due when, moved how often."""

    topic: str
    message_id: str
    due: str
    moved: int


class LogFindings:
    """`note` is shown every record of another broker's, in the order of the log."""

    def __init__(self) -> None:
        self.read_ms = 0  # timers that were due earlier are known to be delivered
        self.half_floor = 0  # half messages before this offset are known to be decided
        self.levels: dict[int, DelayedMessage] = {}
        self.timers: dict[TimedMessage, int] = {}  # to where their delivered record ends
        self.recalled: set[str] = set()  # "topic+id"
        self.half_offsets: set[int] = set()  # offsets that an op record names
        self.prepared: set[int] = set()  # positions of half messages that were committed

    @property
    def is_full(self) -> bool:
        """Whether there was more than is kept."""
        kinds = (self.timers, self.recalled, self.half_offsets, self.prepared)
        return max(map(len, kinds)) >= NOTES_MAX

    def note(self, message: StoredMessage) -> None:
        """Look at one record."""
        if message.topic == OP_TOPIC:
            self._note_op(message)
        elif message.topic == TIMER_TOPIC:
            self._note_moved(message)
        elif message.prepared_position and message.sys_flag & TRANSACTION_BITS == COMMIT_BIT:
            self._keep(self.prepared, message.prepared_position)
        elif message.topic not in CLOSED_TOPICS:
            self._note_delivered(message)

    def is_recalled(self, topic: str, message_id: str) -> bool:
        return f"{topic}+{message_id}" in self.recalled or message_id in self.recalled

    def _note_op(self, message: StoredMessage) -> None:
        for text in message.body.split(b","):
            if text.isdigit() and len(text) < 19 and int(text) >= self.half_floor:
                self._keep(self.half_offsets, int(text))

    def _note_moved(self, message: StoredMessage) -> None:
        properties = message.properties
        moved = _whole(properties.get(TIMER_ROLL_TIMES, ""))
        if moved:
            place = timed_message(message, properties.get(REAL_TOPIC, ""))
            self._keep_timer(place._replace(moved=moved - 1), message)
        if DELETED in properties:
            self._keep(self.recalled, properties[DELETED])

    def _note_delivered(self, message: StoredMessage) -> None:
        if message.property_block.find(REAL_TOPIC.encode()) < 0:
            return
        properties = message.properties
        if properties.get(REAL_TOPIC, "") != message.topic:
            return
        level = _whole(properties.get(DELAY, ""))
        end = message.position + message.size_bytes
        if level:
            self.levels[level] = DelayedMessage(
                message.topic,
                properties.get(UNIQ_KEY, ""),
                message.attempt,
                message.position,
                end,
            )
        elif TIMER_DEQUEUE_MS in properties:
            is_late = message.stored_ms >= self.read_ms - LATE_MS
            if is_late or _whole(properties.get(TIMER_OUT_MS, "")) >= self.read_ms:
                self._keep_timer(timed_message(message, message.topic), message)

    def _keep_timer(self, place: TimedMessage, message: StoredMessage) -> None:
        if len(self.timers) < NOTES_MAX:
            self.timers[place] = message.position + message.size_bytes

    def _keep(self, values: set[Any], value: object) -> None:
        if len(values) < NOTES_MAX:
            values.add(value)


def timed_message(message: StoredMessage, topic: str) -> TimedMessage:
    """What tells a message that waits, or waited, for its time from all others."""
    properties = message.properties
    moved = _whole(properties.get(TIMER_ROLL_TIMES, ""))
    due = properties.get(TIMER_OUT_MS, "")
    return TimedMessage(topic, properties.get(UNIQ_KEY, ""), due, moved)


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else 0
