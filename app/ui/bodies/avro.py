"""Avro object container files, which carry their schema; other framings are named. Pure.

After the Avro 1.11 specification: a header with schema and codec, then blocks of records, each
followed by the file's sync marker. A record alone cannot be read without its writer's schema.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Any

from app.ui.bodies import json_text
from app.ui.framework.language import _

MAGIC = b"Obj\x01"
SINGLE_MAGIC = b"\xc3\x01"
SYNC_BYTES = 16
VALUES_MAX = 5000
DEPTH_MAX = 40
UNPACKED_BYTES_MAX = 1024 * 1024
CONFLUENT_BYTES_MIN = 6
BLOCK_ITEMS_MAX = 100_000


class NotAvro(Exception):
    """Why the bytes cannot be read as Avro."""


class _Enough(Exception):
    """More values than are shown."""


def decode(body: bytes) -> tuple[dict[str, Any], bool]:
    """Schema name, codec and records of a container file, and whether it was cut short.

    Raises NotAvro with the reason, which names the framing where it is another one.
    """
    if not body.startswith(MAGIC):
        raise NotAvro(_other_framing(body))
    try:
        return _container(body)
    except RecursionError:
        raise NotAvro(_("the schema is nested too deeply")) from None
    except (struct.error, IndexError):
        raise NotAvro(_("the body ends within a value")) from None
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError) as error:
        # The header's schema may be any JSON: what it calls a list can be a number, and so on.
        raise NotAvro(_("the schema is none of Avro's: %(error)s", error=str(error)[:80])) from None


def _other_framing(body: bytes) -> str:
    if body.startswith(SINGLE_MAGIC) and len(body) >= 10:
        fingerprint = body[2:10][::-1].hex()
        return _(
            "schema needed: single-object encoding, schema fingerprint %(fingerprint)s",
            fingerprint=fingerprint,
        )
    if body[:1] == b"\x00" and len(body) >= CONFLUENT_BYTES_MIN:
        number = int.from_bytes(body[1:5], "big")
        return _(
            "schema needed, if it is Avro: framed as schema %(number)s of a schema registry",
            number=number,
        )
    return _('no container file: it does not begin with "Obj" and 0x01')


def _container(body: bytes) -> tuple[dict[str, Any], bool]:
    reader = _Reader(body, len(MAGIC))
    metadata = reader.map_of(reader.bytes_)
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    try:
        schema = json_text.loads(metadata["avro.schema"])
    except (KeyError, ValueError, RecursionError):
        raise NotAvro(_("the header holds no schema that is JSON")) from None
    sync = reader.take(SYNC_BYTES)
    names: dict[str, Any] = {}
    records: list[Any] = []
    budget = [VALUES_MAX]
    is_cut = False
    while reader.at < len(body) and not is_cut:
        count = reader.long()
        block = _unpacked(reader.bytes_(), codec)
        if reader.take(SYNC_BYTES) != sync:
            raise NotAvro(
                _(
                    "byte %(at)s: the sync marker is not the header's",
                    at=reader.at - SYNC_BYTES,
                )
            )
        is_cut = _records(_Reader(block, 0, names, budget), schema, count, records)
    title = schema.get("name", "") if isinstance(schema, dict) else ""
    return {"schema": title or schema, "codec": codec, "records": records}, is_cut


def _records(reader: "_Reader", schema: Any, count: int, records: list[Any]) -> bool:
    """Read a block's records; True where there were more than are shown."""
    try:
        for __ in range(count):
            records.append(reader.value(schema))
    except _Enough:
        return True
    if reader.at != len(reader.data):
        raise NotAvro(_("%(at)s bytes of a block are left over", at=len(reader.data) - reader.at))
    return False


