"""A SEND in its three forms: the frame of columns, its answer, and the message of the text form."""

import base64
import binascii
import struct
from enum import IntEnum
from functools import cache
from typing import Annotated, Self

import msgspec
from msgspec import Meta, field

from kitemq.protocol.columns import (
    ProtocolError,
    put_blobs,
    put_maps,
    put_numbers,
    put_text,
    put_texts,
    take_blobs,
    take_maps,
    take_numbers,
    take_text,
    take_texts,
)
from kitemq.protocol.frames import Frame, check_count, ended, unpack

SEND = struct.Struct(">BiII")  # durability, queue, count, first number of the message ids
SENT = struct.Struct(">BI")  # durability, count
assert (SEND.size, SENT.size) == (13, 5)

# What the binary frames have room for: no number here can be one that they could not carry.
Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class DurabilityCode(IntEnum):
    """Durability of a send, required and reached (`engine.message.Durability`)."""

    DEFAULT = 0
    STORED = 1
    FLUSHED = 2
    REPLICATED = 3


class SendFrame(Frame, frozen=True):
    """Messages of one topic, stored in order by one write, all or none. Answer: SENT.

    | durability u8 | queue i32, -1 = any | count u32 | id first u32 | topic text | id prefix text |
    | text columns: tag, keys (separated by blanks), message group | maps column: properties |
    | number columns: delay level, flag, born ms | bytes column: bodies |
    | may be missing: number columns: delay ms, deliver at ms |

    A message waits for its level, or for so many ms from when the server reads it, or until a time
    (ms since 1970 UTC): one of the three at most, 0 in the others. The last two columns are left
    out where no message names them, and lists that are empty mean the same.

    With an id prefix the i-th message gets the id prefix + 8 upper-case hex digits of id first + i,
    so that a send which is repeated after a lost answer can be recognised; without one the server
    chooses ids and SENT tells them.
    """

    TYPE = 2
    topic: str
    bodies: list[bytes]
    tags: list[str]
    keys: list[str]
    groups: list[str]
    properties: list[dict[str, str]]
    delay_levels: list[int]
    flags: list[int]
    born_ms: list[int]
    durability: int = DurabilityCode.DEFAULT
    queue: int = -1
    id_prefix: str = ""
    id_first: int = 0
    delay_ms: list[int] = field(default_factory=list)
    deliver_at_ms: list[int] = field(default_factory=list)

    def payload(self) -> bytes:
        count = len(self.bodies)
        times = (self.delay_ms, self.deliver_at_ms)
        return b"".join(
            (
                SEND.pack(self.durability, self.queue, count, self.id_first),
                put_text(self.topic),
                put_text(self.id_prefix),
                put_texts(self.tags),
                put_texts(self.keys),
                put_texts(self.groups),
                put_maps(self.properties),
                put_numbers(self.delay_levels),
                put_numbers(self.flags),
                put_numbers(self.born_ms),
                put_blobs(self.bodies),
                *(map(put_numbers, times) if any(map(any, times)) else ()),
            )
        )

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        durability, queue, count, id_first = unpack(SEND, data, at)
        check_count(count)
        topic, at = take_text(data, at + SEND.size)
        prefix, at = take_text(data, at)
        tags, at = take_texts(data, at, count)
        keys, at = take_texts(data, at, count)
        groups, at = take_texts(data, at, count)
        properties, at = take_maps(data, at, count)
        levels, at = take_numbers(data, at, count)
        flags, at = take_numbers(data, at, count)
        born, at = take_numbers(data, at, count)
        bodies, at = take_blobs(data, at, count)
        delays: list[int] = []
        times: list[int] = []
        if at < len(data):
            delays, at = take_numbers(data, at, count)
            times, at = take_numbers(data, at, count)
            ended(data, at)
        return cls(
            topic, bodies, tags, keys, groups, properties, levels, flags, born,
            durability, queue, prefix, id_first, delays, times,
        )  # fmt: skip

    def message_ids(self) -> list[str]:
        """The id of each message; empty texts where the server is to choose."""
        return message_ids(self.id_prefix, self.id_first, len(self.bodies))


