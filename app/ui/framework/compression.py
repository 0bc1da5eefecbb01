"""gzip for pages, styles and scripts, where the browser takes it.

The gzip header of a page has a file name of random length, so that the answer's size does not tell
what an attacker's guess has in common with the page ([ADR 38]). Data, downloads and streams are
not compressed here.
"""

import secrets
import struct
import zlib

from starlette.requests import Request

SIZE_BYTES_MIN = 1024  # a smaller answer fits into a packet or two anyway
PADDING_BYTES_MAX = 256
LEVEL_ONCE, LEVEL_PAGE = 9, 5  # a page of 60 kB takes a millisecond
HEADER = struct.Struct("<2sBB4sBB")  # magic, deflate, flags, no time, no hint, system unknown
HAS_NAME = 8
TRAILER = struct.Struct("<II")  # CRC-32, size_bytes modulo 2**32
assert (HEADER.size, TRAILER.size) == (10, 8)


def accepts_gzip(request: Request) -> bool:
    """Whether the client takes gzip."""
    for coding in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = coding.partition(";")
        if name.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def gzipped(content: bytes, level: int, *, padding_bytes: int = 0) -> bytes:
    """`content` as one gzip member, `padding_bytes` longer than without."""
    name = b"x" * (padding_bytes - 1) + b"\0" if padding_bytes else b""
    flags = HAS_NAME if name else 0
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join(
        (
            HEADER.pack(b"\x1f\x8b", 8, flags, bytes(4), 0, 255),
            name,
            deflate.compress(content),
            deflate.flush(),
            TRAILER.pack(zlib.crc32(content), len(content) & 0xFFFFFFFF),
        )
    )


def page_body(request: Request, html: str) -> tuple[bytes, dict[str, str]]:
    """The body of a page and the headers that say how it is compressed."""
    content = html.encode()
    if len(content) < SIZE_BYTES_MIN or not accepts_gzip(request):
        return content, {}
    padding_bytes = 1 + secrets.randbelow(PADDING_BYTES_MAX)
    body = gzipped(content, LEVEL_PAGE, padding_bytes=padding_bytes)
    return body, {"Content-Encoding": "gzip"}
