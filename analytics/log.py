"""The commit log's files for a reader beside the running server: opened for reading only.

Promises to touch nothing and to read no byte from `end` on, which the server has to confirm: file
sizes say nothing, as segments are made at their full size. A segment that retention deletes
meanwhile reads as gone.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from analytics.errors import StoreUnreadable
from engine.store.record import BLANK, MAGIC_BLANK, RECORD_BYTES_MIN, TOPIC_LENGTHS
from engine.store.recovery import LogScan

STEP_BYTES = 16 * 1024 * 1024
NAME_DIGITS = 20


class LogChunk(NamedTuple):
    """A piece of the log: records begin at `starts` of `data`, which lies at `position`.

    `end` is where the next piece begins. What lies in between and is no record was counted:
    `expired_bytes` that retention took, `damaged_bytes` that are nothing known.
    """

    position: int
    end: int
    data: bytes
    starts: list[int]
    expired_bytes: int = 0
    damaged_bytes: int = 0


class LogView:
    """The segments under `data`/commitlog as they are at the moment of asking."""

    def __init__(self, data: Path, end: int) -> None:
        """`end` is the confirmed position; StoreUnreadable where there is no log."""
        self._directory = data / "commitlog"
        self.end = end
        self._bases: list[int] = []
        self._open: tuple[int, int] = (-1, -1)  # base and descriptor of the segment in use
        self.segment_bytes = 0
        self.refresh()

    def __enter__(self) -> "LogView":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def refresh(self) -> None:
        """Look again which segments there are."""
        try:
            names = os.listdir(self._directory)  # noqa: PTH208 (names, not paths)
        except OSError as error:
            raise StoreUnreadable(
                f"{self._directory} cannot be read: {error.strerror}",
                "name the data directory of the server",
            ) from None
        self._bases = sorted(
            int(name) for name in names if len(name) == NAME_DIGITS and name.isdigit()
        )
        for base in self._bases:
            try:
                self.segment_bytes = self._path(base).stat().st_size
                break
            except FileNotFoundError:
                continue

    def bases(self) -> list[int]:
        """First positions of the segments, oldest first."""
        return self._bases

    @property
    def oldest(self) -> int:
        """The first position kept; the end where nothing is."""
        return self._bases[0] if self._bases else self.end

    def read(self, position: int, size_bytes: int) -> bytes:
        """At most so many bytes of one segment, none from the end on; empty when not kept."""
        index = bisect_right(self._bases, position) - 1
        if index < 0:
            return b""
        base = self._bases[index]
        stop = min(base + self.segment_bytes, self.end)
        if position >= stop or not self._use(base):
            return b""
        return os.pread(self._open[1], min(size_bytes, stop - position), position - base)

    def stop_of(self, position: int) -> int:
        """Where the segment that holds `position`, or what is confirmed of it, ends."""
        base = self._bases[bisect_right(self._bases, position) - 1]
        return min(base + self.segment_bytes, self.end)

    def _use(self, base: int) -> bool:
        if self._open[0] == base:
            return True
        self._close()
        try:
            self._open = (base, os.open(self._path(base), os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return False
        return True

    def _close(self) -> None:
        if self._open[1] >= 0:
            os.close(self._open[1])
        self._open = (-1, -1)

    def _path(self, base: int) -> Path:
        return self._directory / f"{base:0{NAME_DIGITS}d}"


def walk(log: LogView, position: int, step_bytes: int = STEP_BYTES) -> Iterator[LogChunk]:
    """The log from `position` to its confirmed end, piece by piece, every byte accounted for.

    A piece holds at most `step_bytes` and one record. An incomplete record at the end is left for
    the next time.
    """
    while position < log.end:
        if position < log.oldest:
            yield LogChunk(position, log.oldest, b"", [], expired_bytes=log.oldest - position)
            position = log.oldest
            continue
        data = log.read(position, step_bytes)
        if not data:
            log.refresh()  # retention took the segment just now
            if position >= log.oldest:
                return
            continue
        stretch = _stretch(log, position, data)
        if stretch is None:
            return
        yield stretch
        position = stretch.end


def _stretch(log: LogView, position: int, data: bytes) -> LogChunk | None:
    """The records at the beginning of `data`; None where a whole one is not confirmed yet."""
    stop = log.stop_of(position)
    starts, at, need = _starts(data, position, stop)
    if at or not data:
        return LogChunk(position, position + at, data, starts)
    if need:  # one record that is larger than a step
        whole = log.read(position, need)
        return LogChunk(position, position + need, whole, [0]) if len(whole) == need else None
    return _damaged(log, position, stop)


def _starts(data: bytes, position: int, stop: int) -> tuple[list[int], int, int]:
    """Where records begin, where the last whole one ends, and the size of one cut off at 0."""
    starts: list[int] = []
    unpack, size_bytes, at = BLANK.unpack_from, len(data), 0
    while at + BLANK.size <= size_bytes:
        size, magic = unpack(data, at)
        if magic in TOPIC_LENGTHS and RECORD_BYTES_MIN <= size <= stop - position - at:
            if at + size > size_bytes:
                return starts, at, size
            starts.append(at)
            at += size
        elif magic == MAGIC_BLANK and position + at + size == stop:
            return starts, at + size, 0
        else:
            break
    return starts, at, 0


def _damaged(log: LogView, position: int, stop: int) -> LogChunk | None:
    """The piece up to the next whole record, or to the segment's end; None if that is to come."""
    for record in LogScan(log, position, log.end).records():
        end = min(record.position, stop)
        break
    else:
        # Nothing whole behind it in what is confirmed: only a full segment can be given up.
        if stop == log.end and stop - log.bases()[-1] < log.segment_bytes:
            return None
        end = stop
    return LogChunk(position, end, b"", [], damaged_bytes=end - position)
