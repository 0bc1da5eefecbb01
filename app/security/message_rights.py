"""Who may see what a message says: its body, keys and properties, by topic.

A message that somebody may look at but not read is concealed: it keeps where and when it was
stored, its ids, size, tag and what became of it, and loses the rest. The right is
`read_messages` over the topic it lies in, or is bound for where it waits in one of the system's;
in a retry or dead-letter topic it is that of the group. Whoever may consume gets messages by
consuming, without this right.
"""

from collections.abc import Iterable

import msgspec

from app.security.access import Action, Principal, ResourceKind, lacks, require
from engine.compression import COMPRESSION_BITS
from engine.message import (
    KEYS,
    REAL_TOPIC,
    RESERVED,
    SHARDING_KEY,
    StoredMessage,
    join_properties,
)

# What a producer wrote, also where RocketMQ reserves the name.
SAID = frozenset({KEYS, SHARDING_KEY, "BUYER_ID", "TRACE_CONTEXT"})
SHOWN = RESERVED - SAID
SQL_PREFIX = "sql92:"


class Concealed(StoredMessage, gc=False):
    """A message without what it says; `missing` is the right for want of which."""

    missing: str = ""


def visible(who: Principal, message: StoredMessage) -> StoredMessage:
    """The message as `who` may see it: itself, or a concealed copy."""
    missing = lacks_message(who, message)
    return concealed(message, missing) if missing else message


def all_visible(who: Principal, messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    """Each message as `who` may see it."""
    if who.is_open:
        return list(messages)
    return [visible(who, message) for message in messages]


def found_for(who: Principal, text: str, messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    """What `who` gets of messages found by an id or a key: by an id each as it may be seen.

    By a key only what may be read, as finding it tells of the key.
    """
    return [
        visible(who, message)
        for message in messages
        if text in (message.message_id, message.offset_id) or not lacks_message(who, message)
    ]


def lacks_message(who: Principal, message: StoredMessage) -> str:
    """The right that `who` lacks to read the message, as text; "" where it may be read."""
    return "" if who.is_open else lacks_messages(who, _topic(message))


def lacks_messages(who: Principal, topic: str) -> str:
    """The right that `who` lacks to read messages of a topic, as text; "" for none."""
    return lacks(who, Action.READ_MESSAGES, ResourceKind.TOPIC, topic)


def require_message(who: Principal, *messages: StoredMessage) -> None:
    """Raise RightMissing unless `who` may read each of the messages."""
    if not who.is_open:
        for message in messages:
            require(who, Action.READ_MESSAGES, ResourceKind.TOPIC, _topic(message))


def require_messages(who: Principal, topic: str) -> None:
    """Raise RightMissing unless `who` may read messages of the topic."""
    require(who, Action.READ_MESSAGES, ResourceKind.TOPIC, topic)


def looks_inside(filter: str) -> bool:
    """Whether a filter's outcome tells what properties hold; tags are for everybody to see."""
    return filter.strip().lower().startswith(SQL_PREFIX)


def missing_right(message: StoredMessage) -> str:
    """The right for want of which a message is concealed; "" where it is not."""
    return message.missing if isinstance(message, Concealed) else ""


def concealed(message: StoredMessage, missing: str) -> Concealed:
    """A copy without body, keys and the producer's properties, which names the missing right."""
    shown = {name: value for name, value in message.properties.items() if name in SHOWN}
    kept = msgspec.structs.asdict(message)
    kept |= {"body": b"", "parsed": shown, "property_block": join_properties(shown).encode()}
    # Neither what the body decompressed to, nor how it was compressed.
    kept |= {"decompressed": None, "sys_flag": message.sys_flag & ~COMPRESSION_BITS}
    return Concealed(**kept, missing=missing)


def _topic(message: StoredMessage) -> str:
    """Whose right counts: where a message is bound for that waits in one of the system's topics."""
    return message.properties.get(REAL_TOPIC, message.topic)
