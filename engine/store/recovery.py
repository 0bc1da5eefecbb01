"""Crash recovery: reads the tail of the log, cuts off what is torn, steps over damage.

A record counts as whole when its length, magic, CRC and inner lengths agree and it states the very
position at which it lies. A damaged stretch with a whole record behind it stays in the log and is
reported; a damaged stretch with nothing behind it is the torn tail and is cut off.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from engine.errors import Corrupt
from engine.message import StoredMessage
from engine.store.damage import Damage
from engine.store.decoding import decode
from engine.store.record import (
    BLANK,
    HOLE_TOPIC,
    MAGIC_BLANK,
    NO_RANGE,
    RECORD_BYTES_MIN,
    has_crc,
    has_room_for_crc,
)

CHUNK_BYTES = 4 * 1024 * 1024
MAGIC_STARTS = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab")
MAGIC_AT = 4
NO_RECORD = "no record begins here"
HOLE = "a loss of power took what lay here"


class Segments(Protocol):
    """The log as a scan reads it; `engine.store.commit_log.CommitLog` is one."""

    @property
    def segment_bytes(self) -> int: ...

    def bases(self) -> Sequence[int]: ...

    def read(self, position: int, size_bytes: int) -> bytes:
        """Bytes of one segment from `position`, at most `size_bytes`; empty when not kept."""


class LogScan:
    """Walks records from a position to the end of what was written."""

    def __init__(self, log: Segments, start: int, limit: int, crc_range: range = NO_RANGE) -> None:
        """Records at positions in `crc_range` must have a CRC of their own."""
        self._crc_range = crc_range
        self.bare_end = 0  # one past the last whole record that has no CRC, though room for one
        self._log = log
        self._start = start
        self._limit = limit
        self.end = start  # one past the last whole record or blank
        self.damages: list[Damage] = []
        self.holes: list[Damage] = []  # what was damaged once, and has a record in its place
        self.detail = NO_RECORD  # what is wrong with what lies at `end`

    @property
    def whole_end(self) -> int:
        """Where the first damage begins, else where the last record or blank ends."""
        return self.damages[0].start if self.damages else self.end

    def records(self) -> Iterator[StoredMessage]:
        """Whole records in order; afterwards `end` and `damages` say what else there was."""
        for base in self._log.bases():
            stop = min(base + self._log.segment_bytes, self._limit)
            if stop > self._start:
                yield from self._segment(max(base, self._start), stop)

    def _segment(self, position: int, stop: int) -> Iterator[StoredMessage]:
        window = Window(self._log, stop)
        while position + BLANK.size <= stop:
            head = window.get(position, BLANK.size)
            if len(head) < BLANK.size:  # its file is gone
                return
            size, magic = BLANK.unpack(head)
            if magic == MAGIC_BLANK and position + size == stop:
                self._advance(position, stop)
                return
            if RECORD_BYTES_MIN <= size <= stop - position:
                try:
                    data = window.get(position, size)
                    message = self._whole(data, position)
                except Corrupt as error:
                    self.detail = error.detail
                else:
                    self._advance(position, position + size)
                    position += size
                    if message.topic == HOLE_TOPIC:
                        self.holes.append(Damage(message.position, position, HOLE))
                        continue
                    if not has_crc(data) and has_room_for_crc(len(message.property_block)):
                        self.bare_end = position
                    yield message
                    continue
            # From here, not behind it. What was not whole and is now, a running server has just
            # written: that was the end, and going after it might never end.
            following = self._find_whole(window, position, stop)
            if following is None or following == position:
                return
            position = following

    def _advance(self, start: int, end: int) -> None:
        """A whole record or blank lies at `start`: what was skipped before it is damage."""
        if start > self.end:
            self.damages.append(Damage(self.end, start, self.detail))
            self.detail = NO_RECORD
        self.end = end

    def _whole(self, data: bytes, position: int) -> StoredMessage:
        message = decode(data, crc_range=self._crc_range)
        if message.position != position:
            raise Corrupt(f"the record says it lies at {message.position}, not {position}")
        # The CRC covers the body alone: a sector that a power loss took from the rest reads as 0.
        if b"\0" in message.property_block or "\0" in message.topic:
            raise Corrupt("part of the topic or the properties was never written")
        return message

    def _find_whole(self, window: "Window", position: int, stop: int) -> int | None:
        """Where the next whole record begins; None when there is none in this segment."""
        while position < stop:
            data = window.get(position, CHUNK_BYTES)
            if not data:  # a crash while its end was cut off left the file too short
                return None
            if data == bytes(len(data)):  # several times as fast as stripping zeros
                position += len(data)
                continue
            for at in _candidates(data):
                start = position + at - MAGIC_AT
                size = BLANK.unpack(window.get(start, BLANK.size))[0]
                if start >= self._start and RECORD_BYTES_MIN <= size <= stop - start:
                    try:
                        self._whole(window.get(start, size), start)
                    except Corrupt:
                        continue
                    return start
            position += max(1, len(data) - MAGIC_AT)
            if len(data) <= MAGIC_AT:
                return None
        return None


class Window:
    """Reads a segment in large pieces, so that walking small records costs few system calls."""

    def __init__(self, log: Segments, stop: int) -> None:
        self._log = log
        self._stop = stop
        self._start = 0
        self._data = b""

    def get(self, position: int, size_bytes: int) -> bytes:
        """Bytes from `position`, shorter only at the end of the segment."""
        size_bytes = min(size_bytes, self._stop - position)
        at = position - self._start
        if at < 0 or at + size_bytes > len(self._data):
            want = min(max(size_bytes, CHUNK_BYTES), self._stop - position)
            self._data = self._log.read(position, want)
            self._start, at = position, 0
        return self._data[at : at + size_bytes]


def _candidates(data: bytes) -> list[int]:
    positions = []
    for magic in MAGIC_STARTS:
        at = data.find(magic)
        while at >= 0:
            if at >= MAGIC_AT:
                positions.append(at)
            at = data.find(magic, at + 1)
    return sorted(positions)
