"""DELIVER frames whose columns come as the log has them, and the ACK of such a frame as a run.

No object for each message on the way out, nor for each receipt on the way back. What is special,
and what goes to a client that speaks JSON, is a `DeliverFrame`; any other ACK is an `AckFrame`.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from sys import byteorder
from typing import TypeVar

from engine.broker import DeliveryColumns, ReceiptRun
from kitemq.protocol.batches import AckFrame, DeliverFrame, put_receipt_columns
from kitemq.protocol.columns import (
    EACH,
    I64,
    U32,
    ProtocolError,
    put_numbers,
    put_packed_numbers,
    take_byte,
    take_numbers,
    take_text,
)
from kitemq.protocol.frames import COUNT_MAX, Frame, take_topics, unpack

T = TypeVar("T")

FIRST_MAX = 1 << 62
FIRST_ATTEMPT = put_numbers([1])


class PackedDeliverFrame(Frame, frozen=True):
    """A DELIVER of plain messages; `DeliverFrame` says what lies where."""

    TYPE = DeliverFrame.TYPE
    deliveries: DeliveryColumns

    def payload(self) -> bytes:
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


class AckRunFrame(Frame, frozen=True):
    """An ACK of neighbouring messages of one delivery."""

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
    if not 1 < count <= COUNT_MAX or len(table) != 1:
        return None
    place, at = _shared(data, at)
    queue, at = _shared(data, at)
    end = at + 1 + I64.size * count
    if place or end > len(data) or data[at] != EACH:
        return None
    (first,) = I64.unpack_from(data, at + 1)
    serial, after = _shared(data, end)
    if after != len(data) or not 0 <= first < FIRST_MAX:
        return None
    offsets = range(first, first + count)
    if data[at + 1 : end] != _packed(offsets):
        return None
    return AckRunFrame(group, ReceiptRun(table[0], queue, offsets, serial))


def _shared(data: bytes, at: int) -> tuple[int, int]:
    """The number that all share, and where its column ends."""
    if take_byte(data, at) == EACH:
        raise ProtocolError("numbers that have to be looked at more closely")
    numbers, at = take_numbers(data, at, 1)
    return numbers[0], at


def _packed(numbers: range) -> bytes:
    packed = array("q", numbers)
    if byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


def _repeated(values: Sequence[T], counts: Sequence[int]) -> list[T]:
    """Each value as often as its run has messages."""
    return list(chain.from_iterable(map(repeat, values, counts)))


def _joined(columns: Sequence[bytes], counts: Sequence[int]) -> Iterator[bytes]:
    """Lengths of all columns, then the values of all."""
    for column, count in zip(columns, counts, strict=True):
        yield column[: U32.size * count]
    for column, count in zip(columns, counts, strict=True):
        yield column[U32.size * count :]
