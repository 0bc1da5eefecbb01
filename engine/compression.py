"""Decompresses message bodies, which the log keeps as their producer sent them.

RocketMQ's producers compress large bodies and say so in the record's system flag; the log keeps
the bytes as they came. This is the only place that decompresses them. It never raises: a body that
is damaged, or larger than it may be, is handed back as stored, with the reason. It may take
milliseconds, so a caller on the event loop leaves large bodies to a thread.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

COMPRESSED_FLAG = 0x1
CODEC_SHIFT = 8
CODEC_MASK = 0x7
# What the flag is cleared of once a body is delivered decompressed.
COMPRESSION_BITS = COMPRESSED_FLAG | CODEC_MASK << CODEC_SHIFT
# 0 is from clients that knew no other codec than zlib.
CODECS = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "zlib": zlib.MAX_WBITS}
TOO_EARLY = "ends too early"


class NotDecompressed(Exception):
    """Why a body cannot be decompressed, for people to read."""


class TooLarge(NotDecompressed):
    """The body would be larger than it may be."""


class PlainBody(NamedTuple):
    """A body as it was before its producer compressed it.

    `codec` is "" for one that was not compressed. Where `why_raw` says something, `body` is as
    stored, still compressed. `stored_bytes` is the size that the log keeps.
    """

    body: bytes
    codec: str
    stored_bytes: int
    why_raw: str

    @property
    def is_decompressed(self) -> bool:
        return bool(self.codec) and not self.why_raw


def codec_of(sys_flag: int) -> str:
    """The codec that a system flag names; "" for a body that is not compressed."""
    if not sys_flag & COMPRESSED_FLAG:
        return ""
    number = sys_flag >> CODEC_SHIFT & CODEC_MASK
    return CODECS.get(number, f"codec {number}")


def plain_body(body: bytes, sys_flag: int, *, bytes_max: int) -> PlainBody:
    """The body that the producer sent, at most `bytes_max` bytes; never raises."""
    codec = codec_of(sys_flag)
    if not codec or not body:
        return PlainBody(body, codec, len(body), "")
    try:
        return PlainBody(decompress(body, codec, bytes_max=bytes_max), codec, len(body), "")
    except NotDecompressed as error:
        return PlainBody(body, codec, len(body), str(error))


def raw_body(body: bytes, sys_flag: int, why: str) -> PlainBody:
    """The body as stored, for a reason that is not the body's."""
    return PlainBody(body, codec_of(sys_flag), len(body), why)


def decompress(data: bytes, codec: str, *, bytes_max: int) -> bytes:
    """Decompress with "zlib", "gzip", "lz4" or "zstd"; raises NotDecompressed.

    Never makes more than `bytes_max` bytes and one: a larger body is refused as a whole.
    """
    decoder = DECODERS.get(codec)
    if decoder is None:
        raise NotDecompressed(f"{codec} is none of {', '.join(DECODERS)}")
    plain = decoder(data, bytes_max)
    if len(plain) > bytes_max:
        raise TooLarge(f"decompresses to more than {bytes_max} bytes")
    return plain


def _deflated(codec: str) -> Callable[[bytes, int], bytes]:
    def decode(data: bytes, bytes_max: int) -> bytes:
        decoder = zlib.decompressobj(WINDOWS[codec])
        try:
            plain = decoder.decompress(data, bytes_max + 1)
        except zlib.error as error:
            raise NotDecompressed(str(error)) from None
        if not decoder.eof and len(plain) <= bytes_max:
            raise NotDecompressed(TOO_EARLY)
        return plain

    return decode


# lz4 and zstandard are imported where they are used: reports that read records on a cluster of
# Spark's have neither.


def _lz4(data: bytes, bytes_max: int) -> bytes:
    import lz4.frame

    decoder = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = decoder.decompress(data, max_length=bytes_max + 1)
    except RuntimeError as error:
        raise NotDecompressed(str(error)) from None
    if not decoder.eof and len(plain) <= bytes_max:
        raise NotDecompressed(TOO_EARLY)
    return plain


def _zstd(data: bytes, bytes_max: int) -> bytes:
    import zstandard

    decoder = zstandard.ZstdDecompressor()
    try:
        content_size = zstandard.get_frame_parameters(data).content_size
        # The library makes room for what the frame's head tells, whatever it was asked for.
        if content_size not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
            if content_size > bytes_max:
                raise TooLarge(f"decompresses to more than {bytes_max} bytes")
            return decoder.decompress(data)
        with decoder.stream_reader(data) as reader:
            plain = reader.read(bytes_max + 1)
        if len(plain) <= bytes_max:
            # The reader does not tell a frame that ends too early; this does, and it fits.
            plain = decoder.decompress(data, max_output_size=len(plain) or 1)
        return plain
    except zstandard.ZstdError as error:
        is_short = "did not decompress full frame" in str(error)
        raise NotDecompressed(TOO_EARLY if is_short else str(error)) from None


DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "zlib": _deflated("zlib"),
    "gzip": _deflated("gzip"),
    "lz4": _lz4,
    "zstd": _zstd,
}
