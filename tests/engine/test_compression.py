"""What a producer sent, from what the log keeps: every codec, and bytes that mean no good."""

import gzip
import zlib

import lz4.frame
import pytest
import zstandard

from engine.compression import COMPRESSION_BITS, decompress, plain_body
from engine.message import BODY_BYTES_MAX, StoredMessage

TEXT = b'{"order": 17}' * 400
MAX = 64 * 1024


def zstd(body: bytes) -> bytes:
    """As RocketMQ's clients write it: a stream, whose head does not tell the size."""
    coder = zstandard.ZstdCompressor().compressobj()
    return coder.compress(body) + coder.flush()


# The system flag of RocketMQ's producers, with what they compress by.
PACKERS = {0x001: zlib.compress, 0x101: lz4.frame.compress, 0x201: zstd, 0x301: zlib.compress}


@pytest.mark.parametrize("flag", PACKERS)
def test_each_codec_of_the_system_flag_gives_the_body_that_was_sent(flag: int) -> None:
    packed = PACKERS[flag](TEXT)
    plain = plain_body(packed, flag, bytes_max=MAX)
    assert (plain.body, plain.stored_bytes, plain.why_raw) == (TEXT, len(packed), "")
    assert plain.codec == {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}[flag >> 8]
    exact = plain_body(packed, flag, bytes_max=len(TEXT))
    assert exact.body == TEXT


@pytest.mark.parametrize("flag", PACKERS)
def test_a_body_that_would_be_too_large_stays_as_it_is_stored(flag: int) -> None:
    bomb = PACKERS[flag](bytes(MAX + 1))
    plain = plain_body(bomb, flag, bytes_max=MAX)
    assert (plain.body, plain.why_raw) == (bomb, f"decompresses to more than {MAX} bytes")


def test_a_frame_that_tells_a_huge_size_is_refused_before_any_memory_is_taken() -> None:
    packed = bytearray(zstandard.compress(bytes(300)))
    told = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(70_000))
    assert zstandard.get_frame_parameters(told).content_size == 70_000
    head = bytes.fromhex("28b52ffd") + bytes([0xE0]) + (1 << 60).to_bytes(8, "little")
    plain = plain_body(head + bytes(packed[6:]), 0x201, bytes_max=MAX)
    assert "more than" in plain.why_raw
    assert "more than" in plain_body(told, 0x201, bytes_max=69_999).why_raw
    assert plain_body(zstandard.compress(b""), 0x201, bytes_max=MAX).body == b""


@pytest.mark.parametrize("flag", PACKERS)
def test_damaged_bytes_come_raw_with_the_reason_and_never_raise(flag: int) -> None:
    packed = PACKERS[flag](TEXT)
    for damaged in (packed[:-5], packed[:7], b"\x00" + packed, b"x" * 40, b"\xff"):
        plain = plain_body(damaged, flag, bytes_max=MAX)
        assert plain.body == damaged
        assert plain.why_raw
        assert not plain.is_decompressed
    assert plain_body(packed[:-5], flag, bytes_max=MAX).why_raw == "ends too early"


def test_an_unknown_codec_is_named() -> None:
    plain = plain_body(b"abc", 0x501, bytes_max=MAX)
    assert (plain.body, plain.codec) == (b"abc", "codec 5")
    assert "codec 5 is none of zlib" in plain.why_raw


def test_what_is_not_marked_is_never_touched() -> None:
    packed = zlib.compress(TEXT)
    assert plain_body(packed, 0x300, bytes_max=MAX).body == packed
    assert decompress(gzip.compress(TEXT), "gzip", bytes_max=MAX) == TEXT


def stored(body: bytes, flag: int) -> StoredMessage:
    return StoredMessage(
        "t", 0, 0, 0, len(body) + 91, body, b"", 0, flag, 1, 0, "127.0.0.1:1", 0, "127.0.0.1:1"
    )


def test_the_flag_of_a_decompressed_body_says_nothing_of_compression() -> None:
    message = stored(zlib.compress(TEXT), 0x301 | 0x8)
    assert (message.plain.body, message.plain_flag) == (TEXT, 0x8)
    assert message.sys_flag & COMPRESSION_BITS == 0x301, "what is stored stays"
    broken = stored(b"no zlib", 0x301 | 0x8)
    assert (broken.plain.body, broken.plain_flag) == (b"no zlib", 0x309)


def test_the_largest_body_that_a_producer_may_send_is_handed_out() -> None:
    message = stored(zlib.compress(bytes(BODY_BYTES_MAX)), 0x1)
    assert len(message.plain.body) == BODY_BYTES_MAX
