"""Message records, field by field, as Apache's broker writes them."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

HEAD = struct.Struct(">iiiiiqqiq")
REST = struct.Struct(">iqi")
MAGICS = {-626843481: 1, -626843477: 2}  # to the length of a topic's length
BORN_HOST_V6, STORE_HOST_V6 = 0x10, 0x20


def records(data: bytes) -> Iterator[dict[str, Any]]:
    """The fields of each record; ValueError or struct.error for what is none."""
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield _record(data[at : at + size])
        at += size


def _record(data: bytes) -> dict[str, Any]:
    size, magic, crc, queue, flag, offset, position, sys_flag, born_ms = HEAD.unpack_from(data)
    at = HEAD.size
    born, at = _host(data, at, 16 if sys_flag & BORN_HOST_V6 else 4)
    (stored_ms,) = struct.unpack_from(">q", data, at)
    store, at = _host(data, at + 8, 16 if sys_flag & STORE_HOST_V6 else 4)
    attempts, prepared, length = REST.unpack_from(data, at)
    body, at = _piece(data, at + REST.size, length)
    width = MAGICS[magic]
    topic, at = _piece(data, at + width, int.from_bytes(data[at : at + width]))
    properties, at = _piece(data, at + 2, int.from_bytes(data[at : at + 2]))
    if at != size:
        raise ValueError(f"a record of {size} bytes has {at}")
    return {
        "magic": magic,
        "crc_matches": crc == zlib.crc32(body) & 0x7FFFFFFF,
        "queue": queue,
        "flag": flag,
        "offset": offset,
        "position": position,
        "sys_flag": sys_flag,
        "born_ms": born_ms,
        "born_host": born.hex(),
        "stored_ms": stored_ms,
        "store_host": store.hex(),
        "reconsume_times": attempts,
        "prepared_position": prepared,
        "body": body.hex(),
        "topic": topic.decode(),
        "ends_with_separator": properties.endswith(b"\x02"),
        "properties": _pairs(properties.decode()),
    }


def _host(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    return _piece(data, at, length + 4)


def _piece(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    return data[at : at + length], at + length


def _pairs(text: str) -> dict[str, str]:
    parts = (part.partition("\x01") for part in text.split("\x02") if part)
    return {name: value for name, _, value in parts}
