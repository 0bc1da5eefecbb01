"""Compressed bodies: what the standard library unpacks is unpacked, the others are named. Pure."""

import zlib
from dataclasses import dataclass

from app.ui.language import _

UNPACKED_BYTES_MAX = 4 * 1024 * 1024
# RocketMQ marks a compressed body in the record's flags and says there by what.
COMPRESSED_FLAG = 0x1
KIND_SHIFT = 8
KINDS = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
MAGICS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy"),
)
WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "zlib": zlib.MAX_WBITS}


@dataclass(frozen=True)
class Unpacked:
    """`body` to go on with; `kind` is "" where the bytes are not compressed."""

    body: bytes
    kind: str
    is_unpacked: bool
    detail: str

    @property
    def is_foreign(self) -> bool:
        """Compressed for certain, in a form that is not unpacked here."""
        return bool(self.kind) and self.kind not in WINDOWS


def unpack(body: bytes, sys_flag: int = 0) -> Unpacked:
    """The body as it was before its producer compressed it, where that can be done here."""
    kind = KINDS.get(sys_flag >> KIND_SHIFT & 0x7, "") if sys_flag & COMPRESSED_FLAG else ""
    kind = kind or _kind(body)
    if not kind:
        return Unpacked(body, "", False, _("not compressed"))
    if kind not in WINDOWS:
        return Unpacked(
            body, kind, False, _("compressed with %(kind)s, which is not unpacked here", kind=kind)
        )
    unpacker = zlib.decompressobj(WINDOWS[kind])
    try:
        data = unpacker.decompress(body, UNPACKED_BYTES_MAX)
    except zlib.error as error:
        return Unpacked(
            body, kind, False, _("looks like %(kind)s, but %(error)s", kind=kind, error=error)
        )
    if unpacker.unconsumed_tail:
        limit = UNPACKED_BYTES_MAX // 1024 // 1024
        return Unpacked(
            data,
            kind,
            True,
            _("%(kind)s; only the first %(limit)s MiB were unpacked", kind=kind, limit=limit),
        )
    if not unpacker.eof:
        return Unpacked(
            body, kind, False, _("looks like %(kind)s, but it ends too early", kind=kind)
        )
    return Unpacked(
        data,
        kind,
        True,
        _(
            "%(kind)s, %(packed)s bytes to %(unpacked)s",
            kind=kind,
            packed=f"{len(body):,}",
            unpacked=f"{len(data):,}",
        ),
    )


def _kind(body: bytes) -> str:
    for magic, kind in MAGICS:
        if body.startswith(magic):
            return kind
    is_zlib = len(body) > 6 and body[0] == 0x78 and int.from_bytes(body[:2], "big") % 31 == 0
    return "zlib" if is_zlib and body[1] in (0x01, 0x5E, 0x9C, 0xDA) else ""
