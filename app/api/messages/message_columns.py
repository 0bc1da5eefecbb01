"""A JSON batch as columns, where its messages are plain, as nearly all are.

It is then stored without an object of the engine's for each message; see `engine.message_columns`.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from operator import attrgetter
from struct import pack

from engine.message import Message
from engine.message_columns import SHARED, MessageColumns
from engine.plain_columns import COLUMNS_COUNT_MIN
from kitemq.model.produce import NewMessage

TEXT_BYTES_MAX = 1024  # of a tag or of the keys in a column
SPECIAL = (
    *("message_group", "delay_level", "delay_ms", "deliver_at_ms", "id"),
    *("transaction_group", "check_immunity_s"),
)
_special = attrgetter(*SPECIAL)
_others = attrgetter(*SPECIAL, "event_ms", "queue", "born_ms", "properties", "encoding")


def columns_of(
    topic: str,
    listed: Sequence[NewMessage],
    born_host: str,
    messages: Callable[[], Sequence[Message]],
) -> MessageColumns | None:
    """The messages as columns; None where one has to be looked at more closely.

    `messages` makes the engine's objects of them, should it want them after all.
    """
    count = len(listed)
    if count < COLUMNS_COUNT_MIN or not _are_alike(listed):
        return None
    try:
        bodies = _bodies(listed)
    except (Base64Error, ValueError):
        return None
    tags, keys = _texts([new.tag for new in listed]), _texts(_keys(listed))
    if tags is None or keys is None:
        return None
    lengths = [len(body) for body in bodies]
    parts = [pack(f">{count}I", *lengths), *bodies, tags, keys]
    tags_at = 4 * count + sum(lengths)
    keys_at = tags_at + len(tags)
    first = listed[0]
    return MessageColumns(
        topic=topic,
        queue=first.queue,
        count=count,
        data=b"".join(parts),
        bodies_at=0,
        body_bytes=sum(lengths),
        messages=messages,
        tags_at=tags_at if tags else SHARED,
        keys_at=keys_at if keys else SHARED,
        tag=first.tag,
        keys=first.keys,
        properties=first.properties,
        born_ms=first.born_ms,
        born_host=born_host,
    )


def _are_alike(listed: Sequence[NewMessage]) -> bool:
    """Whether all messages differ in bodies, tags and keys only, and none is special."""
    first = listed[0]
    if first.event_ms is not None or any(_special(first)):
        return False
    others = list(map(_others, listed))
    return others.count(others[0]) == len(others)


def _bodies(listed: Sequence[NewMessage]) -> list[bytes]:
    """The bodies, which all have one encoding; raises ValueError."""
    if listed[0].encoding == "utf-8":
        return [new.body.encode() for new in listed]
    return [b64decode(new.body, validate=True) for new in listed]


def _keys(listed: Sequence[NewMessage]) -> list[str]:
    """The keys of each as `_keys_of` gives them."""
    keys = [new.keys for new in listed]
    if keys.count(keys[0]) == len(keys):
        return [_keys_of(listed[0])] * len(keys)
    return [_keys_of(new) for new in listed]


def _keys_of(new: NewMessage) -> str:
    """The keys with a blank between each two; what is no ASCII where that would not tell them."""
    if not new.keys:
        return ""
    text = " ".join(new.keys)
    return text if tuple(text.split()) == new.keys else "\x80"


def _texts(texts: list[str]) -> bytes | None:
    """The texts as a column, empty where all share one; None where one needs a closer look."""
    joined = "".join(texts)
    if texts.count(texts[0]) == len(texts):
        return None if texts[0] == "\x80" else b""
    lengths = [len(text) for text in texts]
    if not joined.isascii() or max(lengths) > TEXT_BYTES_MAX:
        return None
    return pack(f">{len(texts)}H", *lengths) + joined.encode()
