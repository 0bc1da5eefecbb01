"""Avro container files read by fastavro, within bounds on bytes, values, depth and time. Pure.

fastavro's compiled reader recurses without a limit and allocates what a file announces, so that a
few hostile bytes end the process. Its JSON reader runs in Python, where recursion has a limit, and
takes any decoder: the one below counts each step, checks each size and inflates a bounded block.
"""

import io
import zlib
from collections.abc import Iterator
from typing import Any

from fastavro import json_reader
from fastavro.io.binary_decoder import BinaryDecoder
from fastavro.io.json_decoder import AvroJSONDecoder
from fastavro.schema import SchemaParseException

from app.ui.bodies import json_text
from app.ui.bodies.avro import MAGIC
from app.ui.bodies.trees import NotDecodable
from app.ui.framework.language import N_

STEPS_MAX = 10_000  # reads and values: about 4,000 fields
DEPTH_MAX = 40
UNPACKED_BYTES_MAX = 1024 * 1024  # of a block
ALL_UNPACKED_BYTES_MAX = 2 * UNPACKED_BYTES_MAX
SYNC_BYTES = 16
LONG_MAX = 2**63
NOT_A_SCHEMA = (
    *(SchemaParseException, AttributeError, TypeError, ValueError, KeyError, OverflowError),
)
REASONS: dict[type[Exception], str] = {
    RecursionError: N_("values are nested too deeply"),
    EOFError: N_("the body ends inside a value"),
    IndexError: N_("index outside the union or enum"),
    UnicodeDecodeError: N_("a string is not UTF-8"),
}
COMPLEX = ("record", "error", "enum", "fixed", "array", "map")
HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "metadata", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": SYNC_BYTES}},
    ],
}


class _LimitReached(Exception):
    """The container holds more than is shown."""


def decode(body: bytes) -> tuple[dict[str, Any], bool]:
    """Schema name, codec and records of a file, and whether it was cut; raises NotDecodable."""
    try:
        return _container(body)
    except tuple(REASONS) as error:
        raise NotDecodable(REASONS[type(error)]) from None
    except NOT_A_SCHEMA as error:
        # The header's schema may be any JSON: what it calls a list can be a number, and so on.
        raise NotDecodable(N_("invalid Avro schema: %(error)s"), error=str(error)[:80]) from None


def _container(body: bytes) -> tuple[dict[str, Any], bool]:
    decoder = _Decoder(body)
    header: dict[str, Any] = next(_reader(decoder, HEADER))
    codec = header["metadata"].get("avro.codec", b"null").decode("utf-8", "replace")
    try:
        schema = json_text.loads(header["metadata"]["avro.schema"])
    except (KeyError, ValueError, RecursionError):
        raise NotDecodable(N_("the schema in the header is not JSON")) from None
    decoder.start_blocks(codec, header["sync"])
    records: list[Any] = []
    is_cut = False
    try:
        records.extend(_reader(decoder, _types(schema)))
    except _LimitReached:  # keep the records read so far
        is_cut = True
    title = schema.get("name", "") if isinstance(schema, dict) else ""
    return {"schema": title or schema, "codec": codec, "records": records}, is_cut


def _reader(decoder: "_Decoder", schema: Any) -> Any:
    return json_reader(io.BytesIO(), schema, decoder=lambda __: decoder)


