"""A block of lag samples on disk: some rounds, column by column, so that it packs well.

All numbers are little-endian. A block is a header and sections, each packed by zlib:

    magic u32 | size_bytes u32 | crc u32 | rounds u32 | rows u32 | first_ms i64 | last_ms i64
    | packed size u32 of each section
    names:   JSON [[group, topic, queue], ...], a row for each
    times:   i64 of each round, ms since 1970 UTC
    columns: in the order of `LagColumn`; `rows` times `rounds` numbers i64, row by row

In `times`, and in each row of a column, the first number stands as it is and every later one as its
difference to the one before. `size_bytes` is that of the whole block, `crc` the CRC-32 of
everything behind it. A sample that is missing has 0 in PRESENT; its other numbers mean nothing.
A block that begins with `MAGIC_1` was written when there were fewer columns: it has `WIDTH_1`, and
the others read as NOT_SAMPLED.
"""

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from operator import sub
from typing import NamedTuple

import msgspec

from engine.errors import Corrupt
from engine.statistics.lag_round import NOT_SAMPLED, WIDTH, WIDTH_1, LagColumn, LagRound, names_of
from engine.statistics.values import LagName

MAGIC_1 = 0x31474C4B  # "KLG1"
MAGIC = 0x32474C4B  # "KLG2"
HEAD_1, HEAD = (struct.Struct(f"<IIIIIqq{2 + width}I") for width in (WIDTH_1, WIDTH))
HEADS = {MAGIC_1: HEAD_1, MAGIC: HEAD}
assert HEAD.size == 36 + 4 * (2 + WIDTH)
CRC_FROM = 12
BLOCK_BYTES_MAX = 256 * 1024 * 1024
LEVEL = 6
NAMES = msgspec.json.Decoder(tuple[LagName, ...])


class BlockHead(NamedTuple):
    """What the header says."""

    size_bytes: int
    crc: int
    rounds: int
    rows: int
    first_ms: int
    last_ms: int
    sections: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.sections) - 2

    @property
    def head_bytes(self) -> int:
        return HEAD.size - 4 * (WIDTH - self.width)


def encode(rounds: Sequence[LagRound]) -> bytes:
    """A block of at least one round; the rounds ascend in time."""
    names = names_of(rounds)
    columns = _columns(rounds, names)
    sections = [json.dumps(names, ensure_ascii=False).encode()]
    sections += [_bytes(each) for each in (_deltas([one.at_ms for one in rounds]), *columns)]
    packed = [zlib.compress(section, LEVEL) for section in sections]
    size_bytes = HEAD.size + sum(map(len, packed))
    head = HEAD.pack(
        MAGIC,
        size_bytes,
        0,
        len(rounds),
        len(names),
        rounds[0].at_ms,
        rounds[-1].at_ms,
        *map(len, packed),
    )
    behind = head[CRC_FROM:] + b"".join(packed)
    return head[: CRC_FROM - 4] + struct.pack("<I", zlib.crc32(behind)) + behind


def read_head(data: bytes) -> BlockHead | None:
    """The header at the beginning of `data`; None where there is none."""
    layout = HEADS.get(int.from_bytes(data[:4], "little"))
    if layout is None or len(data) < layout.size:
        return None
    _, size_bytes, crc, rounds, rows, first_ms, last_ms, *sections = layout.unpack_from(data)
    is_one = size_bytes == layout.size + sum(sections)
    if not is_one or not rounds or size_bytes > BLOCK_BYTES_MAX:
        return None
    return BlockHead(
        size_bytes=size_bytes,
        crc=crc,
        rounds=rounds,
        rows=rows,
        first_ms=first_ms,
        last_ms=last_ms,
        sections=tuple(sections),
    )


def block_at(data: bytes, position: int) -> "Block | None":
    """The whole block that begins at `position`; None where none does."""
    head = read_head(data[position : position + HEAD.size])
    if head is None or position + head.size_bytes > len(data):
        return None
    try:
        return Block(data[position : position + head.size_bytes])
    except (Corrupt, ValueError, zlib.error):
        return None


def find_magic(data: bytes, start: int) -> int:
    """Where a block may begin from `start` on; the end of `data` where none does."""
    places = (data.find(magic.to_bytes(4, "little"), start) for magic in HEADS)
    return min((at for at in places if at >= 0), default=len(data))


