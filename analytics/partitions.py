"""Writes rows into hour partitions: files that are whole when they appear, and the manifest.

Nothing counts until `commit` has replaced the manifest. What a killed writer left is swept by the
next one; what a compaction replaced stays for `GRACE_MS`, as a running job may still read it.
"""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analytics.manifest import (
    HOUR_MS,
    NAME,
    Dropped,
    FrameManifest,
    HourPartition,
    PartitionFile,
    folder_of,
    hour_end_ms,
    hour_name,
    path_of,
    save,
    sync_folder,
)
from analytics.schemas import CLOCK, FRAMES, LAG, MESSAGES, TRACE, arrow_schema

ROW_GROUP = 128 * 1024
OPEN_MAX = 16  # files being written at once; each holds less than a row group in memory
SEAL_AFTER_MS = 120_000  # an hour is sealed so long after its end
GRACE_MS = 3_600_000  # longer than any job may take
PARTS_MAX = 32  # of an open hour; then they are made one
MARK = "writing"  # there while files may lie around that the manifest does not name
DAY_MS = 24 * HOUR_MS


class _File:
    """One file being written."""

    def __init__(self, root: Path, frame: str, hour: str, name: str) -> None:
        self.frame, self.hour, self.name = frame, hour, name
        self._folder = root / frame / folder_of(hour)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._temporary = self._folder / f".{name}.tmp"
        self._writer = pq.ParquetWriter(self._temporary, arrow_schema(frame), compression="zstd")
        self.rows = 0
        self.last = -1

    def add(self, table: "pa.Table") -> None:
        self._writer.write_table(table, row_group_size=ROW_GROUP)
        self.rows += table.num_rows
        self.last = max(self.last, _last(self.frame, table))

    def finish(self) -> PartitionFile:
        """Bring it to the disk under its name."""
        self._writer.close()
        fd = os.open(self._temporary, os.O_RDONLY)
        try:
            os.fsync(fd)
            size_bytes = os.fstat(fd).st_size
        finally:
            os.close(fd)
        self._temporary.replace(self._folder / self.name)
        sync_folder(self._folder)
        return PartitionFile(self.name, self.rows, size_bytes)


