"""The layout of a key index file, and the mark that tells whether its bytes are still as written.

RocketMQ never uses item 0. There stands a mark of KiteMQ's own: a CRC of the items that a
checkpoint has brought to disk, and once the file is full or closed one of head and slots. A mark
is written after what it covers is on the disk, so that a power loss never makes it wrong. Files of
earlier versions and of Apache RocketMQ have zeros there, and are believed as far as they agree with
themselves.

| mark        | bytes | at |                                                                |
|-------------|-------|----|----------------------------------------------------------------|
| magic       | 4     | 0  | "KIX1"                                                         |
| items       | 4     | 4  | how many, from item 1 on, the next CRC covers                  |
| items' CRC  | 4     | 8  | of first stored ms, first position, and these items            |
| whole's CRC | 4     | 12 | of head and slots of a file with no more items; 0: still open  |
| CRC-32      | 4     | 16 | of bytes 0 to 15                                               |
"""

import struct
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from engine.store.files import File

HEADER = struct.Struct(">qqqqii")
ITEM = struct.Struct(">iqii")
SLOT_BYTES = 4
assert HEADER.size == 40
assert ITEM.size == 20

MAGIC = b"KIX1"
MARK = struct.Struct(">4sIII")
CRC = struct.Struct(">I")
assert MARK.size + CRC.size == ITEM.size
BEGINNING = struct.Struct(">qq")  # first stored ms, first position
READ_BYTES = 1 << 20


class IndexMark(NamedTuple):
    """What a mark says. Without a `whole_crc` head and slots may change."""

    items: int
    items_crc: int
    whole_crc: int = 0

    def packed(self) -> bytes:
        """The 20 bytes of item 0."""
        data = MARK.pack(MAGIC, *self)
        return data + CRC.pack(crc32(data))


def items_at(slot_count: int) -> int:
    """Where item 0 begins."""
    return HEADER.size + slot_count * SLOT_BYTES


def begin_crc(first_ms: int, first_position: int) -> int:
    """The CRC that goes on with the items."""
    return crc32(BEGINNING.pack(first_ms, first_position))


def whole_crc(header: bytes, slots: bytes) -> int:
    """The CRC of head and slots, never 0."""
    return crc32(slots, crc32(header)) or 1


def crc_of_range(file: File, begin: int, end: int, crc: int = 0) -> int:
    """`crc` going on with these bytes of the file, read 1 MiB at a time."""
    for position in range(begin, end, READ_BYTES):
        crc = crc32(file.pread(min(READ_BYTES, end - position), position), crc)
    return crc


def marked_items(file: File, slot_count: int) -> int:
    """How many items the mark of a file covers, which was found right; 0 where there is none."""
    data = file.pread(ITEM.size, items_at(slot_count))
    return int(MARK.unpack_from(data)[1]) if data.strip(b"\0") else 0


def mark_fault(file: File, slot_count: int, *, is_sealed: bool) -> str:
    """What of a file is not as its mark says; empty where all is, and where there is no mark.

    Head and slots count only where the file is written no more (`is_sealed`). Reads the whole file.
    """
    first_item = items_at(slot_count)
    data = file.pread(ITEM.size, first_item)
    if not data.strip(b"\0"):
        return ""
    if len(data) < ITEM.size or CRC.unpack_from(data, MARK.size)[0] != crc32(data[: MARK.size]):
        return "its mark, in item 0, does not match its CRC"
    magic, *fields = MARK.unpack_from(data)
    if magic != MAGIC:
        return "its mark, in item 0, is not KiteMQ's"
    mark = IndexMark(*fields)
    header = file.pread(HEADER.size, 0)
    first_ms, _, first_position, _, _, next_item = HEADER.unpack(header.ljust(HEADER.size, b"\0"))
    if next_item - 1 < mark.items:
        return f"its head says {next_item - 1} items, a checkpoint had {mark.items}"
    end = first_item + (mark.items + 1) * ITEM.size
    crc = begin_crc(first_ms, first_position)
    if crc_of_range(file, first_item + ITEM.size, end, crc) != mark.items_crc:
        return f"its first {mark.items} items do not match their CRC"
    if not is_sealed or not mark.whole_crc or next_item - 1 != mark.items:
        return ""
    whole = crc_of_range(file, HEADER.size, first_item, crc32(header)) or 1
    return "" if whole == mark.whole_crc else "its head and slots do not match their CRC"


@lru_cache(maxsize=512)
def items_layout(count: int) -> struct.Struct:
    """`count` items in one go."""
    return struct.Struct(">" + ITEM.format[1:] * count)
