"""Bodies in binary forms for tests: an Avro container file, and a Protobuf message."""

import json
import zlib
from typing import Any

SYNC = bytes(range(16))
SCHEMA = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"]}],
}
# Field 1: 150; field 2: "testing"; field 3: a message whose field 1 is 1.
PROTOBUF = bytes.fromhex("089601120774657374696e671a020801")


def long(value: int) -> bytes:
    """A number in Avro's zig-zag form."""
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def text(value: str) -> bytes:
    return long(len(value.encode())) + value.encode()


def avro_file(people: list[dict[str, Any]], codec: str = "null") -> bytes:
    """A container file of `people`: their name, and their age or None."""
    records = b"".join(
        text(one["name"]) + (long(0) if one["age"] is None else long(1) + long(one["age"]))
        for one in people
    )
    return container(SCHEMA, records, codec, count=len(people))


def container(schema: Any, records: bytes, codec: str = "null", *, count: int) -> bytes:
    """A container file with one block, whatever its schema is."""
    if codec == "deflate":
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        records = packer.compress(records) + packer.flush()
    entries = text("avro.schema") + text(json.dumps(schema)) + text("avro.codec") + text(codec)
    head = b"Obj\x01" + long(2) + entries + long(0) + SYNC
    return head + long(count) + long(len(records)) + records + SYNC
