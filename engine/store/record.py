"""The record of the commit log, RocketMQ's V1 and V2, byte for byte. The one module that knows.

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
| properties         | 2 + n   |    | name 0x01 value 0x02 …                                   |

Source: reference "rocketmq-semantics", sections 1.2 and 1.3. All integers are big-endian.
"""

import struct
from functools import lru_cache
from zlib import crc32

from engine.errors import Corrupt, Invalid
from engine.host import unpack_host
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
MAGICS = frozenset((MAGIC_V1, MAGIC_V2))
CRC_MASK = 0x7FFFFFFF
BLANK_BYTES_MIN = 8
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
TOPIC_V1_BYTES_MAX = 127

HEAD = struct.Struct(">iiiiiqqiq8sq8siqi")  # everything up to the body, both hosts IPv4
HEADS = (  # by system flag bits 0x10 (born host is IPv6) and 0x20 (store host is)
    HEAD,
    struct.Struct(">iiiiiqqiq20sq8siqi"),
    struct.Struct(">iiiiiqqiq8sq20siqi"),
    struct.Struct(">iiiiiqqiq20sq20siqi"),
)
FLAGS_LAST = 39  # the last byte of the system flag holds the host bits
BLANK = struct.Struct(">ii")  # total size, magic
SHORT = struct.Struct(">h")
assert HEAD.size == 88
assert BLANK.size == BLANK_BYTES_MIN

RECORD_BYTES_MIN = HEAD.size + 1 + SHORT.size


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


def decode(data: bytes, at: int = 0) -> StoredMessage:
    """The record that starts at `at`; Corrupt when length, magic, CRC or a field is wrong."""
    try:
        return _decode(data, at)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Corrupt(f"unreadable record: {error}") from error


def _decode(data: bytes, at: int) -> StoredMessage:
    layout = HEADS[(data[at + FLAGS_LAST] & (BORN_HOST_V6 | STORE_HOST_V6)) >> 4]
    (
        size,
        magic,
        crc,
        queue,
        flag,
        offset,
        position,
        sys_flag,
        born_ms,
        born_host,
        stored_ms,
        store_host,
        times,
        prepared,
        body_size,
    ) = layout.unpack_from(data, at)
    end = at + size
    if magic not in MAGICS or size < RECORD_BYTES_MIN or end > len(data) or body_size < 0:
        raise Corrupt(f"no record: magic {magic & 0xFFFFFFFF:#010x}, size {size}")
    body_at = at + layout.size
    body_end = body_at + body_size
    body = data[body_at:body_end]
    if crc32(body) & CRC_MASK != crc:
        raise Corrupt("the body does not match its CRC")
    if magic == MAGIC_V1:
        topic_at, topic_size = body_end + 1, data[body_end]
    else:
        topic_at, topic_size = body_end + 2, SHORT.unpack_from(data, body_end)[0]
    properties_at = topic_at + topic_size + SHORT.size
    (properties_size,) = SHORT.unpack_from(data, properties_at - SHORT.size)
    if topic_size < 1 or properties_size < 0 or properties_at + properties_size != end:
        raise Corrupt("the lengths inside the record do not add up")
    return StoredMessage(
        data[topic_at : properties_at - SHORT.size].decode(),
        queue,
        offset,
        position,
        size,
        body,
        data[properties_at:end],
        flag,
        sys_flag,
        times + 1,
        born_ms,
        unpack_host(born_host),
        stored_ms,
        unpack_host(store_host),
        prepared,
    )
