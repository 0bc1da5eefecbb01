"""Encodes and decodes records of the commit log, RocketMQ's V1 and V2, byte for byte.

| field              | bytes   | at | note                                                     |
|--------------------|---------|----|----------------------------------------------------------|
| total size         | 4       | 0  | of the whole record                                      |
| magic              | 4       | 4  | V1, V2 (topic longer than 127 bytes), or BLANK           |
| body CRC           | 4       | 8  | CRC-32 of the body as stored & 0x7FFFFFFF                |
| queue              | 4       | 12 |                                                          |
| flag               | 4       | 16 | the user's own                                           |
| queue offset       | 8       | 20 | messages before it in its queue                          |
| position           | 8       | 28 | bytes before it in the log                               |
| system flag        | 4       | 36 | 0x10 / 0x20: born / store host is IPv6                   |
| born ms            | 8       | 40 | the producer's clock                                     |
| born host          | 8 or 20 | 48 | address, 4-byte port                                     |
| stored ms          | 8       | 56 |                                                          |
| store host         | 8 or 20 | 64 |                                                          |
| reconsume times    | 4       | 72 | attempt - 1                                              |
| prepared position  | 8       | 76 | of a transaction's half message                          |
| body               | 4 + n   | 84 |                                                          |
| topic              | 1 + n   |    | V2: 2 + n                                                |
| properties         | 2 + n   |    | name 0x01 value 0x02 …; the last may be the record's CRC |

The record's CRC is RocketMQ's `__CRC32#` property (its setting `enabledAppendPropCRC`): ten decimal
digits, the least significant first, of the CRC-32 & 0x7FFFFFFF of every byte before the property.
Records of earlier versions and of RocketMQ, and those whose properties leave no room for it, have
none; the checkpoint says from where on all have one. What is read never shows it.

What a loss of power has taken in front of whole records becomes records of the topic
`rmq_sys_.hole`, a name that no topic can have, or a blank one: every reader finds what follows.

All integers are big-endian. Source: docs/rocketmq-rules.md#records-of-the-log.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from zlib import crc32

from engine.errors import Corrupt, Invalid
from engine.host import IPV4_BYTES, unpack_host
from engine.message import (
    KEYS,
    PROPERTIES_BYTES_MAX,
    SHARDING_KEY,
    TAGS,
    UNIQ_KEY,
    Message,
    StoredMessage,
    join_properties,
)

MAGIC_V1 = -626843481  # 0xDAA320A7
MAGIC_V2 = -626843477  # 0xDAA320AB
MAGIC_BLANK = -875286124  # 0xCBD43194
CRC_MASK = 0x7FFFFFFF
BLANK_BYTES_MIN = 8
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
TOPIC_V1_BYTES_MAX = 127

HEAD = struct.Struct(">iiiiiqqiq8sq8siqi")  # everything up to the body, both hosts IPv4
HEADS = (  # by system flag bits 0x10 (born host is IPv6) and 0x20 (store host is)
    HEAD,
    struct.Struct(">iiiiiqqiq20sq8siqi"),
    struct.Struct(">iiiiiqqiq8sq20siqi"),
    struct.Struct(">iiiiiqqiq20sq20siqi"),
)
# The head in three pieces: what differs for each message, what a sender's messages share, and
# the length of the body.
OWN = struct.Struct(">iiiiiqq")  # total size, magic, CRC, queue, flag, queue offset, position
SHARED_V4 = struct.Struct(">iq8sq8siq")  # system flag, born, host, stored, host, times, prepared
INT = struct.Struct(">i")
FLAGS_LAST = 39  # the last byte of the system flag holds the host bits
BLANK = struct.Struct(">ii")  # total size, magic
SHORT = struct.Struct(">h")
BYTE = struct.Struct(">B")
TOPIC_LENGTHS = {MAGIC_V1: BYTE, MAGIC_V2: SHORT}  # before the topic
HEAD_BYTES_MAX = HEADS[-1].size
assert HEAD.size == 88
assert OWN.size + SHARED_V4.size + INT.size == HEAD.size
assert BLANK.size == BLANK_BYTES_MIN

CRC_NAME = b"__CRC32#\x01"
CRC_DIGITS = 10
CRC_BYTES = len(CRC_NAME) + CRC_DIGITS + 1  # the separator behind it included
assert CRC_BYTES == 20
COPIED_BYTES_MAX = 8192  # a smaller record is copied sooner than a view of it is made
CRC_LIKENESS_MIN = 5  # bytes of a name that is the CRC's, but for damage

RECORD_BYTES_MIN = HEAD.size + 1 + SHORT.size
HOLE_TOPIC = "rmq_sys_.hole"  # a system topic to RocketMQ; no topic can have this name
HOLE_BYTES_MIN = RECORD_BYTES_MIN + len(HOLE_TOPIC) + CRC_BYTES
NO_RANGE = range(0)


def body_crc(body: bytes | memoryview) -> int:
    return crc32(body) & CRC_MASK


@lru_cache(maxsize=4096)
def topic_field(topic: str) -> tuple[int, bytes]:
    """The magic that `topic` calls for, and its length-prefixed bytes."""
    name = topic.encode()
    if len(name) <= TOPIC_V1_BYTES_MAX:
        return MAGIC_V1, bytes((len(name),)) + name
    return MAGIC_V2, SHORT.pack(len(name)) + name


def encode_properties(message: Message) -> bytes:
    """The property string of a message, its named fields first; Invalid when over 32,767 bytes."""
    text = f"{UNIQ_KEY}\x01{message.message_id}\x02"
    if message.tag:
        text += f"{TAGS}\x01{message.tag}\x02"
    if message.keys:
        text += f"{KEYS}\x01{' '.join(message.keys)}\x02"
    if message.message_group:
        text += f"{SHARDING_KEY}\x01{message.message_group}\x02"
    if message.properties:
        text += join_properties(message.properties)
    encoded = text.encode()
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise Invalid(
            f"the properties take {len(encoded)} bytes, {PROPERTIES_BYTES_MAX} is the most",
            field="properties",
            remedy="send fewer or shorter properties, or move them into the body",
        )
    return encoded


def hole_record(position: int, size_bytes: int, stored_ms: int) -> bytes:
    """A whole record in the place of bytes that are lost, at least `HOLE_BYTES_MIN`."""
    magic, topic = topic_field(HOLE_TOPIC)
    body = bytes(size_bytes - HOLE_BYTES_MIN)
    host = bytes(IPV4_BYTES)
    own = (size_bytes, magic, body_crc(body), 0, 0, 0, position)
    shared = (0, stored_ms, host, stored_ms, host, 0, 0)
    record = (
        OWN.pack(*own)
        + SHARED_V4.pack(*shared)
        + INT.pack(len(body))
        + body
        + topic
        + SHORT.pack(CRC_BYTES)
    )
    return record + _crc_property(record)


def _crc_property(record: bytes | memoryview) -> bytes:
    """The property that holds the CRC of the bytes before it."""
    return (_CRC_REVERSED % (crc32(record) & CRC_MASK))[::-1]


def decode(data: bytes, at: int = 0, crc_range: range = NO_RANGE) -> StoredMessage:
    """The record that starts at `at`; Corrupt when length, magic, CRC or a field is wrong.

    One whose position is in `crc_range` must have a CRC of its own.
    """
    result = decode_run(data, (at,), crc_range)[0]
    if isinstance(result, Corrupt):
        raise result
    return result


def stored_ms_in(head: bytes, position: int) -> int | None:
    """When the record at `position` was stored, from its first `HEAD_BYTES_MAX` bytes.

    None where they are no head of a record that states this position.
    """
    times = times_in(head, position)
    return None if times is None else times[1]


def times_in(head: bytes, position: int) -> tuple[int, int] | None:
    """When the record at `position` was made and stored; None as for `stored_ms_in`."""
    if len(head) < HEAD.size:
        return None
    layout = HEADS[(head[FLAGS_LAST] & HOST_BITS) >> 4]
    if len(head) < layout.size:
        return None
    fields = layout.unpack_from(head)
    is_head = fields[1] in TOPIC_LENGTHS and fields[6] == position
    return (fields[8], fields[10]) if is_head else None


# The CRC's property is its name, twice four digits, the least significant first, and the last two
# with the separator.
DIGITS = tuple((b"%04d" % number)[::-1] for number in range(10_000))
LAST_DIGITS = tuple((b"%02d" % number)[::-1] + b"\x02" for number in range(22))
_CRC_REVERSED = b"\x02%010d" + CRC_NAME[::-1]  # the property from its end to its start


def has_crc(record: bytes) -> bool:
    """Whether a whole record has a CRC of its own."""
    return record.startswith(CRC_NAME, len(record) - CRC_BYTES)


def has_room_for_crc(property_bytes: int) -> bool:
    """Whether properties without a CRC leave room for one."""
    return property_bytes + CRC_BYTES <= PROPERTIES_BYTES_MAX


def place_in(head: bytes) -> tuple[int, int, int, int] | None:
    """Size, queue, offset and position as a record's first bytes state them; None if none does."""
    if len(head) < HEAD.size:
        return None
    size, magic, _, queue, _, offset, position, *_ = HEAD.unpack_from(head)
    return (size, queue, offset, position) if magic in TOPIC_LENGTHS else None


