"""Encodes batches that came as columns; what `encode` does for messages one by one.

The loop over the messages is the kernel's. Here is what they share: the parts of their records
that are the same in each.
"""

import struct
from array import array
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec

from engine.host import pack_host
from engine.message import (
    KEYS,
    NAME_SEPARATOR,
    PROPERTY_SEPARATOR,
    TAGS,
    Message,
    SentRun,
    join_properties,
)
from engine.message_columns import SHARED, MessageColumns
from engine.store import kernel
from engine.store.consume_queue import ConsumeQueue
from engine.store.encode import Encoder
from engine.store.hashing import absolute_hash, continue_hash, tag_hash, unsigned_hash
from engine.store.kernel import EncodedColumns, IndexNumbers, RecordColumns
from engine.store.kernel.interface import BORN_AT
from engine.store.record import topic_field

NO_COLUMNS = (SHARED,) * 6  # but for the bodies
I64 = struct.Struct(">q")
_to_columns = partial(tuple.__new__, RecordColumns)
_to_encoded = partial(tuple.__new__, EncodedColumns)


class HashedKeys(NamedTuple):
    """Keys and ids of one write, by the hash that the key index keeps: u32 and i64 numbers."""

    hashes: bytes
    places: bytes

    def numbers(self) -> tuple[IndexNumbers, IndexNumbers]:
        """Hashes and places as numbers."""
        return memoryview(self.hashes).cast("I"), memoryview(self.places).cast("q")

    def positions_of(self, hash_: int) -> list[int]:
        """Where messages with a key or id of this hash lie."""
        rows = zip(*self.numbers(), strict=True)
        return [position for each, position in rows if each == hash_]


class PackedRun(msgspec.Struct):
    """Messages of one write that go to one queue, their entries packed already."""

    queue: ConsumeQueue
    first_offset: int
    entries: bytes
    tag_codes: list[int]
    size_bytes: int

    def sent(self) -> SentRun:
        """The sender's result."""
        count = len(self.tag_codes)
        return SentRun(*self.queue.id, self.first_offset, count, self.size_bytes)

    def packed(self) -> bytes:
        """The queue entries of the run."""
        return self.entries


class PlacedColumns(NamedTuple):
    """Where the messages of one `MessageColumns` are to stand."""

    queue: int
    offsets: range
    positions: list[int]


class EncodedColumnsBatch(NamedTuple):
    """Batches ready to be written at the position they were encoded for, with one write."""

    data: bytes
    runs: list[PackedRun]
    places: list[PlacedColumns]
    hashed: HashedKeys


class LoneMessage(NamedTuple):
    """In what a message differs from its sender's others; `bodies_at` is as in `MessageColumns`."""

    data: bytes
    bodies_at: int
    born_ms: int  # 0: when it is stored
    id_number: int  # SHARED: the store makes the id
    born_host: bytes = b""  # in as many bytes as that of the shape; b"": the same one


class RecordShape:
    """Encodes plain messages of one sender one at a time: what they share is prepared once."""

    def __init__(self, encoder: Encoder, batch: MessageColumns) -> None:
        """`batch` is one of them; it has its id from its sender, or none of them has."""
        columns = _columns(encoder, batch, 0, 0, 0, 1)
        self.topic = batch.topic
        self.tag_codes = [columns.tag_code]
        self._magic, self._flag, self._tag_code = columns.magic, columns.flag, columns.tag_code
        self._topic_field, self._id_prefix = columns.topic_field, columns.id_prefix
        self._after_id = columns[RecordColumns._fields.index("tag") :]
        host_at = BORN_AT + I64.size
        stored_at = host_at + len(pack_host(batch.born_host))
        shared = columns.shared
        self._sys_flag, self.born_host = shared[:BORN_AT], shared[host_at:stored_at]
        self._after_stored = shared[stored_at + I64.size :]

    def encode(
        self, message: LoneMessage, queue: ConsumeQueue, position: int, stored_ms: int
    ) -> EncodedColumns:
        """The record of `message` at `position`, next in its queue."""
        data, bodies_at, born_ms, id_number, born_host = message
        born, stored = I64.pack(born_ms or stored_ms), I64.pack(stored_ms)
        host = born_host or self.born_host
        shared = b"".join((self._sys_flag, born, host, stored, self._after_stored))
        fields = (
            *(data, 1, bodies_at, *NO_COLUMNS, position, queue.next_offset, self._magic),
            *(queue.id.queue, self._flag, self._tag_code, stored_ms, shared, self._topic_field),
            *(self._id_prefix, id_number, *self._after_id),
        )
        return _to_encoded(kernel.encode_records(_to_columns(fields)))


