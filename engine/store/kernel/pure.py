"""The kernel in Python: runs where nothing was compiled, and says what the compiled twin must do.

Both give the same bytes; `tests/engine/store/kernel` compares them over random batches.
"""

import re
import struct
from array import array
from collections.abc import Iterable
from itertools import accumulate, pairwise, repeat
from zlib import crc32

from engine.message import (
    KEYS,
    NAME_SEPARATOR,
    PROPERTIES_BYTES_MAX,
    PROPERTY_SEPARATOR,
    TAGS,
    UNIQ_KEY,
)
from engine.store.consume_queue import entries_layout
from engine.store.hashing import absolute_hash, continue_hash, java_hash
from engine.store.index_mark import items_layout
from engine.store.kernel.interface import EncodedColumns, IndexNumbers, RecordColumns
from engine.store.record import (
    CRC_BYTES,
    CRC_MASK,
    DIGITS,
    INT,
    LAST_DIGITS,
    NAME_DIGITS,
    OWN,
    SHORT,
)

I64 = struct.Struct(">q")
BORN_AT = 4  # in what the messages of a sender share
GOOD_TAG = re.compile(r"[!-{}~]*")  # printable ASCII but for the blank and "|"
GOOD_KEYS = re.compile(r"(?:[!-~]+(?: [!-~]+)*)?")
ID_NAME, TAG_NAME, KEYS_NAME = (f"{name}{NAME_SEPARATOR}" for name in (UNIQ_KEY, TAGS, KEYS))


def are_plain(
    data: bytes,
    count: int,
    bodies_at: int,
    tags_at: int,
    keys_at: int,
    flags_at: int,
    born_at: int,
    body_bytes_max: int,
    tag_bytes_max: int,
    keys_bytes_max: int,
    key_count_max: int,
) -> bool:
    """Whether every body, tag, text of keys, flag and time may be encoded as it is.

    A message that a column cannot say this of may be good all the same: look at it by itself.
    """
    sizes = _numbers(data, bodies_at, count, "I")
    if bodies_at + 4 * count + sum(sizes) > len(data):
        raise ValueError("a column goes beyond its data")
    if count and not 0 < min(sizes) <= max(sizes) <= body_bytes_max:
        return False
    for tag in _texts(data, tags_at, count):
        if len(tag) > tag_bytes_max or not GOOD_TAG.fullmatch(tag):
            return False
    for keys in _texts(data, keys_at, count):
        if len(keys) > keys_bytes_max or not GOOD_KEYS.fullmatch(keys):
            return False
        if keys.count(" ") >= key_count_max:
            return False
    flags = _numbers(data, flags_at, count, "q")
    if any(not -(1 << 31) <= flag < 1 << 31 for flag in flags):
        return False
    return all(born_ms >= 0 for born_ms in _numbers(data, born_at, count, "q"))