def decode_run(
    data: bytes, starts: Iterable[int], crc_range: range = NO_RANGE
) -> list[StoredMessage | Corrupt]:
    """The records that start at these places; a Corrupt stands for one that is damaged.

    Those whose positions are in `crc_range` must have a CRC of their own. Neighbours mostly share
    topic and hosts, which are then turned into text once.
    """
    results: list[StoredMessage | Corrupt] = []
    last_bits, unpack_head, head_bytes = 0, HEAD.unpack_from, HEAD.size
    last_magic, last_field, last_born, last_store = 0, b"", b"", b""
    topic = born = store = ""
    data_bytes, unpack_length = len(data), SHORT.unpack_from
    for at in starts:
        try:
            bits = data[at + FLAGS_LAST] & HOST_BITS
            if bits != last_bits:
                last_bits, layout = bits, HEADS[bits >> 4]
                unpack_head, head_bytes = layout.unpack_from, layout.size
            (
                size, magic, _, queue, flag, offset, position, sys_flag,
                born_ms, born_host, stored_ms, store_host, times, prepared, body_bytes,
            ) = unpack_head(data, at)  # fmt: skip
            end = at + size
            body_at = at + head_bytes
            body_end = body_at + body_bytes
            if body_bytes < 0 or not body_end <= end <= data_bytes:
                raise _no_record(magic, size)
            if magic != last_magic or not data.startswith(last_field, body_end):
                topic, last_field = _topic_in(data, body_end, magic, size)
                last_magic = magic
            topic_end = body_end + len(last_field)
            (property_bytes,) = unpack_length(data, topic_end)
            properties_at = topic_end + 2
            crc_at = end - CRC_BYTES
            # This covers the body, too: its own CRC need not be checked.
            whole = data[at:crc_at] if size < COPIED_BYTES_MAX else memoryview(data)[at:crc_at]
            crc = (_CRC_REVERSED % (crc32(whole) & CRC_MASK))[::-1]
            if (
                data.startswith(crc, crc_at)
                and properties_at <= crc_at
                and properties_at + property_bytes == end
            ):
                properties = data[properties_at:crc_at]
            else:
                properties = _properties_without_crc(data, at, position in crc_range)
            if born_host != last_born:
                born, last_born = unpack_host(born_host), born_host
            if store_host != last_store:
                store, last_store = unpack_host(store_host), store_host
            results.append(
                StoredMessage(
                    topic,
                    queue,
                    offset,
                    position,
                    size,
                    data[body_at:body_end],
                    properties,
                    flag,
                    sys_flag,
                    times + 1,
                    born_ms,
                    born,
                    stored_ms,
                    store,
                    prepared,
                )
            )
        except (Corrupt, struct.error, IndexError, UnicodeDecodeError) as error:
            results.append(_damage(data, at, error))
    return results


