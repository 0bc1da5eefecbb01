"""Retries: delay and properties of a retried message, and the rule for sending one directly.

Its first retry waits for delay level 3 (10 s), each further one for the next level. The record
that comes back remembers the topic it was first sent to and the failure that it comes from.
Source: docs/rocketmq-rules.md#retries-and-dead-letters.
"""

from typing import NamedTuple, Protocol

import msgspec

from engine.delivery.group import GroupCatalog
from engine.delivery.locks import QueueLocks
from engine.errors import GroupNotFound, Invalid
from engine.message import (
    DELAY,
    FAILED_CLIENT,
    FAILED_ERROR,
    FAILED_REASON,
    MAX_RECONSUME_TIMES,
    NAME_SEPARATOR,
    ORIGIN_MESSAGE_ID,
    PROPERTY_SEPARATOR,
    REAL_QID,
    REAL_TOPIC,
    RETRY_TOPIC,
    SOURCE,
    Message,
    StoredMessage,
    copy_of,
)
from engine.topic.catalog import Catalog
from engine.topic.names import GROUP_QUEUE, RETRY_PREFIX, dead_letter_topic, retry_topic

LADDER_FIRST_LEVEL = 3
ERROR_BYTES_MAX = 1024
CLIENT_BYTES_MAX = 255
UNFIT = str.maketrans(dict.fromkeys(("\0", NAME_SEPARATOR, PROPERTY_SEPARATOR), " "))
# What the last journey of a message left on it and the next one sets anew.
JOURNEY = (DELAY, REAL_TOPIC, REAL_QID, SOURCE, FAILED_ERROR, FAILED_CLIENT, FAILED_REASON)


class RetryLevels(Protocol):
    """The delay levels; `schedule` has them."""

    @property
    def longest_ms(self) -> int: ...

    def delay_ms(self, level: int) -> int:
        """Wait of a level in ms: 0 for none, the longest for one past the last."""

    def level_for(self, delay_ms: int) -> int:
        """The smallest level that waits at least so long; 0 for no wait."""


class DeliveryFailure(NamedTuple):
    """Why a delivery failed; `serial` is the delivery's, 0 for a pulling client."""

    error: str
    client: str
    serial: int = 0


def attempt_of(group: str, stored: StoredMessage, failures: int = 0) -> int:
    """Number of the delivery to this group; deliveries to other groups do not count."""
    return failures + (stored.attempt if stored.topic == retry_topic(group) else 1)


def ladder_level(attempt: int) -> int:
    """The level that a message waits for after its delivery number `attempt` failed."""
    return LADDER_FIRST_LEVEL + attempt - 1


def is_exhausted(attempt: int, retry_max: int) -> bool:
    """Whether delivery number `attempt` was the last: RocketMQ's reconsumeTimes >= max."""
    return attempt - 1 >= retry_max


def retry_message(
    group: str,
    stored: StoredMessage,
    attempt: int,
    level: int,
    failure: DeliveryFailure,
    deliver_at_ms: int = 0,
) -> Message:
    """Builds the record from which delivery number `attempt` + 1 follows.

    It waits for a delay level, or until `deliver_at_ms` where the level is 0.
    """
    message = failed_copy(group, stored, attempt, failure)
    message.topic = retry_topic(group)
    message.delay_level = level
    message.deliver_at_ms = deliver_at_ms
    if stored.topic != message.topic:  # its first failure in this group
        message.properties[RETRY_TOPIC] = stored.topic
        message.properties[ORIGIN_MESSAGE_ID] = stored.offset_id
    return message


def failed_copy(
    group: str, stored: StoredMessage, attempt: int, failure: DeliveryFailure
) -> Message:
    """The message on its way to one of the group's topics, with the failure noted on it."""
    message = copy_of(stored)
    properties = message.properties
    for name in JOURNEY:
        properties.pop(name, None)
    message.queue = GROUP_QUEUE
    message.attempt = attempt + 1
    properties[SOURCE] = source_text(group, stored, failure.serial)
    if failure.error:
        properties[FAILED_ERROR] = property_text(failure.error, ERROR_BYTES_MAX)
    if failure.client:
        properties[FAILED_CLIENT] = property_text(failure.client, CLIENT_BYTES_MAX)
    return message


def source_text(group: str, stored: StoredMessage, serial: int) -> str:
    """Names the delivery that a record replaces: "group@topic@queue@offset@serial in hex"."""
    return f"{group}@{stored.topic}@{stored.queue}@{stored.offset}@{serial:x}"


def property_text(text: str, bytes_max: int) -> str:
    """`text` fit for a property: cut to size, without what the log keeps for itself."""
    clean = text.translate(UNFIT)
    encoded = clean.encode(errors="replace")
    return encoded[:bytes_max].decode(errors="ignore")


class RetryRule:
    """Admission to retry topics: a message that has used up its retries goes to the dead letters.

    A send to `%RETRY%group` is turned away at reconsumeTimes > max, one later than a retry that
    the engine makes itself; and, whatever the attempt, while a client of the group holds a queue
    lock: an orderly consumer sends there only what it gave up.
    """

    def __init__(self, groups: GroupCatalog, catalog: Catalog, locks: QueueLocks) -> None:
        self._groups = groups
        self._catalog = catalog
        self._locks = locks

    def admit(self, message: Message, now_ms: int) -> Message:
        """The message itself, maybe redirected; raises GroupNotFound, Invalid."""
        if not message.topic.startswith(RETRY_PREFIX):
            return message
        name = message.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(name)
        if group is None:
            raise GroupNotFound(
                f"there is no consumer group {name!r} to retry for",
                field="topic",
                remedy="create the group, or check the topic's name",
            )
        is_own = SOURCE in message.properties  # of the engine's making: a sender cannot set it
        is_spent = message.attempt - 1 > _retry_max(message, group.retry_max)
        if is_spent or (not is_own and self._locks.has_live(name)):
            topic = self._catalog.ensure_system(dead_letter_topic(name)).name
            return msgspec.structs.replace(message, topic=topic, queue=GROUP_QUEUE, delay_level=0)
        return message


def _retry_max(message: Message, default: int) -> int:
    stated = message.properties.get(MAX_RECONSUME_TIMES)
    if stated is None:
        return default
    try:
        return int(stated)
    except ValueError:
        raise Invalid(
            f"{MAX_RECONSUME_TIMES} is {stated!r}",
            field=f"properties.{MAX_RECONSUME_TIMES}",
            remedy="give a whole number",
        ) from None
