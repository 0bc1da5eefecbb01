"""Frames that carry many messages or receipts at once: the fast path of `/ws/v1`.

A receipt names one delivery: (topic, queue, offset, serial). Many of them are written as

| count u32 | topic table (u8, texts) | number columns: topic's place in the table, queue, offset, |
| serial |
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, Self

from msgspec import field

from kitemq.protocol.columns import (
    U32,
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
from kitemq.protocol.frames import COUNT_MAX, Frame, ended, put_topics, take_topics, unpack

Receipt = tuple[str, int, int, int]  # topic, queue, offset, serial

SEND = struct.Struct(">BiII")  # durability, queue, count, first number of the message ids
SENT = struct.Struct(">BI")  # durability, count
EXTEND = struct.Struct(">I")  # invisible ms
assert (SEND.size, SENT.size, EXTEND.size) == (13, 5, 4)

HELD_MAX = 65_536  # receipts in one SUBSCRIBED; what a client holds beyond them runs out of time

_HEX3 = [f"{number:03X}" for number in range(4096)]


class DurabilityCode(IntEnum):
    """Durability of a send, required and reached (`engine.message.Durability`)."""

    DEFAULT = 0
    STORED = 1
    FLUSHED = 2


class ResultCode(IntEnum):
    """Result of settling one receipt."""

    DONE = 0
    ALREADY = 1  # it was settled before: fine
    STALE = 2  # the delivery is no longer this client's; its message may come again


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
        _check_count(count)
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
        _check_count(count)
        queues, at = take_numbers(data, at + SENT.size, count)
        offsets, at = take_numbers(data, at, count)
        positions, at = take_numbers(data, at, count)
        ids, at = take_texts(data, at, count)
        ended(data, at)
        return cls(durability, queues, offsets, positions, ids)


class SubscribedFrame(Frame, frozen=True):
    """The answer to SUBSCRIBE: what this client still holds of the group. | receipts |

    A client that resumes settles what it finished, and releases what it no longer knows. At most
    `HELD_MAX`.
    """

    TYPE = 67
    held: list[Receipt]

    def payload(self) -> bytes:
        return put_receipts(self.held)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        held, at = take_receipts(data, at, count_max=HELD_MAX)
        ended(data, at)
        return cls(held)


class DeliverFrame(Frame, frozen=True):
    """Messages delivered to a subscription, which the frame's request number names.

    | receipts | number columns: attempt, invisible until ms, born ms, stored ms, position, flag, |
    | system flag | bytes columns: properties, bodies |

    A message's properties are as the log keeps them: name, byte 1, value, byte 2, for each. Besides
    the producer's there are TAGS, KEYS, UNIQ_KEY (message id), __SHARDINGKEY (message group) and
    RETRY_TOPIC (where a retried message came from).

    A body that its producer compressed comes decompressed, and its system flag without the bits
    that say so. Where they are set (bit 0, and the codec in bits 8 to 10: 0 and 3 zlib, 1 lz4,
    2 zstd) the body could not be decompressed and is as the log keeps it.
    """

    TYPE = 68
    receipts: list[Receipt]
    attempts: list[int]
    invisible_until_ms: list[int]
    born_ms: list[int]
    stored_ms: list[int]
    positions: list[int]
    flags: list[int]
    sys_flags: list[int]
    properties: list[bytes]
    bodies: list[bytes]

    def payload(self) -> bytes:
        numbers = (
            self.attempts, self.invisible_until_ms, self.born_ms, self.stored_ms,
            self.positions, self.flags, self.sys_flags,
        )  # fmt: skip
        return b"".join(
            (
                put_receipts(self.receipts),
                *map(put_numbers, numbers),
                put_blobs(self.properties),
                put_blobs(self.bodies),
            )
        )

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        receipts, at = take_receipts(data, at)
        count = len(receipts)
        columns = []
        for _ in range(7):
            column, at = take_numbers(data, at, count)
            columns.append(column)
        properties, at = take_blobs(data, at, count)
        bodies, at = take_blobs(data, at, count)
        ended(data, at)
        attempts, until, born, stored, positions, flags, sys_flags = columns
        return cls(
            receipts, attempts, until, born, stored, positions, flags, sys_flags,
            properties, bodies,
        )  # fmt: skip


class SettlingFrame(Frame, frozen=True):
    """The common layout of ACK and RELEASE. | group text | receipts |"""

    group: str
    receipts: list[Receipt]

    def payload(self) -> bytes:
        return put_text(self.group) + put_receipts(self.receipts)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        group, at = take_text(data, at)
        receipts, at = take_receipts(data, at)
        ended(data, at)
        return cls(group, receipts)


class AckFrame(SettlingFrame, frozen=True):
    """These messages are done. Answer: RESULT."""

    TYPE: ClassVar[int] = 5


class ReleaseFrame(SettlingFrame, frozen=True):
    """Put these back untouched: no attempt is counted. Answer: RESULT."""

    TYPE: ClassVar[int] = 8


NOT_GIVEN = -1  # delay ms or delay level of a NACK: the retry ladder decides
TO_DEAD_LETTERS = -2  # delay level of a NACK: it shall not come again


class NackFrame(Frame, frozen=True):
    """These failed and shall come again. Answer: RESULT.

    | group text | receipts | number columns: delay ms, delay level | text column: error |

    `NOT_GIVEN` and `TO_DEAD_LETTERS` are the two numbers that are no delay.
    """

    TYPE = 6
    group: str
    receipts: list[Receipt]
    delay_ms: list[int]
    delay_levels: list[int]
    errors: list[str]

    def payload(self) -> bytes:
        return b"".join(
            (
                put_text(self.group),
                put_receipts(self.receipts),
                put_numbers(self.delay_ms),
                put_numbers(self.delay_levels),
                put_texts(self.errors),
            )
        )

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        group, at = take_text(data, at)
        receipts, at = take_receipts(data, at)
        delays, at = take_numbers(data, at, len(receipts))
        levels, at = take_numbers(data, at, len(receipts))
        errors, at = take_texts(data, at, len(receipts))
        ended(data, at)
        return cls(group, receipts, delays, levels, errors)


class ExtendFrame(Frame, frozen=True):
    """Keep these invisible for so long from now. Answer: RESULT.

    | invisible ms u32 | group text | receipts |
    """

    TYPE = 7
    group: str
    receipts: list[Receipt]
    invisible_ms: int

    def payload(self) -> bytes:
        head = EXTEND.pack(self.invisible_ms)
        return head + put_text(self.group) + put_receipts(self.receipts)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        (invisible_ms,) = unpack(EXTEND, data, at)
        group, at = take_text(data, at + EXTEND.size)
        receipts, at = take_receipts(data, at)
        ended(data, at)
        return cls(group, receipts, invisible_ms)


class ResultFrame(Frame, frozen=True):
    """Results of receipts in the order given; empty for UNSUBSCRIBE.

    | count u32 | number columns: ResultCode, invisible until ms (0 unless extended) |
    """

    TYPE = 69
    results: list[int]
    invisible_until_ms: list[int]

    def payload(self) -> bytes:
        head = U32.pack(len(self.results))
        return head + put_numbers(self.results) + put_numbers(self.invisible_until_ms)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        (count,) = unpack(U32, data, at)
        _check_count(count)
        results, at = take_numbers(data, at + U32.size, count)
        until, at = take_numbers(data, at, count)
        ended(data, at)
        return cls(results, until)


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
        endings = _HEX3[low : low + count]
        ids += [base + ending for ending in endings]
        first += len(endings)
        count -= len(endings)
    return ids


def put_receipts(receipts: Sequence[Receipt]) -> bytes:
    """Many receipts; each is (topic, queue, offset, serial)."""
    return put_receipt_columns(*zip(*receipts, strict=True) if receipts else ((), (), (), ()))


def put_receipt_columns(
    topics: Sequence[str], queues: Sequence[int], offsets: Sequence[int], serials: Sequence[int]
) -> bytes:
    """The same of receipts by column."""
    table = list(dict.fromkeys(topics))
    places = {topic: place for place, topic in enumerate(table)}
    return b"".join(
        (
            U32.pack(len(topics)),
            put_topics(table),
            put_numbers(list(map(places.__getitem__, topics))),
            put_numbers(queues),
            put_numbers(offsets),
            put_numbers(serials),
        )
    )


def take_receipts(data: bytes, at: int, *, count_max: int = COUNT_MAX) -> tuple[list[Receipt], int]:
    """The receipts that begin at `at`, and where they end."""
    (count,) = unpack(U32, data, at)
    _check_count(count, count_max)
    table, at = take_topics(data, at + U32.size)
    places, at = take_numbers(data, at, count)
    queues, at = take_numbers(data, at, count)
    offsets, at = take_numbers(data, at, count)
    serials, at = take_numbers(data, at, count)
    if places and not 0 <= min(places) <= max(places) < len(table):
        raise ProtocolError("a receipt names a topic that is not in its frame's table")
    topics = map(table.__getitem__, places)
    return list(zip(topics, queues, offsets, serials, strict=True)), at


def _check_count(count: int, count_max: int = COUNT_MAX) -> None:
    if count > count_max:
        raise ProtocolError(f"a frame of {count} entries; at most {count_max} are allowed")
