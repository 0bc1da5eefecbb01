"""Encodes stored messages as RocketMQ's records, for pulls.

The store host is the address that the client called, so that the ids that clients derive from it
lead back to this server.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

from engine.host import IPV6_BYTES, pack_host
from engine.message import PROPERTIES_BYTES_MAX, StoredMessage, join_properties
from protocol.remoting.records import (
    BORN_HOST_V6,
    CRC_MASK,
    HEAD,
    LONG,
    MAGIC_V1,
    MAGIC_V2,
    REST,
    SHORT,
    STORE_HOST_V6,
    TOPIC_V1_BYTES_MAX,
)

# Apache's broker sets these at each send. Java consumers of 5.x send no trace of a message without
# a region.
REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
REGION_BLOCK = join_properties(REGION).encode()
REGION_NAME = b"MSG_REGION\x01"


def records_of(messages: Iterable[StoredMessage], store_host: str) -> bytes:
    """The body of a pull's answer."""
    return b"".join([record_of(message, store_host) for message in messages])


def record_of(
    message: StoredMessage,
    store_host: str,
    topic: str = "",
    attempt: int = 0,
    more: Mapping[str, str] | None = None,
) -> bytes:
    """One message as a record, of another `topic` or `attempt` where one is given.

    `more` are properties in addition to the message's own.
    """
    born, store = pack_host(message.born_host), pack_host(store_host)
    sys_flag = message.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
    sys_flag |= BORN_HOST_V6 if len(born) == IPV6_BYTES else 0
    sys_flag |= STORE_HOST_V6 if len(store) == IPV6_BYTES else 0
    name, body, properties = (topic or message.topic).encode(), message.body, _properties(message)
    for key, value in (more or {}).items():
        separator = b"" if not properties or properties.endswith(b"\x02") else b"\x02"
        properties += separator + f"{key}\x01{value}\x02".encode()
    is_v1 = len(name) <= TOPIC_V1_BYTES_MAX
    length = bytes((len(name),)) if is_v1 else SHORT.pack(len(name))
    size = HEAD.size + len(born) + LONG.size + len(store) + REST.size + len(body)
    size += len(length) + len(name) + SHORT.size + len(properties)
    head = HEAD.pack(
        size,
        MAGIC_V1 if is_v1 else MAGIC_V2,
        crc32(body) & CRC_MASK,
        message.queue,
        message.flag,
        message.offset,
        message.position,
        sys_flag,
        message.born_ms,
    )
    rest = REST.pack((attempt or message.attempt) - 1, message.prepared_position, len(body))
    return b"".join(
        (
            head, born, LONG.pack(message.stored_ms), store, rest, body,
            length, name, SHORT.pack(len(properties)), properties,
        )
    )  # fmt: skip


def _properties(message: StoredMessage) -> bytes:
    """The property string, with a region where there is room."""
    block = message.property_block
    if len(block) + len(REGION_BLOCK) > PROPERTIES_BYTES_MAX or REGION_NAME in block:
        return block
    return REGION_BLOCK + block
