"""The simplest frames of a WebSocket, read and written without the library's state machine.

A program's messages are single binary frames (RFC 6455, section 5), and a state machine of
generators takes longer to read one than the engine takes to store it. Everything else is the
library's work, which needs to be handed whole streams: `FrameBoundaries` says where it stands.
"""

import struct
from typing import NamedTuple

try:
    from websockets.speedups import apply_mask
except ImportError:  # the library was built without its C extension
    from websockets.utils import apply_mask

WHOLE_BINARY = 0x82
MASKED = 0x80
U16 = struct.Struct(">H")
U64 = struct.Struct(">Q")
LENGTH_16 = 126  # as the length: it follows in two bytes
LENGTH_64 = 127
MASK_BYTES = 4
HEAD_BYTES_LEAST = 2 + MASK_BYTES
HEAD_BYTES_MAX = 14


class PlainFrame(NamedTuple):
    """The payload of a whole binary frame, and where the next frame begins."""

    payload: bytes
    end: int


def plain_frame(data: bytes, at: int) -> PlainFrame | None:
    """The whole, masked, unfragmented binary frame at `at`; None where there is none."""
    size = len(data)
    if size < at + 2 or data[at] != WHOLE_BINARY:
        return None
    length = data[at + 1] - MASKED
    start = at + 2
    if length < 0 or length == LENGTH_64:
        return None
    if length == LENGTH_16:
        if size < start + U16.size:
            return None
        (length,) = U16.unpack_from(data, start)
        start += U16.size
    begin = start + MASK_BYTES
    end = begin + length
    if end > size:
        return None
    return PlainFrame(apply_mask(data[begin:end], data[start:begin]), end)


def lone_frame(data: bytes) -> bytes | None:
    """The payload of a plain frame of less than 64 KiB that is all of `data`; None for others."""
    size = len(data)
    if size < HEAD_BYTES_LEAST or data[0] != WHOLE_BINARY:
        return None
    length, begin = data[1] - MASKED, HEAD_BYTES_LEAST
    if length == LENGTH_16:
        length, begin = data[2] << 8 | data[3], HEAD_BYTES_LEAST + U16.size
    if length < 0 or begin + length != size or length == LENGTH_64:
        return None
    return apply_mask(data[begin:], data[begin - MASK_BYTES : begin])


def binary_head(size_bytes: int) -> bytes:
    """What precedes a server's binary message of this size."""
    if size_bytes < LENGTH_16:
        return bytes((WHOLE_BINARY, size_bytes))
    if size_bytes < 1 << 16:
        return b"\x82\x7e" + U16.pack(size_bytes)
    return b"\x82\x7f" + U64.pack(size_bytes)


class FrameBoundaries:
    """Follows a client's stream; `is_at_frame` says whether a new frame begins next.

    `left_bytes` are still to come of the frame under way, as far as its length is known.
    """

    def __init__(self) -> None:
        self._head = b""  # of a frame whose length is not known yet
        self.left_bytes = 0

    @property
    def is_at_frame(self) -> bool:
        return not (self.left_bytes or self._head)

    def follow(self, data: bytes) -> None:
        """Go on by bytes that the library reads."""
        at, size = self.left_bytes, len(data)
        if at > size:
            self.left_bytes -= size
            return
        if self._head:
            data, self._head = self._head + data, b""
            size = len(data)
        while at < size:
            frame_bytes = _frame_bytes(data, at)
            if not frame_bytes:
                self._head = data[at:]
                at = size
            else:
                at += frame_bytes
        self.left_bytes = at - size


def _frame_bytes(data: bytes, at: int) -> int:
    """The size of the frame at `at` with its head; 0 where its head is not whole."""
    if len(data) < at + 2:
        return 0
    length = data[at + 1] & ~MASKED
    head_bytes = 2 + (MASK_BYTES if data[at + 1] & MASKED else 0)
    number = {LENGTH_16: U16, LENGTH_64: U64}.get(length)
    if number is None:
        return head_bytes + length
    if len(data) < at + 2 + number.size:
        return 0
    return head_bytes + number.size + int(number.unpack_from(data, at + 2)[0])