class SentFrame(Frame, frozen=True):
    """The answer to SEND: where each message stands, in the order given.

    | durability u8 | count u32 | number columns: queue, offset, position | text column: ids |

    The id column is empty where the ids follow from the send.
    """

    TYPE = 66
    durability: int
    queues: list[int]
    offsets: list[int]
    positions: list[int]
    ids: list[str]

    def payload(self) -> bytes:
        return b"".join(
            (
                SENT.pack(self.durability, len(self.offsets)),
                put_numbers(self.queues),
                put_numbers(self.offsets),
                put_numbers(self.positions),
                put_texts(self.ids),
            )
        )

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        durability, count = unpack(SENT, data, at)
        check_count(count)
        queues, at = take_numbers(data, at + SENT.size, count)
        offsets, at = take_numbers(data, at, count)
        positions, at = take_numbers(data, at, count)
        ids, at = take_texts(data, at, count)
        ended(data, at)
        return cls(durability, queues, offsets, positions, ids)


def message_ids(prefix: str, first: int, count: int) -> list[str]:
    """Ids of `count` messages: prefix and 8 upper-case hex digits; all empty without a prefix.

    Raises ProtocolError where the counter would pass 32 bits.
    """
    if not prefix:
        return [""] * count
    if first + count > 1 << 32:
        raise ProtocolError("the counter of the message ids has passed 32 bits: change the prefix")
    ids: list[str] = []
    while count > 0:  # the last three digits come from a table: one joining per id
        base = f"{prefix}{first >> 12:05X}"
        low = first & 0xFFF
        endings = _three_digits()[low : low + count]
        ids += [base + ending for ending in endings]
        first += len(endings)
        count -= len(endings)
    return ids


@cache
def _three_digits() -> list[str]:
    """What three hex digits can be: 0.2 MB that a server does without."""
    return [f"{number:03X}" for number in range(4096)]


class TextMessage(msgspec.Struct):
    """One message of a `send`; `encoding` is "utf-8" or "base64"."""

    body: str = ""
    encoding: str = "utf-8"
    tag: str = ""
    keys: list[str] = []
    message_group: str = ""
    properties: dict[str, str] = {}
    delay_level: Number = 0
    delay_ms: Number = 0
    deliver_at_ms: Number = 0
    flag: Number = 0
    born_ms: Number = 0


def frame_of(topic: str, messages: list[TextMessage], queue: int, durability: str) -> SendFrame:
    """The frame of messages in the text form; raises ProtocolError."""
    return SendFrame(
        topic,
        [_body(message) for message in messages],
        [message.tag for message in messages],
        [" ".join(message.keys) for message in messages],
        [message.message_group for message in messages],
        [message.properties for message in messages],
        [message.delay_level for message in messages],
        [message.flag for message in messages],
        [message.born_ms for message in messages],
        durability=_durability(durability),
        queue=queue,
        delay_ms=_offsets_of([message.delay_ms for message in messages]),
        deliver_at_ms=_offsets_of([message.deliver_at_ms for message in messages]),
    )


def _offsets_of(numbers: list[int]) -> list[int]:
    """A column that may be missing: empty where every one is 0."""
    return numbers if any(numbers) else []


def _durability(name: str) -> int:
    try:
        return DurabilityCode[name.upper()] if name else DurabilityCode.DEFAULT
    except KeyError:
        words = '"stored", "flushed" or "replicated"'
        raise ProtocolError(f"durability {name!r} is unknown; say {words}") from None


def _body(message: TextMessage) -> bytes:
    if message.encoding == "utf-8":
        return message.body.encode()
    if message.encoding != "base64":
        raise ProtocolError(f'encoding {message.encoding!r} is unknown; say "utf-8" or "base64"')
    try:
        return base64.b64decode(message.body, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("a body is no base64") from None
