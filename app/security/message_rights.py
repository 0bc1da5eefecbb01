"""The right to read the content of messages (body, keys, properties), by topic.

Without it, a message is concealed: its position, times, ids, size, tag and delivery state remain,
the rest is removed. The right is `read_messages` over the message's topic, or over its target
topic while it waits in a system topic; for a retry or dead-letter topic it is that of the group.
Consuming needs no such right.
"""

from collections.abc import Iterable

import msgspec

from app.security.access import Action, Kind, Principal, lacks, require
from engine.compression import COMPRESSION_BITS
from engine.message import KEYS, REAL_TOPIC, RESERVED, SHARDING_KEY, StoredMessage, join_properties

# Written by producers, although RocketMQ reserves these names.
CONTENT_PROPERTIES = frozenset({KEYS, SHARDING_KEY, "BUYER_ID", "TRACE_CONTEXT"})
VISIBLE_PROPERTIES = RESERVED - CONTENT_PROPERTIES
SQL_PREFIX = "sql92:"


class Concealed(StoredMessage, gc=False):
    """A message without its content; `missing` is the right that the reader lacks."""

    missing: str = ""


def visible(principal: Principal, message: StoredMessage) -> StoredMessage:
    """The message, or a concealed copy if `principal` may not read it."""
    missing = lacks_message(principal, message)
    return concealed(message, missing) if missing else message


def all_visible(principal: Principal, messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    """Each message, concealed where `principal` may not read it."""
    if principal.is_open:
        return list(messages)
    return [visible(principal, message) for message in messages]


def visible_matches(
    principal: Principal, text: str, messages: Iterable[StoredMessage]
) -> list[StoredMessage]:
    """The result of a search by id or key for `principal`.

    Matches by id may be concealed; matches by key must be readable, as a match reveals the key.
    """
    return [
        visible(principal, message)
        for message in messages
        if text in (message.message_id, message.offset_id) or not lacks_message(principal, message)
    ]


def lacks_message(principal: Principal, message: StoredMessage) -> str:
    """The right that `principal` lacks to read the message; "" if allowed."""
    return "" if principal.is_open else lacks_messages(principal, _topic(message))


def lacks_messages(principal: Principal, topic: str) -> str:
    """The right that `principal` lacks to read messages of a topic; "" if allowed."""
    return lacks(principal, Action.READ_MESSAGES, Kind.TOPIC, topic)


def require_message(principal: Principal, *messages: StoredMessage) -> None:
    """Raise RightMissing unless `principal` may read each of the messages."""
    if not principal.is_open:
        for message in messages:
            require(principal, Action.READ_MESSAGES, Kind.TOPIC, _topic(message))


def require_messages(principal: Principal, topic: str) -> None:
    """Raise RightMissing unless `principal` may read messages of the topic."""
    require(principal, Action.READ_MESSAGES, Kind.TOPIC, topic)


def looks_inside(filter: str) -> bool:
    """Whether a filter's result reveals properties; tags are visible to all."""
    return filter.strip().lower().startswith(SQL_PREFIX)


def missing_right(message: StoredMessage) -> str:
    """The right that is missing for a concealed message; "" if it is not concealed."""
    return message.missing if isinstance(message, Concealed) else ""


def concealed(message: StoredMessage, missing: str) -> Concealed:
    """A copy without body, keys and the producer's properties, which names the missing right."""
    properties = {
        name: value for name, value in message.properties.items() if name in VISIBLE_PROPERTIES
    }
    fields = msgspec.structs.asdict(message)
    fields |= {
        "body": b"",
        "parsed": properties,
        "property_block": join_properties(properties).encode(),
    }
    # Neither what the body decompressed to, nor how it was compressed.
    fields |= {"decompressed": None, "sys_flag": message.sys_flag & ~COMPRESSION_BITS}
    return Concealed(**fields, missing=missing)


def _topic(message: StoredMessage) -> str:
    """The topic whose right applies: the target, for a message that waits in a system topic."""
    return message.properties.get(REAL_TOPIC, message.topic)