def _topic_in(data: bytes, at: int, magic: int, size: int) -> tuple[str, bytes]:
    """The topic whose field starts at `at`, and that field."""
    length = TOPIC_LENGTHS.get(magic)
    if length is None:
        raise _no_record(magic, size)
    (topic_bytes,) = length.unpack_from(data, at)
    topic_at = at + length.size
    topic_end = topic_at + topic_bytes
    if topic_bytes < 1:
        raise Corrupt("the lengths inside the record do not add up")
    return data[topic_at:topic_end].decode(), data[at:topic_end]


def _properties_without_crc(data: bytes, at: int, must_have_crc: bool = False) -> bytes:
    """The properties of the record at `at`, which does not end with its CRC as it should.

    Corrupt, but for a record that was written without one: this must match the CRC of its body,
    and look whole. Where it must have one it is damaged all the same, unless there was no room.
    """
    layout = HEADS[(data[at + FLAGS_LAST] & HOST_BITS) >> 4]
    size, magic, crc, *_, body_bytes = layout.unpack_from(data, at)
    end, body_at = at + size, at + layout.size
    body_end = body_at + body_bytes
    if magic not in TOPIC_LENGTHS or not body_at <= body_end <= end <= len(data):
        raise _no_record(magic, size)
    if body_crc(data[body_at:body_end]) != crc:
        raise Corrupt("the body does not match its CRC")
    _, field = _topic_in(data, body_end, magic, size)
    properties_at = body_end + len(field) + SHORT.size
    (property_bytes,) = SHORT.unpack_from(data, properties_at - SHORT.size)
    if property_bytes < 0 or properties_at + property_bytes != end:
        raise Corrupt("the lengths inside the record do not add up")
    properties = data[properties_at:end]
    if len(properties) >= CRC_BYTES:
        last = properties[-CRC_BYTES:]
        if last.startswith(CRC_NAME):
            raise Corrupt("the record does not match its CRC")
        if sum(a == b for a, b in zip(last, CRC_NAME, strict=False)) >= CRC_LIKENESS_MIN:
            raise Corrupt("the name of the record's CRC is damaged")
    if b"\0" in properties:
        raise Corrupt("part of the properties was never written")
    if must_have_crc and has_room_for_crc(len(properties)):
        raise Corrupt("the record has no CRC, and was written with one")
    return properties


def _no_record(magic: int, size: int) -> Corrupt:
    return Corrupt(f"no record: magic {magic & 0xFFFFFFFF:#010x}, size {size}")


def _damage(data: bytes, at: int, error: Exception) -> Corrupt:
    """What is wrong with the record at `at`: what fails first, in the order of its fields."""
    try:
        _properties_without_crc(data, at)
    except Corrupt as damage:
        return damage
    except (struct.error, IndexError, UnicodeDecodeError) as unreadable:
        error = unreadable
    return error if isinstance(error, Corrupt) else Corrupt(f"unreadable record: {error}")
