"""Trace records: many rows as the body of one message of the trace topic, and its keys.

| field                | bytes | what                                                           |
|----------------------|-------|----------------------------------------------------------------|
| magic                | 4     | "KTR1"                                                         |
| rows                 | 4     | how many                                                       |
| base time            | 8     | ms since 1970 UTC, the earliest of the rows                    |
| texts' bytes         | 4     | size of the next part but one, uncompressed                    |
| zlib stream          | rest  | the texts (a msgpack array, the first is ""), then the columns |

A column holds one field of all rows, big-endian, in the order of `COLUMNS`; a text is the number of
its entry in the texts. So a reader may take whole columns (numpy's `frombuffer`).

The keys say where to look: "topic@queue@offset" for each message where there are few of a block of
1,024 offsets, "topic@queue+block" where there are more, and the message's id for a row that has no
place.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence

import msgspec

from engine.errors import Corrupt
from engine.message import Message
from engine.topic.names import TRACE_TOPIC
from engine.trace.rows import Row

MAGIC = b"KTR1"
HEAD = struct.Struct(">4sIqI")  # magic, rows, base time, texts' bytes
assert HEAD.size == 20
COLUMNS = (
    ("kind", "B"),
    ("at_ms", "I"),  # after the base time
    ("group", "H"),
    ("topic", "H"),
    ("queue", "h"),
    ("first", "q"),
    ("message_count", "I"),
    ("client", "H"),
    ("attempt", "H"),
    ("wait_ms", "I"),
    ("born_ms", "q"),
    ("stored_ms", "q"),
    ("detail", "H"),
    ("message_id", "H"),
    ("sample", "H"),
)
assert tuple(name for name, _ in COLUMNS) == Row._fields
CODES = dict(COLUMNS)
TEXT_COLUMNS = 5
ROW_BYTES = sum(struct.calcsize(f">{code}") for _, code in COLUMNS)
U16_MAX = 0xFFFF
U32_MAX = 0xFFFFFFFF
BLOCK_SHIFT = 10
NAMED_MAX = 32  # messages of one block that are keyed each by itself
KEYS_BYTES_MAX = 16_000
KEY_EXTRA_BYTES = 28  # of a key: all but the topic
BODY_BYTES_MAX = 1024 * 1024  # uncompressed; what says that it is more is no record of ours
LEVEL = 1


class TextNumbers(dict[str, int]):
    """Texts by the number that columns have for them; one that is new gets the next."""

    def __init__(self) -> None:
        super().__init__({"": 0})
        self.size_bytes = 0  # of all, as they are encoded

    def __missing__(self, text: str) -> int:
        encoded = text.encode(errors="replace")
        count = len(self)
        number = self.setdefault(encoded.decode(), count)
        self.size_bytes += len(encoded) + 5
        return number


class TraceRecordBuilder:
    """Collects rows until the record is as large as it may be."""

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` bounds the record before it is compressed."""
        self._bytes_max = bytes_max
        self._rows: list[tuple[int, ...]] = []
        self._texts = TextNumbers()
        # The messages of each block that are named, None where there are too many of them.
        self._blocks: dict[tuple[str, int, int], set[int] | None] = {}
        self._ids: set[str] = set()
        self._base_ms = 0
        self._keys_bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row) -> bool:
        """Take a row; False where it needs a record of its own, and nothing is taken."""
        texts, rows = self._texts, self._rows
        if not rows:
            self._base_ms = row.at_ms
        elif (
            HEAD.size + (len(rows) + 1) * ROW_BYTES + texts.size_bytes > self._bytes_max
            or self._keys_bytes > KEYS_BYTES_MAX
            or not 0 <= row.at_ms - self._base_ms <= U32_MAX
            or len(texts) > U16_MAX - TEXT_COLUMNS
        ):
            return False
        kind, at_ms, group, topic, queue, first, count, client = row[:8]
        attempt, wait_ms, born_ms, stored_ms, detail, message_id, sample = row[8:]
        rows.append(
            (
                kind,
                at_ms - self._base_ms,
                texts[group],
                texts[topic],
                queue,
                first,
                count if count < U32_MAX else U32_MAX,
                texts[client],
                attempt if attempt < U16_MAX else U16_MAX,
                wait_ms if wait_ms < U32_MAX else U32_MAX,
                born_ms,
                stored_ms,
                texts[detail],
                texts[message_id],
                sample,
            )
        )
        if first >= 0:
            self._add_places(topic, queue, first, count)
        elif message_id and message_id not in self._ids:
            self._ids.add(message_id)
            self._keys_bytes += len(message_id) + 1
        return True

    def message(self) -> Message:
        """What to store."""
        texts = msgspec.msgpack.encode(list(self._texts))
        count = len(self._rows)
        columns = [
            struct.pack(f">{count}{code}", *column)
            for (_, code), column in zip(COLUMNS, zip(*self._rows, strict=True), strict=True)
        ]
        head = HEAD.pack(MAGIC, count, self._base_ms, len(texts))
        packed = zlib.compress(b"".join((texts, *columns)), LEVEL)
        return Message(TRACE_TOPIC, head + packed, queue=0, keys=tuple(self._keys()))

    def _add_places(self, topic: str, queue: int, first: int, count: int) -> None:
        blocks, last = self._blocks, first + count - 1
        for number in range(first >> BLOCK_SHIFT, (last >> BLOCK_SHIFT) + 1):
            block = (topic, queue, number)
            if block not in blocks:
                blocks[block] = set()
            named = blocks[block]
            if named is None:
                continue
            before, begin = len(named), number << BLOCK_SHIFT
            offsets = range(max(begin, first), min(begin + (1 << BLOCK_SHIFT), last + 1))
            if before + len(offsets) > NAMED_MAX:
                blocks[block] = None
                added = 1
            else:
                named.update(offsets)
                added = len(named) - before
            self._keys_bytes += added * (len(topic) + KEY_EXTRA_BYTES)

    def _keys(self) -> Iterator[str]:
        for (topic, queue, number), indexes in self._blocks.items():
            if indexes is None:
                yield block_key(topic, queue, number << BLOCK_SHIFT)
            else:
                for offset in indexes:
                    yield message_key(topic, queue, offset)
        yield from self._ids


