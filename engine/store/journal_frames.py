"""The frames of journal and snapshot files: [payload size u32][CRC-32 u32][payload].

Reading never stops at the first bad frame: what lies behind it is looked for, so that one flipped
bit costs one frame. The one module that knows these bytes.
"""

import re
import struct
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

FRAME = struct.Struct(">II")  # payload size, CRC-32
assert FRAME.size == 8
END = FRAME.pack(0, 0)  # of a snapshot
# How a payload begins: a msgpack array whose first item is a tag, a short text.
_BEGIN = re.compile(rb"(?:[\x91-\x9f]|\xdc..|\xdd....)(?:[\xa1-\xbf]|\xd9.)[A-Za-z]", re.DOTALL)


class Payload(NamedTuple):
    """One whole frame's content; `at` is where the frame begins in its file."""

    at: int
    data: bytes


class Gap(NamedTuple):
    """Bytes `start` to `end` that are no whole frame."""

    start: int
    end: int


class JournalFrames(NamedTuple):
    """What a file holds: whole frames, what lies between them, and where the last one ends.

    `is_ended` says that the end mark of a snapshot follows the last frame.
    """

    payloads: list[Payload]
    gaps: list[Gap]
    end: int
    is_ended: bool


def frame(payload: bytes) -> bytes:
    """`payload` as it is written."""
    return FRAME.pack(len(payload), crc32(payload)) + payload


def join_frames(payloads: Iterable[bytes]) -> bytes:
    """The content of a snapshot with these payloads."""
    return b"".join(map(frame, payloads)) + END


def read_frames(data: bytes) -> JournalFrames:
    """Every whole frame in `data`; a gap is what has another whole frame behind it.

    What follows the last whole frame is neither: from `end` on the file is torn or damaged.
    """
    payloads: list[Payload] = []
    gaps: list[Gap] = []
    at = end = 0
    while at < len(data):
        payload = _payload_at(data, at)
        if payload is None:
            following = _following(data, at)
            if following is None:
                break
            gaps.append(Gap(at, following))
            at = following
            continue
        payloads.append(Payload(at, payload))
        at = end = at + FRAME.size + len(payload)
    is_ended = data[end : end + FRAME.size] == END
    return JournalFrames(payloads, gaps, end, is_ended)


def complete_bytes(data: bytes) -> int:
    """How many bytes from the start on are frames that are all there; none is checked."""
    at = 0
    while at + FRAME.size <= len(data):
        end = at + FRAME.size + FRAME.unpack_from(data, at)[0]
        if end > len(data):
            break
        at = end
    return at


def _payload_at(data: bytes, at: int) -> bytes | None:
    """The payload of the frame at `at`; None where none is whole."""
    if at + FRAME.size > len(data):
        return None
    size, crc = FRAME.unpack_from(data, at)
    begin = at + FRAME.size
    if not 0 < size <= len(data) - begin:
        return None
    payload = data[begin : begin + size]
    return payload if crc32(payload) == crc else None


def _following(data: bytes, at: int) -> int | None:
    """Where the next whole frame behind a bad one at `at` begins; None when there is none.

    Where the bad one's size leads to a whole frame it is believed: nothing inside is looked at.
    """
    if at + FRAME.size <= len(data):
        size: int = FRAME.unpack_from(data, at)[0]
        after = at + FRAME.size + size
        if _payload_at(data, after) is not None:
            return after
    start = at + 1
    for match in _BEGIN.finditer(data, start + FRAME.size):
        at = match.start() - FRAME.size
        if _payload_at(data, at) is not None:
            return at
    return None
