"""Frames that carry many messages or receipts at once: the fast path of `/ws/v1`.

A receipt names one delivery: (topic, queue, offset, serial). Many of them are written as

| count u32 | topic table (u8, texts) | number columns: topic's place in the table, queue, offset, |
| serial |
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, Self

from kitemq.protocol.columns import (
    U32,
    ProtocolError,
    put_blobs,
    put_numbers,
    put_text,
    put_texts,
    take_blobs,
    take_numbers,
    take_text,
    take_texts,
)
from kitemq.protocol.frames import (
    COUNT_MAX,
    Frame,
    check_count,
    ended,
    put_topics,
    take_topics,
    unpack,
)

Receipt = tuple[str, int, int, int]  # topic, queue, offset, serial

EXTEND = struct.Struct(">I")  # invisible ms
assert EXTEND.size == 4

HELD_MAX = 65_536  # receipts in one SUBSCRIBED; what a client holds beyond them runs out of time


class ResultCode(IntEnum):
    """Result of settling one receipt."""

    DONE = 0
    ALREADY = 1  # it was settled before: fine
    STALE = 2  # the delivery is no longer this client's; its message may come again


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
        check_count(count)
        results, at = take_numbers(data, at + U32.size, count)
        until, at = take_numbers(data, at, count)
        ended(data, at)
        return cls(results, until)


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
    check_count(count, count_max)
    table, at = take_topics(data, at + U32.size)
    places, at = take_numbers(data, at, count)
    queues, at = take_numbers(data, at, count)
    offsets, at = take_numbers(data, at, count)
    serials, at = take_numbers(data, at, count)
    if places and not 0 <= min(places) <= max(places) < len(table):
        raise ProtocolError("a receipt names a topic that is not in its frame's table")
    topics = map(table.__getitem__, places)
    return list(zip(topics, queues, offsets, serials, strict=True)), at
