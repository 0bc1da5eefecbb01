"""Frames of HTTP/2 (RFC 9113): their numbers, and the bytes of those that a server sends."""

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = struct.Struct(">IBI")  # length (24 bits) and kind (8), flags, stream
HEAD_BYTES = HEAD.size
STREAM_BITS = 0x7FFFFFFF
WINDOW = 65_535  # of a stream and of a connection, where no setting says otherwise
WINDOW_MAX = STREAM_BITS
FRAME_BYTES_MAX = 16_384  # of a payload, where no setting says otherwise

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE = range(9)
CONTINUATION = 9
END_STREAM = ACK = 1
END_HEADERS, PADDED, HAS_PRIORITY = 4, 8, 0x20


class Setting(IntEnum):
    """The settings that matter here."""

    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Http2Code(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """One frame."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def settings(values: dict[Setting, int]) -> bytes:
    """The frame of our settings."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *each) for each in values.items()))


def window_update(stream: int, more: int) -> bytes:
    """Let the peer send so many more bytes, on one stream or (0) on the connection."""
    return frame(WINDOW_UPDATE, 0, stream, more.to_bytes(4, "big"))


def reset(stream: int, code: Http2Code) -> bytes:
    """End one stream."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last: int, code: Http2Code, detail: str = "") -> bytes:
    """Tell the peer to open no further streams; `last` is the last one that was served."""
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code) + detail.encode())


def unpadded(flags: int, payload: bytes) -> bytes | None:
    """The payload of a DATA or HEADERS frame without its padding; None if that is invalid."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        return None
    return payload[1 : len(payload) - payload[0]]
