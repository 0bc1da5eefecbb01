"""Closes the holes that a loss of power leaves in the log of a closed directory.

What a hole had is kept in `set-aside`. In its place come records of a topic that nobody has, or the
blank record that closes a segment. So every reader of the log goes on behind it, where a broker of
RocketMQ would cut its log or stop, and a standby, which is cut where its own log is not whole, is
not cut there.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.replication.epochs import OS_FILES
from engine.replication.tail import DirectoryLog
from engine.store.commit_log import NAME_DIGITS
from engine.store.damage import COPY_BYTES_MAX, Damage, DamageLog
from engine.store.files import Files
from engine.store.record import (
    BLANK,
    HEAD_BYTES_MAX,
    HOLE_BYTES_MIN,
    MAGIC_BLANK,
    hole_record,
    stored_ms_in,
)

HOLE_BYTES_MAX = 1024 * 1024  # of one record

log = logging.getLogger("kitemq.replication")


def close_holes(root: Path, damages: Sequence[Damage], files: Files = OS_FILES) -> None:
    """Close what a scan found damaged with something whole behind it; on the disk when it returns.

    What cannot be kept stays as it is, and so does what is too short for a record.
    """
    closer = _HoleCloser(root, files)
    for damage in damages:
        try:
            closer.close(damage)
        except OSError as error:
            log.warning("a hole in the log at %d stays: %s", damage.start, error)


class _HoleCloser:
    def __init__(self, root: Path, files: Files) -> None:
        self._files, self._directory = files, root / "commitlog"
        self._log, self._kept = DirectoryLog(files, root), DamageLog(files, root)

    def close(self, damage: Damage) -> None:
        for begin, end in self._stretches(damage):
            copies = [
                copy for at in range(begin, end, COPY_BYTES_MAX) if (copy := self._keep(at, end))
            ]
            self._kept.add(Damage(begin, end, damage.detail, copy=", ".join(copies)))
            self._write(begin, end)

    def _stretches(self, damage: Damage) -> Iterator[tuple[int, int]]:
        """The parts of a damage, each in one segment."""
        size, begin = self._log.segment_bytes, damage.start
        while begin < damage.end:
            end = min(damage.end, begin - begin % size + size)
            yield begin, end
            begin = end

    def _keep(self, begin: int, end: int) -> str:
        """Copy what lies there, at most 16 MiB; "" where that is zeros. OSError."""
        data = self._log.read(begin, min(COPY_BYTES_MAX, end - begin))
        return self._kept.keep_copy(f"commitlog.{begin}", data) if data.strip(b"\0") else ""

    def _write(self, begin: int, end: int) -> None:
        size = self._log.segment_bytes
        base = begin - begin % size
        stored_ms = stored_ms_in(self._log.read(end, HEAD_BYTES_MAX), end) if end % size else None
        file = self._files.open(self._directory / f"{base:0{NAME_DIGITS}d}")
        try:
            if stored_ms is None:  # the segment ends there, or a blank record follows
                file.truncate(begin - base)
                file.truncate(size)
                file.pwrite(BLANK.pack(base + size - begin, MAGIC_BLANK), begin - base)
            else:
                for at, size_bytes in _sizes(begin, end):
                    file.pwrite(hole_record(at, size_bytes, stored_ms), at - base)
            file.sync()
        finally:
            file.close()


def _sizes(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Where records go that take all of a stretch, and how large they are; none if it is short."""
    while end - begin >= HOLE_BYTES_MIN:
        size_bytes = min(HOLE_BYTES_MAX, end - begin)
        if 0 < end - begin - size_bytes < HOLE_BYTES_MIN:
            size_bytes -= HOLE_BYTES_MIN
        yield begin, size_bytes
        begin += size_bytes
