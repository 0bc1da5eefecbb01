"""DELIVER frames whose columns come as the log has them, and the ACK of such a frame as a run.

No object for each message on the way out, nor for each receipt on the way back. What is special,
and what goes to a client that speaks JSON, is a `DeliverFrame`; any other ACK is an `AckFrame`.
"""

from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from sys import byteorder
from typing import TypeVar

from engine.broker import DeliveryColumns, ReceiptRun, StoredColumns
from kitemq.protocol.batches import AckFrame, DeliverFrame, put_receipt_columns
from kitemq.protocol.columns import (
    EACH,
    I64,
    U32,
    ProtocolError,
    put_number,
    put_numbers,
    put_packed_numbers,
    take_number,
    take_text,
)
from kitemq.protocol.frames import COUNT_MAX, Frame, put_topics, take_topics, unpack

T = TypeVar("T")

FIRST_MAX = 1 << 62
NO_OFFSETS = range(0)
FIRST_ATTEMPT = put_numbers([1])


class PackedDeliverFrame(Frame, frozen=True):
    """A DELIVER of plain messages; `DeliverFrame` says what lies where."""

    TYPE = DeliverFrame.TYPE
    deliveries: DeliveryColumns

    def payload(self) -> bytes:
        if len(self.deliveries.runs) == 1:
            return self._payload_of_run(*self.deliveries.runs[0])
        receipts = [run.receipts for run in self.deliveries.runs]
        columns = [run.columns for run in self.deliveries.runs]
        _, _, *numbers, properties, bodies = zip(*columns, strict=True)
        counts = list(map(len, receipts))
        return b"".join(
            (
                put_receipt_columns(
                    _repeated([run.topic for run in receipts], counts),
                    _repeated([run.queue for run in receipts], counts),
                    [offset for run in receipts for offset in run.offsets],
                    _repeated([run.serial for run in receipts], counts),
                ),
                FIRST_ATTEMPT,
                put_numbers([self.deliveries.invisible_until_ms]),
                *(put_packed_numbers(b"".join(parts)) for parts in numbers),
                *_joined(properties, counts),
                *_joined(bodies, counts),
            )
        )

    def _payload_of_run(self, receipts: ReceiptRun, columns: StoredColumns) -> bytes:
        """The same bytes where all messages are of one queue."""
        _, _, *numbers, properties, bodies = columns
        return b"".join(
            (
                U32.pack(len(receipts)),
                _only_topic(receipts.topic),
                put_number(receipts.queue),
                put_packed_numbers(_packed(receipts.offsets)),
                put_number(receipts.serial),
                FIRST_ATTEMPT,
                put_number(self.deliveries.invisible_until_ms),
                *map(put_packed_numbers, numbers),
                properties,
                bodies,
            )
        )


class AckRunFrame(Frame, frozen=True):
    """An ACK of one message, or of neighbouring ones of one delivery."""

    group: str
    receipts: ReceiptRun


class PackedAck:
    """The parser of ACK for the server."""

    def parse(self, data: bytes, at: int) -> Frame:
        """An `AckRunFrame`, or else an `AckFrame`; raises ProtocolError."""
        try:
            run = _parse(data, at)
        except ProtocolError:
            run = None
        return run or AckFrame.parse(data, at)


def _parse(data: bytes, at: int) -> AckRunFrame | None:
    """None, or ProtocolError, where it has to be looked at more closely."""
    group, at = take_text(data, at)
    (count,) = unpack(U32, data, at)
    table, at = take_topics(data, at + U32.size)
    if not 0 < count <= COUNT_MAX or len(table) != 1:
        return None
    place, at = take_number(data, at)
    queue, at = take_number(data, at)
    offsets, at = _offsets(data, at, count)
    serial, at = take_number(data, at)
    if place or not offsets or at != len(data):
        return None
    return AckRunFrame(group, ReceiptRun(table[0], queue, offsets, serial))


def _offsets(data: bytes, at: int, count: int) -> tuple[range, int]:
    """The offsets that begin at `at`, and where they end; empty unless they are neighbours."""
    if count == 1:
        first, end = take_number(data, at)
    else:
        end = at + 1 + I64.size * count
        if end > len(data) or data[at] != EACH:
            return NO_OFFSETS, at
        (first,) = I64.unpack_from(data, at + 1)
    offsets = range(first, first + count) if 0 <= first < FIRST_MAX else NO_OFFSETS
    is_run = count == 1 or data[at + 1 : end] == _packed(offsets)
    return (offsets if is_run else NO_OFFSETS), end


def _packed(numbers: range) -> bytes:
    packed = array("q", numbers)
    if byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


@lru_cache(maxsize=1024)
def _only_topic(name: str) -> bytes:
    """A table of one topic, and the column that says of each receipt that it is that one."""
    return put_topics([name]) + put_number(0)


def _repeated(values: Sequence[T], counts: Sequence[int]) -> list[T]:
    """Each value as often as its run has messages."""
    return list(chain.from_iterable(map(repeat, values, counts)))


def _joined(columns: Sequence[bytes], counts: Sequence[int]) -> Iterator[bytes]:
    """Lengths of all columns, then the values of all."""
    for column, count in zip(columns, counts, strict=True):
        yield column[: U32.size * count]
    for column, count in zip(columns, counts, strict=True):
        yield column[U32.size * count :]