def _types(schema: Any, depth: int = 0) -> Any:
    """The schema reduced to what decoding needs.

    Without `logicalType`, numbers stay numbers; without `default`, files of lax writers stay
    readable; without fastavro's own marks, no file passes its schema off as checked. A record
    without fields becomes a fixed of no bytes, so that reading it is a step that counts.
    """
    if depth > DEPTH_MAX:
        raise NotDecodable(N_("the schema is nested too deeply"))
    if isinstance(schema, list):
        return [_types(member, depth + 1) for member in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in COMPLEX:
        return _types(kind, depth + 1)
    reduced = {
        key: schema[key]
        for key in ("type", "name", "namespace", "symbols", "size")
        if key in schema
    }
    for key in ("items", "values"):
        if key in schema:
            reduced[key] = _types(schema[key], depth + 1)
    if kind in ("record", "error"):
        reduced["fields"] = [
            {"name": str(field["name"]), "type": _types(field["type"], depth + 1)}
            for field in schema.get("fields", [])
        ]
        if not reduced["fields"]:
            return reduced | {"type": "fixed", "size": 0}
    return reduced


class _Decoder(BinaryDecoder, AvroJSONDecoder):
    """The values of the header, then those of each block, as fastavro's reader asks for them."""

    def __init__(self, body: bytes) -> None:
        self.fo = self  # BinaryDecoder reads from here
        self._body = self._data = body
        self._position = len(MAGIC)
        self._block_position = 0
        self._records_left = 1  # the header
        self._steps_left = STEPS_MAX
        self._unpacked_bytes = 0
        self._codec = ""
        self._sync = b""

    def start_blocks(self, codec: str, sync: bytes) -> None:
        """Go on with the records, once the header has been read."""
        self._codec, self._sync = codec, sync
        self._data, self._block_position, self._position = b"", self._position, 0
        self._records_left = 0

    def configure(self, *__: Any) -> None:
        """Nothing to prepare: binary values need no grammar."""

    @property
    def done(self) -> bool:  # type: ignore[override]
        """Whether the last record has been read; opens the next block where there is one."""
        while self._records_left <= 0:
            if rest := len(self._data) - self._position:
                raise NotDecodable(N_("%(at)s bytes of the block are left over"), at=rest)
            self._data, self._position = self._body, self._block_position
            if self._position == len(self._body):
                return True
            self._open_block()
        return False

    def _open_block(self) -> None:
        self._records_left = self.read_long()
        block = _unpacked(self.read(self.read_long()), self._codec)
        if self.read_fixed(SYNC_BYTES) != self._sync:
            at = self._position - SYNC_BYTES
            raise NotDecodable(N_("byte %(at)s: the sync marker differs from the header's"), at=at)
        self._unpacked_bytes += len(block)
        if self._unpacked_bytes > ALL_UNPACKED_BYTES_MAX:
            raise _LimitReached
        self._data, self._block_position, self._position = block, self._position, 0

    def drain(self) -> None:
        """A record has been read."""
        self._step()
        self._records_left -= 1

    def _step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise _LimitReached

    def read(self, size: int) -> bytes:
        """`size` bytes; b"" where one byte is asked for at the end."""
        self._step()
        piece = self._data[self._position : self._position + max(size, 0)]
        if len(piece) != size != 1:
            at = self._position
            raise NotDecodable(
                N_("byte %(at)s: %(count)s bytes declared, fewer present"), at=at, count=size
            )
        self._position += len(piece)
        return piece

    def read_null(self) -> None:
        self._step()

    def read_long(self) -> int:
        value: int = super().read_long()  # type: ignore[no-untyped-call]
        if not -LONG_MAX <= value < LONG_MAX:
            raise NotDecodable(N_("byte %(at)s: a number is too long"), at=self._position)
        return value

    read_int = read_long

    def read_index(self) -> int:
        index = self.read_long()
        if index < 0:
            raise IndexError(index)
        return index

    read_enum = read_index

    def read_fixed(self, size: int) -> Any:
        return self.read(size) or {}

    def _iter_array_or_map(self) -> Iterator[None]:
        for __ in super()._iter_array_or_map():  # type: ignore[no-untyped-call]
            self._step()
            yield

    iter_array = iter_map = _iter_array_or_map


def _unpacked(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise NotDecodable(N_("unsupported block compression: %(codec)s"), codec=codec)
    try:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        data = unpacker.decompress(block, UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise NotDecodable(N_("a block cannot be decompressed: %(error)s"), error=error) from None
    if unpacker.unconsumed_tail:
        raise NotDecodable(
            N_("a decompressed block exceeds %(unpacked_bytes_max)s KiB"),
            unpacked_bytes_max=UNPACKED_BYTES_MAX // 1024,
        )
    return data
