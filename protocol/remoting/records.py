"""RocketMQ's message records, one after the other: the bodies of pulls, POPs and queries.

| field              | bytes     | note                                                        |
|--------------------|-----------|-------------------------------------------------------------|
| size, magic        | 4, 4      | MAGIC_V1, or MAGIC_V2 where the topic's length has two bytes |
| CRC of the body    | 4         |                                                             |
| queue, flag        | 4, 4      |                                                             |
| offset, position   | 8, 8      | in the queue, in the log                                    |
| system flag        | 4         | says that the body is compressed, and which hosts are IPv6  |
| born time and host | 8, 8 or 20 | ms; IP and port                                            |
| stored time, host  | 8, 8 or 20 |                                                            |
| reconsume times    | 4         |                                                             |
| prepared position  | 8         | of a committed transaction's half message                   |
| body               | 4 + n     |                                                             |
| topic              | 1 + n     | 2 + n in V2                                                 |
| properties         | 2 + n     | name 0x01 value 0x02 ...                                    |
"""

import struct
from typing import NamedTuple

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
CRC_MASK = 0x7FFFFFFF
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
TOPIC_V1_BYTES_MAX = 127
HEAD = struct.Struct(">iiiiiqqiq")  # up to the born time
INT, LONG, SHORT = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">h")
REST = struct.Struct(">iqi")  # reconsume times, prepared position, length of the body
HOST_V4_BYTES, HOST_V6_BYTES = 8, 20
assert HEAD.size == 48


class RecordError(ValueError):
    """These bytes are no records."""


class Record(NamedTuple):
    """One message; hosts and properties are as they stand there, `body` may be compressed."""

    topic: str
    queue: int
    offset: int
    position: int
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    stored_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_position: int
    body: bytes
    properties: bytes


def decode_records(data: bytes) -> list[Record]:
    """The records in order; RecordError where these are none."""
    records = []
    at = 0
    try:
        while at < len(data):
            record, end = _decode(data, at)
            if end - at != INT.unpack_from(data, at)[0] or end > len(data):
                raise RecordError(f"a record that does not end where it says, at byte {at}")
            records.append(record)
            at = end
    except (struct.error, UnicodeDecodeError) as error:
        raise RecordError(f"a record that breaks off, at byte {at}: {error}") from None
    return records


def _decode(data: bytes, at: int) -> tuple[Record, int]:
    _, magic, _, queue, flag, offset, position, sys_flag, born_ms = HEAD.unpack_from(data, at)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordError(f"no record at byte {at}")
    at += HEAD.size
    born_host, at = _piece(data, at, _host_bytes(sys_flag & BORN_HOST_V6))
    (stored_ms,) = LONG.unpack_from(data, at)
    store_host, at = _piece(data, at + LONG.size, _host_bytes(sys_flag & STORE_HOST_V6))
    reconsume_times, prepared_position, length = REST.unpack_from(data, at)
    body, at = _piece(data, at + REST.size, length)
    is_v1 = magic == MAGIC_V1
    length = data[at] if is_v1 and at < len(data) else SHORT.unpack_from(data, at)[0]
    topic, at = _piece(data, at + (1 if is_v1 else SHORT.size), length)
    properties, at = _piece(data, at + SHORT.size, SHORT.unpack_from(data, at)[0])
    record = Record(
        topic=topic.decode(),
        queue=queue,
        offset=offset,
        position=position,
        flag=flag,
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=born_host,
        stored_ms=stored_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_position=prepared_position,
        body=body,
        properties=properties,
    )
    return record, at


def _host_bytes(is_v6: int) -> int:
    return HOST_V6_BYTES if is_v6 else HOST_V4_BYTES


def _piece(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    """`length` bytes from `at` on, and where they end."""
    if length < 0 or at + length > len(data):
        raise RecordError(f"{length} bytes are announced at byte {at} of {len(data)}")
    return data[at : at + length], at + length
