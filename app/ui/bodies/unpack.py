"""Decompresses bodies for display, by their flag or by their first bytes. Pure.

The engine decompresses what RocketMQ's producers flag as compressed, for every endpoint. Bodies
that a program compressed itself are recognised here, for pages only.
"""

import zlib
from dataclasses import dataclass

from app.ui.framework.language import _
from engine.compression import NotDecompressed, PlainBody, decompress

UNPACKED_BYTES_MAX = 4 * 1024 * 1024
MAGICS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy"),
)
WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "zlib": zlib.MAX_WBITS}
BY_ENGINE = ("lz4", "zstd")


@dataclass(frozen=True)
class Unpacked:
    """The resulting `body`; `kind` is "" if it was not compressed."""

    body: bytes
    kind: str
    is_unpacked: bool
    detail: str

    @property
    def is_foreign(self) -> bool:
        """Whether the body is certainly compressed and was not decompressed."""
        return bool(self.kind) and not self.is_unpacked and self.kind not in WINDOWS


def unpack(plain: PlainBody | bytes) -> Unpacked:
    """The body before its producer compressed it, if possible."""
    if isinstance(plain, bytes):
        return _by_look(plain)
    if not plain.codec:
        return _by_look(plain.body)
    if plain.why_raw:
        detail = _("marked as %(kind)s, but %(error)s", kind=plain.codec, error=plain.why_raw)
        return Unpacked(plain.body, plain.codec, False, detail)
    return Unpacked(
        plain.body, plain.codec, True, _sizes(plain.codec, plain.stored_bytes, len(plain.body))
    )


def _by_look(body: bytes) -> Unpacked:
    """Decompress a body that begins like compressed data."""
    kind = _kind(body)
    if not kind:
        return Unpacked(body, "", False, _("not compressed"))
    if kind in BY_ENGINE:
        return _by_engine(body, kind)
    if kind not in WINDOWS:
        detail = _("compressed with %(kind)s, which is not supported", kind=kind)
        return Unpacked(body, kind, False, detail)
    unpacker = zlib.decompressobj(WINDOWS[kind])
    try:
        data = unpacker.decompress(body, UNPACKED_BYTES_MAX)
    except zlib.error as error:
        detail = _("looks like %(kind)s, but %(error)s", kind=kind, error=error)
        return Unpacked(body, kind, False, detail)
    if unpacker.unconsumed_tail:
        limit = UNPACKED_BYTES_MAX // 1024 // 1024
        detail = _("%(kind)s; only the first %(limit)s MiB decompressed", kind=kind, limit=limit)
        return Unpacked(data, kind, True, detail)
    if not unpacker.eof:
        detail = _("looks like %(kind)s, but is truncated", kind=kind)
        return Unpacked(body, kind, False, detail)
    return Unpacked(data, kind, True, _sizes(kind, len(body), len(data)))


def _by_engine(body: bytes, kind: str) -> Unpacked:
    try:
        data = decompress(body, kind, bytes_max=UNPACKED_BYTES_MAX)
    except NotDecompressed as error:
        detail = _("looks like %(kind)s, but %(error)s", kind=kind, error=str(error))
        return Unpacked(body, kind, False, detail)
    return Unpacked(data, kind, True, _sizes(kind, len(body), len(data)))


def _sizes(kind: str, packed_bytes: int, unpacked_bytes: int) -> str:
    return _(
        "%(kind)s, %(packed)s bytes to %(unpacked)s",
        kind=kind,
        packed=f"{packed_bytes:,}",
        unpacked=f"{unpacked_bytes:,}",
    )


def _kind(body: bytes) -> str:
    for magic, kind in MAGICS:
        if body.startswith(magic):
            return kind
    is_zlib = len(body) > 6 and body[0] == 0x78 and int.from_bytes(body[:2], "big") % 31 == 0
    return "zlib" if is_zlib and body[1] in (0x01, 0x5E, 0x9C, 0xDA) else ""
