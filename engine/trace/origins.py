"""Reads the origin of a record: the place it left, and the kind of record it is."""

from engine.message import (
    REAL_TOPIC,
    REDRIVEN_FROM,
    REDRIVEN_JOB,
    SOURCE,
    StoredMessage,
)
from engine.topic.names import (
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)

Place = tuple[str, int, int]  # topic, queue, offset

REPLAY_PREFIX = "replay:"
HAND_OUT_PARTS = 5  # group, topic, queue, offset, serial
WAITING_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
TRANSACTION_TOPICS = frozenset({HALF_TOPIC, GIVEN_UP_TOPIC, OP_TOPIC})


def place_of(record: StoredMessage) -> Place:
    """Where the record lies."""
    return record.topic, record.queue, record.offset


def places_left(record: StoredMessage) -> list[Place]:
    """The places whose messages this record replaces; none for one as it was sent."""
    source = record.properties.get(SOURCE, "")
    try:
        if source.startswith(REPLAY_PREFIX):
            topic, queue, offset = record.properties.get(REDRIVEN_FROM, "").rsplit("@", 2)
            return [(topic, int(queue), int(offset))]
        parts = source.split("@")
        if len(parts) == HAND_OUT_PARTS and parts[0]:
            return [(parts[1], int(parts[2]), int(parts[3]))]
        if source.startswith("@"):
            return _moved(parts[1], int(parts[2]), parts[3])
    except (ValueError, IndexError):
        pass  # no source of ours: a log that something else wrote
    return []


def _moved(topic: str, queue: int, rest: str) -> list[Place]:
    if topic != HALF_TOPIC:
        return [(topic, queue, int(rest.partition(",")[0]))]
    root, half_offsets, given_up, _ = rest.split(";", 3)
    places = [
        (HALF_TOPIC, queue, int(each)) for each in (root, *filter(None, half_offsets.split(",")))
    ]
    return places + [
        (GIVEN_UP_TOPIC, queue, int(each)) for each in filter(None, given_up.split(","))
    ]


def job_of(record: StoredMessage) -> str:
    """The replay job that wrote this very record; empty for any other."""
    properties = record.properties
    is_copy = properties.get(SOURCE, "").startswith(REPLAY_PREFIX)
    return properties.get(REDRIVEN_JOB, "") if is_copy else ""


def is_original(record: StoredMessage) -> bool:
    """Whether its producer's send wrote it."""
    return not record.properties.get(SOURCE) and not group_of(record.topic)


def bound_for(record: StoredMessage) -> str:
    """The topic that a waiting record is going to; its own for any other."""
    return record.properties.get(REAL_TOPIC, "") if is_waiting(record) else record.topic


def is_waiting(record: StoredMessage) -> bool:
    """Whether it lies where messages wait for their time or for a decision."""
    return record.topic in WAITING_TOPICS or record.topic in TRANSACTION_TOPICS


def group_of(topic: str) -> str:
    """The group whose retry or dead-letter topic this is; empty for any other."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return ""