class Block:
    """A block that was read; Corrupt where it is not whole."""

    def __init__(self, data: bytes) -> None:
        head = read_head(data)
        if head is None or len(data) < head.size_bytes:
            raise Corrupt("this is no whole block of lag samples")
        if zlib.crc32(memoryview(data)[CRC_FROM : head.size_bytes]) != head.crc:
            raise Corrupt("a block of lag samples fails its check")
        if 8 * head.rows * head.rounds > BLOCK_BYTES_MAX:
            raise Corrupt(f"a block of lag samples says that it has {head.rows} rows")
        self.head = head
        self._data = data
        self.names = _names(self._section(0))
        self.times_ms = list(accumulate(_numbers(self._section(1))))

    def columns(self, kinds: Iterable[LagColumn]) -> "dict[LagColumn, array[int]]":
        """Whole columns, still as differences; `row` makes numbers of them."""
        return {column: self._column(column) for column in kinds}

    def row(self, column: "array[int]", row: int) -> list[int]:
        """The numbers of one row, one for each of `times_ms`."""
        rounds = self.head.rounds
        return list(accumulate(column[row * rounds : (row + 1) * rounds]))

    def rounds(self) -> Iterator[LagRound]:
        """The rounds as they were sampled."""
        columns = [self._undone(column) for column in self.columns(LagColumn).values()]
        for at, at_ms in enumerate(self.times_ms):
            values = array("q", bytes(8 * WIDTH * len(self.names)))
            for column, numbers in zip(LagColumn, columns, strict=True):
                values[column::WIDTH] = numbers[at :: self.head.rounds]
            yield _without_missing(LagRound(at_ms, self.names, values))

    def _undone(self, column: "array[int]") -> "array[int]":
        """A column with its differences made numbers again; that of one round has none."""
        if self.head.rounds == 1:
            return column
        rows = range(self.head.rows)
        return array("q", chain.from_iterable(self.row(column, row) for row in rows))

    def _column(self, column: LagColumn) -> "array[int]":
        if column < self.head.width:
            return _numbers(self._section(2 + column))
        row = array("q", [NOT_SAMPLED]) + array("q", bytes(8 * (self.head.rounds - 1)))
        return row * self.head.rows

    def _section(self, number: int) -> bytes:
        start = self.head.head_bytes + sum(self.head.sections[:number])
        packed = self._data[start : start + self.head.sections[number]]
        # With the size of a column given at once, nothing is copied while it unpacks.
        try:
            return zlib.decompress(packed, bufsize=8 * self.head.rows * self.head.rounds)
        except zlib.error as error:
            raise Corrupt(f"a block of lag samples cannot be unpacked: {error}") from None


def _without_missing(one: LagRound) -> LagRound:
    """The round without the rows that it has no sample of."""
    present = one.values[LagColumn.PRESENT :: WIDTH]
    if all(present):
        return one
    there = [row for row, is_there in enumerate(present) if is_there]
    values = array("q", chain.from_iterable(one.row(row) for row in there))
    return LagRound(one.at_ms, tuple(one.names[row] for row in there), values)


@lru_cache(maxsize=64)
def _names(section: bytes) -> tuple[LagName, ...]:
    """The same in most blocks that follow each other."""
    return NAMES.decode(section)  # in one go, which holds up other threads for half as long


def _columns(rounds: Sequence[LagRound], names: Sequence[LagName]) -> "list[array[int]]":
    """Every column as differences, row by row; a missing sample repeats the one before."""
    columns = [array("q") for _ in LagColumn]
    places = [{name: index for index, name in enumerate(one.names)} for one in rounds]
    nothing = array("q", bytes(8 * WIDTH))
    for name in names:
        table, last = array("q"), nothing
        for one, place in zip(rounds, places, strict=True):
            index = place.get(name)
            if index is None:
                last = last[:]
                last[LagColumn.PRESENT] = 0
            else:
                last = one.values[index * WIDTH : (index + 1) * WIDTH]
            table.extend(last)
        for column in LagColumn:
            columns[column].extend(_deltas(table[column::WIDTH]))
    return columns


def _deltas(numbers: Sequence[int]) -> "array[int]":
    return array("q", [*numbers[:1], *map(sub, numbers[1:], numbers)])


def _bytes(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _numbers(data: bytes) -> "array[int]":
    numbers = array("q", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