class Partitions:
    """The folder `root`, written by one process at a time (`roll.py` holds the lock)."""

    def __init__(self, root: Path, manifest: FrameManifest, now_ms: int) -> None:
        self._root = root
        self.manifest = manifest
        self._now_ms = now_ms
        self._open: dict[tuple[str, str], _File] = {}
        self._done: list[
            tuple[str, str, PartitionFile, int]
        ] = []  # frame, hour, file, its highest `last`
        self._count = 0
        self.rows: dict[str, int] = dict.fromkeys(FRAMES, 0)
        self._is_marked = False
        if (root / MARK).exists():
            self._sweep()

    def add(self, frame: str, table: "pa.Table") -> None:
        """Take rows of any hours."""
        self._mark()
        hours = table[CLOCK[frame]].to_numpy() // HOUR_MS
        for hour in np.unique(hours).tolist():
            mask = hours == hour
            part = table if mask.all() else table.filter(pa.array(mask))
            self._file(frame, hour_name(hour)).add(part)
        self.rows[frame] += table.num_rows

    def commit(self) -> None:
        """Make everything added count, together with what the manifest says of positions."""
        while self._open:
            self._finish(next(iter(self._open)))
        for frame, hour, part, last in self._done:
            known = self.manifest.partitions(frame).setdefault(hour, HourPartition())
            known.parts = [*known.parts, part]
            known.rows += part.rows
            known.last = max(known.last, last)
            if known.is_sealed:
                known.late_rows += part.rows
                known.is_sealed = False
        self._done = []
        self._save()

    def seal(self) -> int:
        """Make one file of each hour that is over, or has too many; how many were rewritten."""
        rewritten = sealed = 0
        for frame in FRAMES:
            for hour, known in sorted(self.manifest.partitions(frame).items()):
                is_over = hour_end_ms(hour) + SEAL_AFTER_MS <= self.manifest.at_ms
                is_due = (is_over and not known.is_sealed) or len(known.parts) >= PARTS_MAX
                if is_due and len(known.parts) > 1:
                    self._compact(frame, hour, known)
                    rewritten += 1
                if is_over and not known.is_sealed:
                    known.is_sealed = True
                    sealed += 1
        if sealed:
            self._save()
        return rewritten

    def expire(self, keep_days: int, keep_bytes: int = 0) -> int:
        """Let go of hours older than so many days (0: of none); how many.

        Of messages and traces also of the oldest that are more than so many bytes together (0: of
        none), but for the last hour.
        """
        expired = self._expire_bytes(keep_bytes) if keep_bytes else 0
        begin_ms = self._now_ms - keep_days * DAY_MS
        for frame in FRAMES if keep_days else ():
            for hour in [*self.manifest.partitions(frame)]:
                if hour_end_ms(hour) <= begin_ms:
                    expired += self._let_go(frame, hour)
        if expired:
            self._save()
        return expired

    def _expire_bytes(self, keep_bytes: int) -> int:
        sizes: dict[str, int] = {}
        for frame in (MESSAGES, TRACE):
            for hour, known in self.manifest.partitions(frame).items():
                sizes[hour] = sizes.get(hour, 0) + sum(part.size_bytes for part in known.parts)
        expired, size_bytes = 0, sum(sizes.values())
        for hour in sorted(sizes)[:-1]:
            if size_bytes <= keep_bytes:
                break
            size_bytes -= sizes[hour]
            expired += self._let_go(MESSAGES, hour) + self._let_go(TRACE, hour)
            self.manifest.begin_ms = max(self.manifest.begin_ms, hour_end_ms(hour))
        return expired

    def _let_go(self, frame: str, hour: str) -> int:
        """Drop an hour; 1 if it was there."""
        known = self.manifest.partitions(frame).pop(hour, None)
        if known is not None:
            self._drop(frame, hour, known.parts)
        return int(known is not None)

    def finish(self) -> None:
        """Delete what no reader can have open any more; the last thing done."""
        due = [each for each in self.manifest.dropped if each.at_ms + GRACE_MS <= self._now_ms]
        for each in due:
            (self._root / each.path).unlink(missing_ok=True)
            _remove_empty((self._root / each.path).parent, self._root)
        if due:
            self.manifest.dropped = [each for each in self.manifest.dropped if each not in due]
            self._save()
        (self._root / MARK).unlink(missing_ok=True)
        self._is_marked = False

    # -- inside -----------------------------------------------------------------------------------

    def _file(self, frame: str, hour: str) -> _File:
        key = (frame, hour)
        file = self._open.get(key)
        if file is None:
            if len(self._open) >= OPEN_MAX:
                self._finish(next(iter(self._open)))
            file = self._open[key] = _File(self._root, frame, hour, self._name())
        return file

    def _name(self) -> str:
        self._count += 1
        return f"part-{self.manifest.sequence + 1:010d}-{self._count:04d}.parquet"

    def _finish(self, key: tuple[str, str]) -> None:
        file = self._open.pop(key)
        self._done.append((*key, file.finish(), file.last))

    def _compact(self, frame: str, hour: str, known: HourPartition) -> None:
        self._mark()
        folder = self._root / frame / folder_of(hour)
        file = _File(self._root, frame, hour, self._name())
        for part in known.parts:
            with pq.ParquetFile(folder / part.name) as source:
                for group in range(source.num_row_groups):
                    file.add(source.read_row_group(group).select(arrow_schema(frame).names))
        self._drop(frame, hour, known.parts)
        known.parts = [file.finish()]
        assert known.parts[0].rows == known.rows
        self._save()

    def _drop(self, frame: str, hour: str, parts: list[PartitionFile]) -> None:
        dropped = [Dropped(path_of(frame, hour, part), self._now_ms) for part in parts]
        self.manifest.dropped = [*self.manifest.dropped, *dropped]

    def _save(self) -> None:
        self.manifest.sequence += 1
        save(self._root, self.manifest)

    def _mark(self) -> None:
        """From now on there may be files that the manifest does not name."""
        if not self._is_marked:
            (self._root / MARK).touch()
            sync_folder(self._root)
            self._is_marked = True

    def _sweep(self) -> None:
        """Delete the files that no manifest names: a killed writer left them."""
        needed = {self._root / each.path for each in self.manifest.dropped}
        for frame in FRAMES:
            needed |= {self._root / path for path in self.manifest.paths(frame)}
            for path in (self._root / frame).glob("dt=*/hr=*/*part-*"):
                if path not in needed:
                    path.unlink()
                    _remove_empty(path.parent, self._root)
        (self._root / f"{NAME}.tmp").unlink(missing_ok=True)


def _last(frame: str, table: "pa.Table") -> int:
    column = CLOCK[LAG] if frame == LAG else "log_position"
    return int(table[column].to_numpy().max())


def _remove_empty(folder: Path, root: Path) -> None:
    """A folder that became empty, and the ones above it."""
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
