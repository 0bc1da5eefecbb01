"""The messages of a SEND_BATCH_MESSAGE's body, one after the other.

| field           | bytes | note                                      |
|-----------------|-------|-------------------------------------------|
| total size      | 4     | of this message                           |
| magic           | 4     | not looked at, clients write 0            |
| body CRC        | 4     | not looked at, clients write 0            |
| flag            | 4     |                                           |
| body            | 4 + n |                                           |
| properties      | 2 + n | name 0x01 value 0x02 ...                  |
"""

import struct
from typing import NamedTuple

HEAD = struct.Struct(">iiiii")  # up to the length of the body
SHORT = struct.Struct(">h")
SHORT_MAX = 32767
assert HEAD.size == 20


class BatchError(ValueError):
    """These bytes are no batch."""


class BatchMessage(NamedTuple):
    """One message of a batch; `properties` is its property string."""

    flag: int
    body: bytes
    properties: str


def decode_batch(data: bytes, *, count_max: int) -> list[BatchMessage]:
    """The messages in order; BatchError where they are none, or more than `count_max`."""
    messages: list[BatchMessage] = []
    at = 0
    while at < len(data):
        if len(messages) == count_max:
            raise BatchError(f"more than {count_max} messages in one batch")
        message, at = _decode(data, at)
        messages.append(message)
    return messages


def encode_batch(messages: list[BatchMessage]) -> bytes:
    """The body of a batch."""
    parts: list[bytes] = []
    for flag, body, properties in messages:
        parts += message_parts(flag, body, properties.encode())
    return b"".join(parts)


def message_parts(flag: int, body: bytes, properties: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """One message of a batch, in pieces; its properties have at most SHORT_MAX bytes."""
    length = len(properties)
    size = HEAD.size + len(body) + SHORT.size + length
    return HEAD.pack(size, 0, 0, flag, len(body)), body, SHORT.pack(length), properties


def message_size(batch: bytes, at: int) -> int:
    """The size of the message that begins at a byte of a well-formed batch."""
    return int.from_bytes(batch[at : at + 4], "big")


def _decode(data: bytes, at: int) -> tuple[BatchMessage, int]:
    try:
        size, _, _, flag, body_bytes = HEAD.unpack_from(data, at)
        body_at = at + HEAD.size
        body_end = body_at + body_bytes
        if body_bytes < 0:
            raise BatchError(f"a body of {body_bytes} bytes")
        (length,) = SHORT.unpack_from(data, body_end)
        end = body_end + SHORT.size + length
        if length < 0 or end > len(data) or end - at != size:
            raise BatchError(f"a message of {size} bytes, of which {end - at} are announced")
        text = data[body_end + SHORT.size : end].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise BatchError(
            f"a message that breaks off or whose properties are no text: {error}"
        ) from None
    return BatchMessage(flag, data[body_at:body_end], text), end
