"""The commit log: fixed-size segment files, one after another, written only at the end.

Promises that what `append` accepted lies contiguously in one segment, and that a refused append
leaves `written` where it was. It knows sizes and positions; records are `record.py`'s, and what
makes them readable to consumers is `dispatch.py`'s. Open are the last segment and those that wait
for their flush; of the others as many as `SealedFiles` allows.
"""

from bisect import bisect_right
from itertools import pairwise
from pathlib import Path

from engine.errors import PASSING_ERRORS, Busy, Corrupt, DiskFull, Invalid
from engine.store.files import DISK_FULL_ERRORS, ByPath, DirectoryNames, File, Files, Syncable
from engine.store.record import BLANK, BLANK_BYTES_MIN, MAGIC_BLANK, NO_RANGE
from engine.store.sealed_files import SealedFiles

NAME_DIGITS = 20
PIECE_BYTES = 1024 * 1024


class Segment:
    """One file of the log; `base` is the position of its first byte.

    `file` is None once it is sealed and flushed: then it is opened at need.
    """

    __slots__ = ("base", "file", "path")

    def __init__(self, base: int, path: Path, file: File | None) -> None:
        self.base = base
        self.path = path
        self.file = file


class CommitLog:
    """`written` is the position after the last record; `oldest` that of the first byte kept."""

    def __init__(
        self, files: Files, directory: Path, segment_bytes: int, sealed: SealedFiles
    ) -> None:
        """`sealed` may be shared; its creator closes it."""
        self._files = files
        self._sealed = sealed
        self._directory = directory
        self.segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self.written = 0
        self.crc_range = NO_RANGE  # positions whose records have a CRC of their own
        self._unsettled: list[Segment] = []  # sealed, and a sync of them may be under way
        self._unsynced: dict[int, Segment] = {}  # by base: with bytes that no sync covered yet
        self._has_new_names = False

    @property
    def oldest(self) -> int:
        return self._bases[0] if self._bases else self.written

    def open(self) -> None:
        """Look at every segment found; Corrupt when a name or size is not what settings say."""
        self._files.make_directory(self._directory)
        bases = [
            int(name)
            for name in self._files.names(self._directory)
            if len(name) == NAME_DIGITS and name.isdigit()
        ]
        for before, after in pairwise(bases):
            if after != before + self.segment_bytes:
                raise Corrupt(
                    f"the log has a hole: segment {before:020d} is followed by {after:020d}",
                    remedy="bring the missing file back, or move the older ones away; if the "
                    "segment size was changed, set it back",
                )
        for base in bases:
            if self._segments:
                self._rest(self._segments[-1])
            self._open_segment(base, create=False)

    def place(self, size_bytes: int) -> int:
        """The position at which a batch of `size_bytes` goes, rolling to a new segment if needed.

        At least 8 bytes always remain for the blank record that closes a segment; DiskFull or
        Invalid (larger than a segment) leave the log as it was.
        """
        if size_bytes + BLANK_BYTES_MIN > self.segment_bytes:
            raise Invalid(
                f"{size_bytes} bytes do not fit a log segment of {self.segment_bytes}",
                field="messages",
                remedy="send fewer messages at once, or set larger segments",
                code="invalid_size",
            )
        if not self._segments:
            self._open_segment(self.written, create=True)
        end = self._segments[-1].base + self.segment_bytes
        if self.written + size_bytes + BLANK_BYTES_MIN > end:
            self._roll()
        return self.written

    def append(self, data: bytes, position: int) -> None:
        """Write `data` at `position`, which `place` just gave, in one write."""
        assert position == self.written, "append without place"
        segment = self._segments[-1]
        self._write(segment, data, position)
        self.written = position + len(data)

    def begin_at(self, position: int) -> None:
        """Let a log that has no segment begin at `position`, the first byte of a segment."""
        assert not self._segments
        assert position % self.segment_bytes == 0
        self.written = position

    def append_copy(self, data: bytes, *, is_blank: bool = False) -> None:
        """Write records of another log, which lie there at `written` and in one segment.

        Of a blank record, which closes the segment, the head is enough: zeros follow.
        """
        if not self._segments or self.written == self._end():
            if self._segments:
                self._unsettled.append(self._segments[-1])
            self._open_segment(self.written, create=True)
        self._write(self._segments[-1], data, self.written)
        self.written = self._end() if is_blank else self.written + len(data)

    def read(self, position: int, size_bytes: int) -> bytes:
        """Bytes of one segment from `position`, at most `size_bytes`; empty when not kept."""
        segment = self._find(position)
        if segment is None:
            return b""
        end = min(self.written, segment.base + self.segment_bytes)
        size_bytes = min(size_bytes, end - position)
        if size_bytes <= 0:
            return b""
        try:
            file = segment.file or self._sealed.get(segment.path)
        except FileNotFoundError:
            return b""
        return file.pread(size_bytes, position - segment.base)

    def segment_at(self, position: int) -> tuple[Path, int] | None:
        """File and first position of the segment that holds `position`; None when not kept."""
        segment = self._find(position)
        return None if segment is None else (segment.path, segment.base)

    def bases(self) -> tuple[int, ...]:
        """Start positions of the segments, oldest first."""
        return tuple(self._bases)

    @property
    def oldest_base(self) -> int:
        """Where the first segment begins; 0 when there is none. `oldest` before `written` is."""
        return self._bases[0] if self._bases else 0

    def has_data(self, position: int, size_bytes: int) -> bool:
        """Whether anything but zeros lies in the bytes from `position` on."""
        return bool(self.tail(position, size_bytes))

    def tail(self, position: int, size_max: int) -> bytes:
        """What lies from `position` to the segment's end, at most `size_max`, without last zeros.

        Also behind `written`. Holes, which most of a segment is, are not read.
        """
        index = bisect_right(self._bases, position) - 1
        if index < 0 or position >= self._bases[index] + self.segment_bytes:
            return b""
        segment = self._segments[index]
        start = position - segment.base
        end = min(self.segment_bytes, start + size_max)
        at = found_end = start
        try:
            file = segment.file or self._sealed.get(segment.path)
        except FileNotFoundError:
            return b""
        while (at := file.next_data(at)) < end:
            piece = file.pread(min(PIECE_BYTES, end - at), at)
            if piece.strip(b"\0"):
                found_end = at + len(piece.rstrip(b"\0"))
            at += max(1, len(piece))
        return file.pread(found_end - start, start)

    def truncate(self, position: int) -> None:
        """Forget everything from `position` on, leaving zeros, so that no stale record shows.

        On the disk at once: else a power loss could mix it with what is written there next.
        """
        while self._segments and self._segments[-1].base >= position and self._segments[-1].base:
            if self._segments[-1].base == position and len(self._segments) == 1:
                break
            self._drop(len(self._segments) - 1)
        if self._segments:
            segment = self._segments[-1]
            file = segment.file = segment.file or self._sealed.take(segment.path)
            file.truncate(position - segment.base)
            file.truncate(self.segment_bytes)
            file.sync()
        self._files.sync_directory(self._directory)
        self.written = position

    def expire(self, position: int) -> list[Path]:
        """Let go of segments wholly below `position`, never the last; their files to delete."""
        paths = []
        while len(self._segments) > 1 and self._bases[1] <= position:
            paths.append(self._segments[0].path)
            self._close(0)
        return paths

    def forget_deleted(self) -> None:
        """Let go of the oldest segments whose files are gone: for readers of a server's log."""
        while self._segments and not self._files.exists(self._segments[0].path):
            self._close(0)

    def take_unsynced(self) -> list[Syncable]:
        """What a sync has to cover; the caller syncs it or calls `mark_unsynced`.

        `settle` has to be called when it is synced. Safe on another thread until then.
        """
        files: list[Syncable] = [
            segment.file or ByPath(self._files, segment.path) for segment in self._unsynced.values()
        ]
        if self._has_new_names:
            files.append(DirectoryNames(self._files, self._directory))
        self._unsynced = {}
        self._has_new_names = False
        return files

    def mark_unsynced(self, position: int) -> None:
        """Everything from `position` on has to be covered by the next sync."""
        self._has_new_names = True
        for segment in self._segments:
            if segment.base + self.segment_bytes > position:
                self._unsynced[segment.base] = segment

    def settle(self, position: int) -> None:
        """Everything below `position` is synced, no sync is under way: what is sealed may rest."""
        while self._unsettled and self._unsettled[0].base + self.segment_bytes <= position:
            self._rest(self._unsettled.pop(0))

    def close(self) -> None:
        while self._segments:
            self._close(0)

    def _end(self) -> int:
        return self._segments[-1].base + self.segment_bytes

    def _find(self, position: int) -> Segment | None:
        index = bisect_right(self._bases, position) - 1
        if index < 0 or position >= self.written:
            return None
        return self._segments[index]

    def _roll(self) -> None:
        segment, end = self._segments[-1], self._end()
        if end > self.written:
            self._write(segment, BLANK.pack(end - self.written, MAGIC_BLANK), self.written)
        self._open_segment(end, create=True)
        self._unsettled.append(segment)
        self.written = end

    def _rest(self, segment: Segment) -> None:
        """It is written and synced no more: its file may be closed at any time."""
        if segment.file is not None:
            self._sealed.put(segment.path, segment.file)
            segment.file = None

    def _write(self, segment: Segment, data: bytes, position: int) -> None:
        file = segment.file
        assert file is not None, "a write to a sealed segment"
        try:
            file.pwrite(data, position - segment.base)
        except OSError as error:
            self._erase(file, position - segment.base)
            if error.errno in DISK_FULL_ERRORS:
                raise disk_full(str(error)) from error
            if error.errno in PASSING_ERRORS:
                raise out_of_memory(error) from error
            raise Corrupt(f"the log cannot be written: {error}") from error
        self._unsynced[segment.base] = segment

    def _erase(self, file: File, start: int) -> None:
        """Best effort after a half-done write: no part of a refused batch may come to life."""
        try:
            file.truncate(start)
            file.truncate(self.segment_bytes)
        except OSError:
            return

    def _open_segment(self, base: int, *, create: bool) -> None:
        path = self._directory / f"{base:0{NAME_DIGITS}d}"
        try:
            file = self._sealed.open(path, create=create)
        except OSError as error:
            if error.errno in DISK_FULL_ERRORS:
                raise disk_full(str(error)) from error
            raise
        try:
            # A crash while its end was being cut off leaves a segment too short: zeros are missing.
            if file.size() < self.segment_bytes:
                file.truncate(self.segment_bytes)
        except OSError as error:
            file.close()
            if error.errno in DISK_FULL_ERRORS:
                raise disk_full(str(error)) from error
            raise
        if (size_bytes := file.size()) != self.segment_bytes:
            file.close()
            raise Corrupt(
                f"segment {path.name} has {size_bytes} bytes, the setting says "
                f"{self.segment_bytes}",
                field="segment_bytes",
                remedy="start with the segment size that the store was made with",
            )
        self._segments.append(Segment(base, path, file))
        self._bases.append(base)
        self._has_new_names = self._has_new_names or create

    def _drop(self, index: int) -> None:
        path = self._segments[index].path
        self._close(index)
        self._files.remove(path)

    def _close(self, index: int) -> None:
        segment = self._segments.pop(index)
        del self._bases[index]
        self._unsynced.pop(segment.base, None)
        if segment in self._unsettled:
            self._unsettled.remove(segment)
        if segment.file is None:
            self._sealed.forget(segment.path)
        else:
            segment.file.close()


def disk_full(detail: str) -> DiskFull:
    return DiskFull(
        f"the disk has no room for more messages ({detail})",
        retry_after_s=10.0,
        remedy="free some disk; reading and acknowledging go on meanwhile",
    )


def out_of_memory(error: OSError) -> Busy:
    """A write for which the system had no memory: nothing of it counts, and it passes."""
    return Busy(f"the system has no memory to write just now: {error.strerror or error}")
