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
from collections.abc import Iterable
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
BYTE = struct.Struct(">B")
TOPIC_LENGTHS = {MAGIC_V1: BYTE, MAGIC_V2: SHORT}  # before the topic
HEAD_BYTES_MAX = HEADS[-1].size
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
    found = decode_run(data, (at,))[0]
    if isinstance(found, Corrupt):
        raise found
    return found


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
    layout = HEADS[(head[FLAGS_LAST] & (BORN_HOST_V6 | STORE_HOST_V6)) >> 4]
    if len(head) < layout.size:
        return None
    fields = layout.unpack_from(head)
    is_head = fields[1] in TOPIC_LENGTHS and fields[6] == position
    return (fields[8], fields[10]) if is_head else None


def decode_run(data: bytes, starts: Iterable[int]) -> list[StoredMessage | Corrupt]:
    """The records that start at these places; a Corrupt stands for one that is damaged.

    Neighbours mostly share topic and hosts, which are then turned into text once.
    """
    found: list[StoredMessage | Corrupt] = []
    last_topic = last_born = last_store = b""
    topic = born = store = ""
    for at in starts:
        try:
            layout = HEADS[(data[at + FLAGS_LAST] & (BORN_HOST_V6 | STORE_HOST_V6)) >> 4]
            fields = layout.unpack_from(data, at)
            size, magic, crc, queue, flag, offset, position, sys_flag = fields[:8]
            born_ms, born_host, stored_ms, store_host, times, prepared, body_size = fields[8:]
            end = at + size
            body_at = at + layout.size
            body_end = body_at + body_size
            if magic not in TOPIC_LENGTHS or end > len(data) or not body_at <= body_end <= end:
                raise Corrupt(f"no record: magic {magic & 0xFFFFFFFF:#010x}, size {size}")
            body = data[body_at:body_end]
            if crc32(body) & CRC_MASK != crc:
                raise Corrupt("the body does not match its CRC")
            topic_length = TOPIC_LENGTHS[magic]
            (topic_bytes,) = topic_length.unpack_from(data, body_end)
            topic_at = body_end + topic_length.size
            topic_end = topic_at + topic_bytes
            (property_bytes,) = SHORT.unpack_from(data, topic_end)
            properties_at = topic_end + SHORT.size
            if topic_bytes < 1 or property_bytes < 0 or properties_at + property_bytes != end:
                raise Corrupt("the lengths inside the record do not add up")
            if data[topic_at:topic_end] != last_topic:
                last_topic = data[topic_at:topic_end]
                topic = last_topic.decode()
            if born_host != last_born:
                born, last_born = unpack_host(born_host), born_host
            if store_host != last_store:
                store, last_store = unpack_host(store_host), store_host
            properties = data[properties_at:end]
            found.append(
                StoredMessage(
                    topic,
                    queue,
                    offset,
                    position,
                    size,
                    body,
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
        except Corrupt as damage:
            found.append(damage)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            found.append(Corrupt(f"unreadable record: {error}"))
    return found
