"""The kernel in Python: runs where nothing was compiled, and says what the compiled twin must do.

Both give the same bytes; `tests/engine/store/kernel` compares them over random batches.
"""

import re
import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple
from zlib import crc32

from engine.message import (
    KEYS,
    NAME_SEPARATOR,
    PROPERTIES_BYTES_MAX,
    PROPERTY_SEPARATOR,
    TAGS,
    UNIQ_KEY,
    WAIT,
    StoredMessage,
)
from engine.message_columns import BatchColumns
from engine.store import record
from engine.store.consume_queue import ENTRY, entries_layout
from engine.store.hashing import (
    MASK,
    PAIR_HASHES,
    POWER_2,
    POWER_4,
    SIGN,
    absolute_hash,
    continue_hash,
    tag_hash,
)
from engine.store.index_mark import items_layout
from engine.store.kernel.interface import (
    BORN_AT,
    EncodedColumns,
    IndexNumbers,
    RecordColumns,
    StoredColumns,
)
from engine.store.record import (
    CRC_BYTES,
    CRC_MASK,
    CRC_NAME,
    DIGITS,
    INT,
    LAST_DIGITS,
    OWN,
    SHORT,
)

I64 = struct.Struct(">q")
GOOD_TAG = re.compile(r"[!-{}~]*")  # printable ASCII but for the blank and "|"
GOOD_KEYS = re.compile(r"(?:[!-~]+(?: [!-~]+)*)?")
GOOD_ID = re.compile(r"[0-9A-Za-z]+")
SEEN = re.compile(rb"[!-~]")
SENT = struct.Struct(">i8xii")  # size, flag, bytes of the body
NAMES_MAX = 32  # of a plain message's properties
ID_KEY, TAG_KEY, KEYS_KEY, WAIT_KEY = (name.encode() for name in (UNIQ_KEY, TAGS, KEYS, WAIT))
NAME_END = NAME_SEPARATOR.encode()
TAG_NAME, KEYS_NAME = (f"{name}{NAME_SEPARATOR}" for name in (TAGS, KEYS))
ID_NAME, ID_END = f"{UNIQ_KEY}{NAME_SEPARATOR}".encode(), PROPERTY_SEPARATOR.encode()


def are_plain(
    data: bytes,
    count: int,
    bodies_at: int,
    tags_at: int,
    keys_at: int,
    flags_at: int,
    born_at: int,
    ids_at: int,
    properties_at: int,
    body_bytes_max: int,
    tag_bytes_max: int,
    keys_bytes_max: int,
    key_count_max: int,
    id_bytes_max: int,
    properties_bytes_max: int,
) -> bool:
    """Whether every body, tag, text of keys, flag, time and id may be encoded as it is.

    Of properties only the length is checked: `batch_columns` made them. A message that a column
    cannot say this of may be good all the same: look at it by itself.
    """
    sizes = _numbers(data, bodies_at, count, "I")
    property_sizes = _numbers(data, properties_at, count, "H")
    for at, each in ((bodies_at + 4 * count, sizes), (properties_at + 2 * count, property_sizes)):
        if each and at + sum(each) > len(data):
            raise ValueError("a column goes beyond its data")
    if count and not 0 < min(sizes) <= max(sizes) <= body_bytes_max:
        return False
    flags = _numbers(data, flags_at, count, "q")
    if any(not -(1 << 31) <= flag < 1 << 31 for flag in flags):
        return False
    if any(born_ms < 0 for born_ms in _numbers(data, born_at, count, "q")):
        return False
    keys = _texts(data, keys_at, count)
    return (
        _are_good(_texts(data, tags_at, count), GOOD_TAG, tag_bytes_max)
        and _are_good(keys, GOOD_KEYS, keys_bytes_max)
        and all(each.count(" ") < key_count_max for each in keys)
        and _are_good(_texts(data, ids_at, count), GOOD_ID, id_bytes_max)
        and max(property_sizes, default=0) <= properties_bytes_max
    )