def message_key(topic: str, queue: int, offset: int) -> str:
    """The key of records that name this message."""
    return f"{topic}@{queue}@{offset}"


def block_key(topic: str, queue: int, offset: int) -> str:
    """The key of records with many messages of the block in which this one lies."""
    return f"{topic}@{queue}+{offset >> BLOCK_SHIFT}"


class TraceColumns:
    """A record's rows by column, unpacked when asked for; Corrupt if it is no trace record.

    `base_ms` is what the column `at_ms` counts from.
    """

    def __init__(self, body: bytes) -> None:
        try:
            magic, self.count, self.base_ms, texts_bytes = HEAD.unpack_from(body)
            if magic != MAGIC:
                raise Corrupt(f"a trace record begins with {magic!r}")
            unpacker = zlib.decompressobj()
            self._data = unpacker.decompress(body[HEAD.size :], BODY_BYTES_MAX)
            self.texts = msgspec.msgpack.decode(self._data[:texts_bytes], type=list[str])
        except (struct.error, zlib.error, ValueError) as error:  # also of bytes that are no UTF-8
            raise Corrupt(f"a trace record cannot be read: {error}") from None
        if texts_bytes + self.count * ROW_BYTES != len(self._data) or not unpacker.eof:
            raise Corrupt(f"a trace record of {self.count} rows has {len(self._data)} bytes")
        self._begins = dict(
            zip(Row._fields, _begins(texts_bytes, self.count), strict=True),
        )

    def raw(self, name: str) -> tuple[int, ...]:
        """A column as it is stored: texts by number, times after the base time."""
        layout = f">{self.count}{CODES[name]}"
        return struct.unpack_from(layout, self._data, self._begins[name])

    def packed(self, name: str) -> bytes:
        """The same as big-endian numbers of the type that `CODES` gives, for readers of columns."""
        begin = self._begins[name]
        return self._data[begin : begin + self.count * struct.calcsize(f">{CODES[name]}")]

    def row(self, index: int) -> Row:
        """One row; Corrupt where it names a text that is not there."""
        values: list[int] = []
        for name, code in COLUMNS:
            size = struct.calcsize(f">{code}")
            at = self._begins[name] + index * size
            values.append(*struct.unpack_from(f">{code}", self._data, at))
        try:
            return self._row_of(values)
        except IndexError:
            raise Corrupt("a trace record names a text that it does not have") from None

    def _row_of(self, values: Sequence[int]) -> Row:
        texts = self.texts
        kind, at_ms, group, topic, queue, first, count, client, *rest = values
        attempt, wait_ms, born_ms, stored_ms, detail, message_id, sample = rest
        return Row(
            kind,
            self.base_ms + at_ms,
            texts[group],
            texts[topic],
            queue,
            first,
            count,
            texts[client],
            attempt,
            wait_ms,
            born_ms,
            stored_ms,
            texts[detail],
            texts[message_id],
            sample,
        )


def decode(body: bytes) -> list[Row]:
    """The rows of a trace record in the order in which they happened; Corrupt if it is none."""
    columns = TraceColumns(body)
    return [columns.row(index) for index in range(columns.count)]


def rows_about(columns: TraceColumns, topic: str, queue: int, offset: int) -> list[Row]:
    """The rows that speak of one message."""
    if topic not in columns.texts:
        return []
    number = columns.texts.index(topic)
    topics, queues = columns.raw("topic"), columns.raw("queue")
    spans = enumerate(zip(columns.raw("first"), columns.raw("message_count"), strict=True))
    return [
        columns.row(index)
        for index, (first, count) in spans
        if first <= offset < first + count and topics[index] == number and queues[index] == queue
    ]


def rows_of_id(columns: TraceColumns, message_id: str) -> list[Row]:
    """The rows that name a message by its id and lie nowhere."""
    if message_id not in columns.texts:
        return []
    number = columns.texts.index(message_id)
    firsts = columns.raw("first")
    return [
        columns.row(index)
        for index, id_column in enumerate(columns.raw("message_id"))
        if id_column == number and firsts[index] < 0
    ]


def _begins(begin: int, count: int) -> Iterator[int]:
    for _, code in COLUMNS:
        yield begin
        begin += count * struct.calcsize(f">{code}")