def encode_columns(
    encoder: Encoder,
    batches: Sequence[MessageColumns],
    queue: int,
    position: int,
    stored_ms: int,
) -> EncodedColumnsBatch:
    """Records of batches for `position`; `queue` is for those that name none."""
    runs: dict[tuple[str, int], PackedRun] = {}
    places: list[PlacedColumns] = []
    encoded: list[EncodedColumns] = []
    for batch in batches:
        number = batch.queue if batch.queue >= 0 else queue
        run = runs.get((batch.topic, number))
        if run is None:
            known = encoder.queue_of(batch.topic, number)
            run = runs[batch.topic, number] = PackedRun(known, known.next_offset, b"", [], 0)
        first = run.first_offset + len(run.tag_codes)
        columns = _columns(encoder, batch, number, first, position, stored_ms)
        result = EncodedColumns(*kernel.encode_records(columns))
        run.entries += result.entries
        run.tag_codes += result.tag_codes or [columns.tag_code] * batch.count
        run.size_bytes += len(result.records)
        position += len(result.records)
        places.append(PlacedColumns(number, range(first, first + batch.count), result.positions))
        encoded.append(result)
    return EncodedColumnsBatch(
        b"".join([result.records for result in encoded]),
        list(runs.values()),
        places,
        HashedKeys(
            b"".join([result.hashes for result in encoded]),
            b"".join([result.places for result in encoded]),
        ),
    )


def _columns(
    encoder: Encoder,
    batch: MessageColumns,
    queue: int,
    first_offset: int,
    position: int,
    stored_ms: int,
) -> RecordColumns:
    alike = Message(batch.topic, b"", born_ms=batch.born_ms, born_host=batch.born_host)
    parts = _parts(batch.topic, batch.tag, batch.keys, batch.id_prefix or encoder.id_prefix)
    return RecordColumns(
        data=batch.data,
        message_count=batch.count,
        bodies_at=batch.bodies_at,
        tags_at=batch.tags_at,
        keys_at=batch.keys_at,
        flags_at=batch.flags_at,
        born_at=batch.born_at,
        ids_at=batch.ids_at,
        properties_at=batch.properties_at,
        position=position,
        first_offset=first_offset,
        magic=parts.magic,
        queue=queue,
        flag=batch.flag,
        tag_code=parts.tag_code,
        born_ms=stored_ms,
        shared=encoder.shared(alike, stored_ms),
        topic_field=parts.topic_field,
        id_prefix=parts.id_prefix,
        id_first=batch.id_first if batch.id_prefix else SHARED,
        tag=parts.tag,
        keys=parts.keys,
        properties=join_properties(batch.properties).encode() if batch.properties else b"",
        topic_hash=parts.topic_hash,
        key_hashes=parts.key_hashes,
    )


class _Parts(NamedTuple):
    """Fields of `RecordColumns` that the batches of a sender have in common."""

    magic: int
    topic_field: bytes
    topic_hash: int
    tag_code: int
    tag: bytes
    keys: bytes
    key_hashes: bytes
    id_prefix: bytes


@lru_cache(maxsize=1024)
def _parts(topic: str, tag: str, keys: tuple[str, ...], id_prefix: str) -> _Parts:
    topic_hash = unsigned_hash(f"{topic}#")
    key_hashes = [absolute_hash(continue_hash(topic_hash, key)) for key in keys]
    return _Parts(
        *topic_field(topic),
        topic_hash=topic_hash,
        tag_code=tag_hash(tag),
        tag=_part(TAGS, tag),
        keys=_part(KEYS, " ".join(keys)),
        key_hashes=array("I", key_hashes).tobytes(),
        id_prefix=id_prefix.encode(),
    )


def _part(name: str, value: str) -> bytes:
    """One property of the block; nothing without a value."""
    return f"{name}{NAME_SEPARATOR}{value}{PROPERTY_SEPARATOR}".encode() if value else b""
