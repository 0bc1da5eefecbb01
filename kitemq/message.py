"""Messages to send, with their options, and the server's results."""

import base64
import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict, TypeVar

import msgspec

from kitemq.errors import Invalid
from kitemq.model.produce import NewMessage
from kitemq.model.topics import Durability
from kitemq.protocol.properties import EVENT_MS
from kitemq.protocol.sends import DurabilityCode, SendFrame

DURABILITY_CODES = {
    None: DurabilityCode.DEFAULT,
    Durability.STORED: DurabilityCode.STORED,
    Durability.FLUSHED: DurabilityCode.FLUSHED,
    Durability.REPLICATED: DurabilityCode.REPLICATED,
}
DURABILITIES: dict[int, Durability] = {
    DurabilityCode.STORED: Durability.STORED,
    DurabilityCode.FLUSHED: Durability.FLUSHED,
    DurabilityCode.REPLICATED: Durability.REPLICATED,
}

ENTRY_BYTES = 96  # what a message costs besides its body, about

N = TypeVar("N", bound=NewMessage)


class MessageOptions(TypedDict, total=False):
    """The options of `Message` as keyword arguments of `send` and its like."""

    tag: str
    keys: Iterable[str] | str
    properties: Mapping[str, str] | None
    message_group: str
    delay_level: int
    event_ms: int | None
    delay_ms: int
    deliver_at_ms: int


class Message(msgspec.Struct, kw_only=True):
    """A message to send; all but `body` are options. A body as text is written in UTF-8.

    `tag` is what consumers filter by, `keys` find the message again, `properties` are texts by
    name. `message_group` keeps order within a FIFO topic. `event_ms` (ms since 1970 UTC) says when
    what it tells of happened.

    One kind of delay at most: `delay_level` (1 to 18, 1 s to 2 h); `delay_ms` delivers it so many
    milliseconds after the server has got it; `deliver_at_ms` not before that time (ms since 1970
    UTC). The last two reach at most a year ahead.
    """

    body: bytes | str
    tag: str = ""
    keys: Iterable[str] | str = ()
    properties: Mapping[str, str] | None = None
    message_group: str = ""
    delay_level: int = 0
    event_ms: int | None = None
    delay_ms: int = 0
    deliver_at_ms: int = 0


OPTIONS = tuple(name for name in Message.__struct_fields__ if name != "body")


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The position of an accepted message, and its durability."""

    message_id: str
    topic: str
    queue: int
    offset: int
    position: int
    durability: Durability


# A message as a row of `SendFrame`'s columns: body, tag, keys (blank separated), message group,
# properties, delay level, born ms, delay ms, deliver at ms.
Entry = tuple[bytes, str, str, str, dict[str, str], int, int, int, int]


def entry_of(message: Message) -> Entry:
    """The row of columns that one message becomes; raises Invalid for what cannot be written."""
    body, keys, own_properties = message.body, message.keys, message.properties
    properties = checked_properties(own_properties) if own_properties else {}
    if message.event_ms is not None:
        properties[EVENT_MS] = str(message.event_ms)
    return (
        body if type(body) is bytes else checked_bytes(body),
        message.tag,
        " ".join(checked_keys(keys)) if keys else "",
        message.message_group,
        properties,
        message.delay_level,
        time.time_ns() // 1_000_000,
        message.delay_ms,
        message.deliver_at_ms,
    )


def is_ordered(entry: Entry) -> bool:
    """Whether the message has a message group."""
    return bool(entry[3])


def entry_bytes(entry: Entry) -> int:
    """About what a message takes in memory and on the wire."""
    size = ENTRY_BYTES + len(entry[0]) + len(entry[2])
    if entry[4]:
        size += sum(map(len, entry[4])) + sum(map(len, entry[4].values()))
    return size


def send_frame(
    topic: str,
    entries: list[Entry],
    *,
    durability: Durability | None,
    queue: int,
    id_prefix: str,
    id_first: int,
) -> SendFrame:
    """The frame that sends these messages together."""
    columns: Any = map(list, zip(*entries, strict=True))
    bodies, tags, keys, groups, properties, levels, born, delays, times = columns
    return SendFrame(
        topic,
        bodies,
        tags,
        keys,
        groups,
        properties,
        levels,
        [0] * len(bodies),
        born,
        durability=DURABILITY_CODES[durability],
        queue=queue,
        id_prefix=id_prefix,
        id_first=id_first,
        delay_ms=delays,
        deliver_at_ms=times,
    )


def new_message(message: Message, kind: type[N] = NewMessage, /, **others: Any) -> N:  # type: ignore[assignment]
    """The message as REST takes it, with other fields of `kind`; raises Invalid."""
    options = {name: getattr(message, name) for name in OPTIONS}
    options["keys"] = tuple(checked_keys(message.keys))
    options["properties"] = checked_properties(message.properties or {})
    text, encoding = body_text(message.body)
    return kind(body=text, encoding=encoding, **options, **others)


def body_text(body: bytes | str) -> tuple[str, Literal["utf-8", "base64"]]:
    """A body as REST takes it, with its encoding: text where it is UTF-8; raises Invalid."""
    data = checked_bytes(body)
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


def checked_bytes(body: object) -> bytes:
    """A body's bytes, text in UTF-8; raises Invalid for anything else."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    raise Invalid(f"a body is {type(body).__name__}", field="body", remedy="give bytes or text")


def checked_properties(properties: Mapping[Any, Any]) -> dict[str, str]:
    """Properties as a dict of one's own; raises Invalid for what is no text."""
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise Invalid(
                f"the property {name!r} is {type(value).__name__}",
                field=f"properties.{name}",
                remedy="properties are texts: convert it",
            )
    return dict(properties)


def checked_keys(keys: Iterable[str] | str) -> list[str]:
    """Keys as a list; raises Invalid for one that is empty or holds a blank."""
    several = [keys] if isinstance(keys, str) else list(keys)
    for key in several:
        if not key or " " in key:
            raise Invalid(
                f"the key {key!r} is empty or has a blank",
                field="keys",
                remedy="blanks separate keys: use another character",
            )
    return several