def encode_records(columns: RecordColumns) -> EncodedColumns:
    """The records of a batch, their entries, and what is to be indexed."""
    data, count, position = columns.data, columns.message_count, columns.position
    tags = _texts(data, columns.tags_at, count)
    has_own_ids, id_prefix = columns.id_first < 0, columns.id_prefix.decode()
    prefix_hash = continue_hash(columns.topic_hash, id_prefix)
    parts: list[bytes] = []
    entries: list[int] = []
    positions: list[int] = []
    hashes, places = array("I"), array("q")
    rows = zip(
        _bodies(data, columns.bodies_at, count),
        _numbers(data, columns.flags_at, count, "q") or repeat(columns.flag),
        map(java_hash, tags) if tags else repeat(columns.tag_code),
        _shared(columns),
        (_part(TAG_NAME, tag) for tag in tags) if tags else repeat(columns.tag),
        _keys(columns),
        strict=False,
    )
    for index, (body, flag, code, shared, tag_part, (keys_part, key_hashes)) in enumerate(rows):
        number = f"{position:016X}" if has_own_ids else f"{columns.id_first + index:08X}"
        id_part = f"{ID_NAME}{id_prefix}{number}{PROPERTY_SEPARATOR}".encode()
        properties = b"".join((id_part, tag_part, keys_part, columns.properties))
        if len(properties) + CRC_BYTES > PROPERTIES_BYTES_MAX:
            raise ValueError("the properties leave no room for the CRC")
        before = shared + INT.pack(len(body))
        behind = columns.topic_field + SHORT.pack(len(properties) + CRC_BYTES) + properties
        size = OWN.size + len(before) + len(body) + len(behind) + CRC_BYTES
        crc, offset = crc32(body) & CRC_MASK, columns.first_offset + index
        own = OWN.pack(*(size, columns.magic, crc, columns.queue, flag), offset, position)
        record = b"".join((own, before, body, behind))
        high, low = divmod(crc32(record) & CRC_MASK, 10_000)
        parts += (record, NAME_DIGITS[low], DIGITS[high % 10_000], LAST_DIGITS[high // 10_000])
        entries += (position, size, code)
        positions.append(position)
        hashes.extend(key_hashes)
        if not has_own_ids:
            hashes.append(absolute_hash(continue_hash(prefix_hash, number)))
        places.extend(repeat(position, len(hashes) - len(places)))
        position += size
    return EncodedColumns(
        b"".join(parts),
        entries_layout(count).pack(*entries),
        positions,
        entries[2::3] if tags else None,
        hashes.tobytes(),
        places.tobytes(),
    )


def index_items(
    slots: "array[int]", hashes: IndexNumbers, places: IndexNumbers, seconds: int, number: int
) -> bytes:
    """Items of the key index for keys with these hashes, numbered from `number` on.

    Each names the item before it in its slot, and is noted in `slots` as the newest.
    """
    count = len(slots)
    fields: list[int] = []
    for hash_, position in zip(hashes, places, strict=True):
        slot = hash_ % count
        fields += (hash_, position, seconds, slots[slot])
        slots[slot] = number
        number += 1
    return items_layout(len(places)).pack(*fields)


def _shared(columns: RecordColumns) -> Iterable[bytes]:
    """What the messages of a sender share, for each message."""
    shared = columns.shared
    if columns.born_at < 0:
        return repeat(shared)
    times = _numbers(columns.data, columns.born_at, columns.message_count, "q")
    before, behind = shared[:BORN_AT], shared[BORN_AT + I64.size :]
    return [before + I64.pack(born_ms or columns.born_ms) + behind for born_ms in times]


def _keys(columns: RecordColumns) -> Iterable[tuple[bytes, Iterable[int]]]:
    """For each message its keys in the property block, and their hashes."""
    if columns.keys_at < 0:
        return repeat((columns.keys, array("I", columns.key_hashes)))
    prefix = columns.topic_hash
    return [
        (
            _part(KEYS_NAME, keys),
            [absolute_hash(continue_hash(prefix, key)) for key in keys.split()],
        )
        for keys in _texts(columns.data, columns.keys_at, columns.message_count)
    ]


def _part(name: str, value: str) -> bytes:
    return f"{name}{value}{PROPERTY_SEPARATOR}".encode() if value else b""


def _numbers(data: bytes, at: int, count: int, code: str) -> tuple[int, ...]:
    """A column of numbers; none where all share one."""
    return () if at < 0 else struct.unpack_from(f">{count}{code}", data, at)


def _texts(data: bytes, at: int, count: int) -> list[str]:
    """A column of ASCII texts; none where all share one."""
    if at < 0:
        return []
    start = at + 2 * count
    ends = list(accumulate(_numbers(data, at, count, "H"), initial=0))
    if start + ends[-1] > len(data):
        raise ValueError("a column goes beyond its data")
    text = data[start : start + ends[-1]].decode("ascii")
    return [text[a:b] for a, b in pairwise(ends)]


def _bodies(data: bytes, at: int, count: int) -> list[bytes]:
    ends = list(accumulate(_numbers(data, at, count, "I"), initial=at + 4 * count))
    if ends[-1] > len(data):
        raise ValueError("a column goes beyond its data")
    return [data[a:b] for a, b in pairwise(ends)]