def encode_records(columns: RecordColumns) -> EncodedColumns:
    """The records of a batch, their entries, and what is to be indexed."""
    data, count, position = columns.data, columns.message_count, columns.position
    tags = _texts(data, columns.tags_at, count)
    keys, key_hashes = _keys(columns)
    ids, number = _texts(data, columns.ids_at, count), columns.id_first
    has_own_ids = number < 0 and not ids
    id_hashes = [] if has_own_ids else _id_hashes(columns, ids)
    parts: list[bytes] = []
    entries: list[int] = []
    magic, queue, pack_own, join = columns.magic, columns.queue, OWN.pack, b"".join
    before_id = before_body = last_shared = b""
    fixed_bytes, last_body_bytes, last_property_bytes = 0, -1, -1
    for offset, (body, flag, code, shared, rest) in enumerate(
        zip(
            _pieces(data, columns.bodies_at, count, "I"),
            _numbers(data, columns.flags_at, count, "q") or repeat(columns.flag),
            map(tag_hash, tags) if tags else repeat(columns.tag_code),
            _shared(columns),
            _rests(columns, tags, keys),
            strict=False,
        ),
        columns.first_offset,
    ):
        if ids:
            digits = ids[offset - columns.first_offset].encode()
        else:
            digits = b"%016X" % position if has_own_ids else b"%08X" % number
        body_bytes, property_bytes = len(body), len(digits) + len(rest)
        if property_bytes != last_property_bytes:
            last_property_bytes, before_id = property_bytes, _before_id(columns, property_bytes)
            last_body_bytes = -1
        if body_bytes != last_body_bytes or shared is not last_shared:
            last_body_bytes, last_shared = body_bytes, shared
            before_body = shared + INT.pack(body_bytes)
            fixed_bytes = OWN.size + len(before_body) + body_bytes + len(before_id) + CRC_BYTES
        size = fixed_bytes + property_bytes
        own = pack_own(*(size, magic, crc32(body) & CRC_MASK, queue, flag), offset, position)
        record = join((own, before_body, body, before_id, digits, rest))
        high, low = divmod(crc32(record) & CRC_MASK, 10_000)
        parts += (record, CRC_NAME, DIGITS[low], DIGITS[high % 10_000])
        parts.append(LAST_DIGITS[high // 10_000])
        entries += (position, size, code)
        number += 1
        position += size
    positions = entries[0::3]
    hashes, places = _merged(key_hashes, id_hashes, positions)
    return EncodedColumns(
        b"".join(parts),
        entries_layout(count).pack(*entries),
        positions,
        entries[2::3] if tags else None,
        hashes.tobytes(),
        places.tobytes(),
    )


def batch_columns(
    data: bytes,
    start: int,
    count_max: int,
    body_bytes_max: int,
    tag_bytes_max: int,
    keys_bytes_max: int,
    key_count_max: int,
    id_bytes_max: int,
    properties_bytes_max: int,
    reserved: frozenset[bytes],
) -> BatchColumns:
    """The messages of a classic batch from byte `start` on, at most `count_max`, as columns.

    It ends before the first that is not plain. A plain one has an id, and but for it, its tag, its
    keys and the wish to wait for its storing only properties whose names are not `reserved`.
    """
    rows: list[_Sent] = []
    while len(rows) < count_max and start < len(data):
        row = _sent_at(data, start, reserved)
        if (
            row is None
            or len(row.body) > body_bytes_max
            or len(row.properties) > properties_bytes_max
            or not _are_good([row.message_id.decode()], GOOD_ID, id_bytes_max)
            or not _are_good([row.tag.decode()], GOOD_TAG, tag_bytes_max)
            or not _are_good([row.keys.decode()], GOOD_KEYS, keys_bytes_max)
            or row.keys.count(b" ") >= key_count_max
        ):
            break
        rows.append(row)
        start = row.end
    bodies = [row.body for row in rows]
    count, sizes = len(rows), list(map(len, bodies))
    parts, at = [struct.pack(f">{count}I", *sizes), *bodies], 4 * count + sum(sizes)
    starts: list[int] = []
    for texts in (
        [row.message_id for row in rows],
        [row.tag for row in rows],
        [row.keys for row in rows],
        [row.properties for row in rows],
    ):
        is_left_out = bool(starts) and not any(texts)  # ids are always there
        starts.append(-1 if is_left_out else at)
        if not is_left_out:
            parts += struct.pack(f">{count}H", *map(len, texts)), *texts
            at += 2 * count + sum(map(len, texts))
    flags = [row.flag for row in rows]
    starts.append(at if any(flags) else -1)
    if any(flags):
        parts.append(struct.pack(f">{count}q", *flags))
    return BatchColumns(b"".join(parts), count, start, sum(sizes), *starts)


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


def decode_records(
    data: bytes,
    starts: Sequence[int],
    make: Callable[..., StoredMessage],
    unpack_host: Callable[[bytes], str],
) -> list[StoredMessage | None]:
    """The records that start at these places; None for those that `record` has to look at.

    These are all that are not whole or have no CRC of their own, and here in Python any.
    """
    return [None] * len(starts)


def stored_columns(
    data: bytes, entries: bytes, start: int, first_offset: int, queue: int, topic: bytes
) -> StoredColumns:
    """The records of these entries, up to the first that has to be looked at by itself.

    `data` is the log from position `start` on. A record is plain that is whole, has a CRC of its
    own, is what its entry and the place say, is not compressed, and has no tag beyond ASCII.
    """
    plain: list[StoredMessage] = []
    for offset, entry in enumerate(ENTRY.iter_unpack(entries), first_offset):
        message = _plain_record(data, entry[0] - start, entry)
        if message is None or (message.offset, message.queue) != (offset, queue):
            break
        if message.topic.encode() != topic:
            break
        plain.append(message)
    pack = struct.Struct(f">{len(plain)}q").pack
    return StoredColumns(
        message_count=len(plain),
        size_bytes=sum([each.size_bytes for each in plain]),
        born_ms=pack(*[each.born_ms for each in plain]),
        stored_ms=pack(*[each.stored_ms for each in plain]),
        positions=pack(*[each.position for each in plain]),
        flags=pack(*[each.flag for each in plain]),
        sys_flags=pack(*[each.sys_flag for each in plain]),
        properties=_packed([each.property_block for each in plain]),
        bodies=_packed([each.body for each in plain]),
    )


def _plain_record(data: bytes, at: int, entry: tuple[int, int, int]) -> StoredMessage | None:
    """The message of an entry whose record lies at `at`; None for one that is not plain."""
    position, size_bytes, code = entry
    if at < 0 or not record.has_crc(data[at : at + size_bytes]):
        return None
    message = record.decode_run(data, (at,))[0]
    if not isinstance(message, StoredMessage) or message.is_compressed:
        return None
    tag = message.tag
    is_entry = (message.position, message.size_bytes) == (position, size_bytes)
    return message if is_entry and tag.isascii() and tag_hash(tag) == code else None


def _packed(values: Sequence[bytes]) -> bytes:
    """Lengths, then the values."""
    return struct.pack(f">{len(values)}I", *map(len, values)) + b"".join(values)


class _Sent(NamedTuple):
    """A message of a batch, and where it ends there."""

    end: int
    flag: int
    body: bytes
    message_id: bytes
    tag: bytes
    keys: bytes
    properties: bytes


def _sent_at(data: bytes, at: int, reserved: frozenset[bytes]) -> _Sent | None:
    """The message that begins at `at`; None unless it is whole and has but plain properties."""
    body_at = at + SENT.size
    if body_at + SHORT.size > len(data):
        return None
    size, flag, body_bytes = SENT.unpack_from(data, at)
    body_end = body_at + body_bytes
    if body_bytes <= 0 or body_end + SHORT.size > len(data):
        return None
    text_at = body_end + SHORT.size
    (length,) = SHORT.unpack_from(data, body_end)
    end = text_at + length
    if length < 0 or end > len(data) or end - at != size:
        return None
    text = data[text_at:end]
    pairs = [item.partition(NAME_END)[::2] for item in text.split(ID_END)]
    pairs = [(name, value) for name, value in pairs if name and value]
    own = dict(pairs)
    if len(own) != len(pairs) or len(own) > NAMES_MAX or own.pop(WAIT_KEY, b"") == b"false":
        return None
    texts = [own.pop(name, b"") for name in (ID_KEY, TAG_KEY, KEYS_KEY)]
    if not reserved.isdisjoint(own) or not all(map(_is_storable, (*own, *own.values()))):
        return None
    if not (text.isascii() or _is_utf8(text)) or not b"".join(texts).isascii():
        return None
    properties = b"".join([name + NAME_END + value + ID_END for name, value in own.items()])
    body = data[body_at:body_end]
    return _Sent(*(end, flag, body, texts[0], texts[1], texts[2], properties))


def _is_storable(text: bytes) -> bool:
    """Whether there is something to see, and no separator."""
    return SEEN.search(text) is not None and b"\0" not in text and NAME_END not in text


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _are_good(texts: Iterable[str], good: re.Pattern[str], bytes_max: int) -> bool:
    return all(len(text) <= bytes_max and good.fullmatch(text) for text in texts)


def _shared(columns: RecordColumns) -> Iterable[bytes]:
    """What the messages of a sender share, for each message."""
    shared = columns.shared
    if columns.born_at < 0:
        return repeat(shared)
    times = _numbers(columns.data, columns.born_at, columns.message_count, "q")
    before, behind = shared[:BORN_AT], shared[BORN_AT + I64.size :]
    return [before + I64.pack(born_ms or columns.born_ms) + behind for born_ms in times]


def _id_hashes(columns: RecordColumns, ids: list[str]) -> list[int]:
    """What the index keeps for each id; all but the last four digits are mostly the same."""
    if ids:
        return [absolute_hash(continue_hash(columns.topic_hash, each)) for each in ids]
    prefix = continue_hash(columns.topic_hash, columns.id_prefix.decode())
    hashes = []
    last_head, head_hash = -1, 0
    for number in range(columns.id_first, columns.id_first + columns.message_count):
        head = number >> 16
        if head != last_head:
            last_head, head_hash = head, continue_hash(prefix, f"{head:04X}") * POWER_4
        low = PAIR_HASHES[number >> 8 & 0xFF] * POWER_2 + PAIR_HASHES[number & 0xFF]
        hash_ = (head_hash + low) & MASK
        hashes.append(hash_ if hash_ < SIGN else absolute_hash(hash_))
    return hashes


def _keys(columns: RecordColumns) -> tuple[list[str], list[list[int]]]:
    """The keys of each message, none where all share them; their hashes, none without keys."""
    if columns.keys_at < 0:
        shared = array("I", columns.key_hashes).tolist()
        return [], [shared] * columns.message_count if shared else []
    keys = _texts(columns.data, columns.keys_at, columns.message_count)
    prefix = columns.topic_hash
    return keys, [
        [absolute_hash(continue_hash(prefix, key)) for key in each.split()] for each in keys
    ]


def _merged(
    key_hashes: list[list[int]], id_hashes: list[int], positions: list[int]
) -> "tuple[array[int], array[int]]":
    """What is to be indexed: of each message its keys, then its id."""
    if not key_hashes:
        return array("I", id_hashes), array("q", positions if id_hashes else ())
    hashes, places = array("I"), array("q")
    for index, position in enumerate(positions):
        own = key_hashes[index] + id_hashes[index : index + 1]
        hashes.extend(own)
        places.extend([position] * len(own))
    return hashes, places


def _rests(columns: RecordColumns, tags: list[str], keys: list[str]) -> Iterable[bytes]:
    """What follows the id in each property block, but for the CRC."""
    count = columns.message_count
    own = _pieces(columns.data, columns.properties_at, count, "H")
    if not tags and not keys and not own:
        return repeat(b"".join((ID_END, columns.tag, columns.keys, columns.properties)))
    tag_parts = [_part(TAG_NAME, tag) for tag in tags] if tags else repeat(columns.tag)
    key_parts = [_part(KEYS_NAME, each) for each in keys] if keys else repeat(columns.keys)
    return [
        b"".join((ID_END, tag_part, key_part, columns.properties, own_part))
        for _, tag_part, key_part, own_part in zip(
            range(count), tag_parts, key_parts, own or repeat(b""), strict=False
        )
    ]


def _before_id(columns: RecordColumns, property_bytes: int) -> bytes:
    """What lies between the body and the digits of the id, with which `property_bytes` begin."""
    id_part = ID_NAME + (columns.id_prefix if columns.ids_at < 0 else b"")
    size = len(id_part) + property_bytes + CRC_BYTES
    if size > PROPERTIES_BYTES_MAX:
        raise ValueError("the properties leave no room for the CRC")
    return columns.topic_field + SHORT.pack(size) + id_part


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


def _pieces(data: bytes, at: int, count: int, code: str) -> list[bytes]:
    """A column of bytes behind lengths of this kind; none where all share one."""
    if at < 0:
        return []
    start = at + struct.calcsize(f">{code}") * count
    ends = list(accumulate(_numbers(data, at, count, code), initial=start))
    if ends[-1] > len(data):
        raise ValueError("a column goes beyond its data")
    return [data[a:b] for a, b in pairwise(ends)]