def _unpacked(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise NotAvro(
            _("blocks are compressed with %(codec)s, which is not read here", codec=codec)
        )
    try:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        data = unpacker.decompress(block, UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise NotAvro(_("a block cannot be inflated: %(error)s", error=error)) from None
    if unpacker.unconsumed_tail:
        raise NotAvro(
            _(
                "a block is larger than %(unpacked_bytes_max)s KiB unpacked",
                unpacked_bytes_max=UNPACKED_BYTES_MAX // 1024,
            )
        )
    return data


class _Reader:
    """Values one after the other; `names` are the types that were defined so far."""

    def __init__(
        self,
        data: bytes,
        at: int,
        names: dict[str, Any] | None = None,
        budget: list[int] | None = None,
    ) -> None:
        self.data = data
        self.at = at
        self._names = {} if names is None else names
        self._budget = [VALUES_MAX] if budget is None else budget
        self._depth = 0
        self._plain: dict[str, Callable[[], Any]] = {
            "null": lambda: None,
            "boolean": lambda: self.take(1) != b"\x00",
            "int": self.long,
            "long": self.long,
            "float": lambda: struct.unpack("<f", self.take(4))[0],
            "double": lambda: struct.unpack("<d", self.take(8))[0],
            "bytes": self.bytes_,
            "string": self.string,
        }

    def value(self, schema: Any) -> Any:
        """One value of this schema."""
        self._budget[0] -= 1
        if self._budget[0] < 0:
            raise _Enough
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise NotAvro(_("values are nested too deeply"))
        try:
            return self._value(schema)
        finally:
            self._depth -= 1

    def _value(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self.value(_member(schema, self.long(), "union"))
        kind = schema.get("type") if isinstance(schema, dict) else schema
        if not isinstance(kind, str):
            return self.value(kind) if kind else _refuse(schema)
        if kind in self._plain:
            return self._plain[kind]()
        if not isinstance(schema, dict):
            return self._value(self._names[kind]) if kind in self._names else _refuse(schema)
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(schema, kind)
        if kind == "array":
            return self._items(lambda: self.value(schema.get("items")))
        if kind == "map":
            return self.map_of(lambda: self.value(schema.get("values")))
        return self._value(self._names[kind]) if kind in self._names else _refuse(schema)

    def _named(self, schema: dict[str, Any], kind: str) -> Any:
        name = str(schema.get("name", ""))
        self._names[name] = schema
        self._names[f"{schema.get('namespace', '')}.{name}"] = schema
        if kind == "fixed":
            return self.take(int(schema.get("size", 0)))
        if kind == "enum":
            return _member(schema.get("symbols", []), self.long(), "enum")
        return {str(field["name"]): self.value(field["type"]) for field in schema.get("fields", [])}

    def _items(self, read: Callable[[], Any]) -> list[Any]:
        """An array or a map: blocks of items, each with its count, until an empty one."""
        items: list[Any] = []
        while count := self.long():
            if count < 0:
                self.long()  # the block's size, for those who step over it
                count = -count
            if count > BLOCK_ITEMS_MAX:
                raise NotAvro(_("byte %(at)s: a block of %(count)s items", at=self.at, count=count))
            items += [read() for __ in range(count)]
        return items

    def map_of(self, read: Callable[[], Any]) -> dict[str, Any]:
        return dict(self._items(lambda: (self.string(), read())))

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise NotAvro(
                _(
                    "byte %(at)s: %(count)s bytes are announced, fewer are there",
                    at=self.at,
                    count=count,
                )
            )
        piece = self.data[self.at : self.at + count]
        self.at += count
        return piece

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise NotAvro(_("byte %(at)s: a number is too long", at=self.at))

    def bytes_(self) -> bytes:
        return self.take(self.long())

    def string(self) -> str:
        try:
            return self.bytes_().decode()
        except UnicodeDecodeError:
            raise NotAvro(_("byte %(at)s: a string is not UTF-8", at=self.at)) from None


def _member(members: list[Any], index: int, noun: str) -> Any:
    if not 0 <= index < len(members):
        raise NotAvro(_("the %(noun)s has no member %(index)s", noun=noun, index=index))
    return members[index]


def _refuse(schema: Any) -> Any:
    raise NotAvro(_("the schema names an unknown type: %(name)s", name=str(schema)[:80]))
