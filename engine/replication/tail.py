"""A directory's tail that the leader of a later epoch does not have: set aside, shown, cut off.

The tail's records become a file in `set-aside`, a line of JSON and then the log's bytes; the
journal moves there as a whole. What is left is a part of the leader's log, from which a standby
makes queues and index anew, as one does that was killed before its first cut. A cut that stops
anywhere is made again by the next one.
"""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import msgspec

from engine.errors import Corrupt, NotFound
from engine.message import StoredMessage
from engine.replication.cursor import LogFiles
from engine.replication.epochs import OS_FILES, EpochStart
from engine.store.checkpoint import read_checkpoint
from engine.store.commit_log import NAME_DIGITS
from engine.store.damage import SET_ASIDE, DamageLog
from engine.store.files import Files, make_lasting_directory, write_atomic
from engine.store.journal_files import file_path
from engine.store.recovery import LogScan

PIECE_BYTES = 1024 * 1024
HEAD_BYTES_MAX = 4096
PREFIX, SUFFIX = "tail-", ".log"
DERIVED = ("checkpoint", "clean")
TAILS_MAX = 100  # of the newest that are listed


class LogTail(msgspec.Struct, frozen=True):
    """What its file begins with. `epoch` is the one in which it was written."""

    epoch: int
    begin: int
    end: int
    segment_bytes: int
    messages: int
    crc: int
    set_aside_ms: int


class TailFile(msgspec.Struct, frozen=True):
    """A tail that was set aside; `file` is relative to the data directory."""

    file: str
    tail: LogTail

    @property
    def size_bytes(self) -> int:
        return self.tail.end - self.tail.begin


def cut_tail(
    files: Files, root: Path, start: EpochStart, *, epoch: int, log_end: int, now_ms: int
) -> TailFile | None:
    """Make a closed directory of `epoch` a part of the log of the leader whose epoch began there.

    None where it has no more of the log, but of the journal. Raises OSError, such as a full disk.
    """
    bases = bases_of(files, root)
    tail = None
    begin = max(start.log_end, bases[0]) if bases else log_end
    if begin < log_end:
        tail = _set_aside(files, root, begin, epoch=epoch, log_end=log_end, now_ms=now_ms)
    config = root / "config"
    if files.exists(config):
        DamageLog(files, root).move_aside(config, f"config-epoch-{epoch}")
    make_lasting_directory(files, config)
    write_atomic(files, file_path(config, "journal", 0), b"")
    for name in DERIVED:
        files.remove(root / name)
    for name in ("consumequeue", "index"):
        files.remove_tree(root / name)
    files.sync_directory(root)
    _truncate(files, root, start.log_end)
    return tail


def keep_behind_damage(
    root: Path, *, epoch: int, now_ms: int, files: Files = OS_FILES
) -> TailFile | None:
    """Set aside what a closed directory that led has behind a damage; None where that is nothing.

    It goes on as a standby's, which is cut at its first damage. Raises OSError.
    """
    scan = scan_directory(root, files)
    if not scan.damages:
        return None
    return _set_aside(files, root, scan.whole_end, epoch=epoch, log_end=scan.end, now_ms=now_ms)


def scan_directory(root: Path, files: Files = OS_FILES) -> LogScan:
    """A scan, at its end, of the part of a closed directory's log that its recovery will read."""
    log, marked = DirectoryLog(files, root), read_checkpoint(files, root / "checkpoint")
    first, end = log.oldest, log.end
    begin = marked.checkpoint.confirmed
    scan = LogScan(log, begin if first <= begin <= end else first, end, marked.crc_range)
    for _ in scan.records():
        pass
    return scan


def tails(root: Path, files: Files = OS_FILES) -> list[TailFile]:
    """The tails that were set aside and are still there, the newest first; at most 100."""
    listed = []
    for name in files.names(root / SET_ASIDE):
        if name.startswith(PREFIX) and name.endswith(SUFFIX):
            try:
                head, _ = _read_head(files, root / SET_ASIDE / name)
            except (Corrupt, FileNotFoundError):  # a person's file, or being written
                continue
            listed.append(TailFile(f"{SET_ASIDE}/{name}", head))
    listed.sort(key=lambda each: (each.tail.set_aside_ms, each.file), reverse=True)
    return listed[:TAILS_MAX]


def tail_messages(path: Path, files: Files = OS_FILES) -> Iterator[StoredMessage]:
    """The messages of a tail's file, in the log's order; NotFound, Corrupt where it is none."""
    try:
        head, at = _read_head(files, path)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", field="file") from None
    yield from LogScan(_TailLog(files, path, head, at), head.begin, head.end).records()


def segment_bytes_of(root: Path, files: Files = OS_FILES) -> int:
    """The size of the log's files; 0 where there is none."""
    return DirectoryLog(files, root).segment_bytes


def _set_aside(
    files: Files, root: Path, begin: int, *, epoch: int, log_end: int, now_ms: int
) -> TailFile:
    """Copy the log from `begin` on into a file of its own, on the disk when it returns."""
    log = DirectoryLog(files, root)
    messages = sum(1 for _ in LogScan(log, begin, log_end).records())
    crc = 0
    for data in _pieces(log, begin, log_end):
        crc = crc32(data, crc)
    head = LogTail(
        epoch=epoch,
        begin=begin,
        end=log_end,
        segment_bytes=log.segment_bytes,
        messages=messages,
        crc=crc,
        set_aside_ms=now_ms,
    )
    directory = root / SET_ASIDE
    make_lasting_directory(files, directory)
    name, number = f"{PREFIX}{epoch}-{begin:0{NAME_DIGITS}d}", 0
    while files.exists(path := directory / f"{name}{f'-{number}' * bool(number)}{SUFFIX}"):
        other, _ = _read_head(files, path)
        if (other.end, other.crc) == (head.end, crc):  # by a cut that was interrupted
            return TailFile(f"{SET_ASIDE}/{path.name}", other)
        number += 1
    temporary = path.with_name(f"{path.name}.tmp")
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        line = msgspec.json.encode(head) + b"\n"
        file.pwrite(line, 0)
        at = len(line)
        for data in _pieces(log, begin, log_end):
            file.pwrite(data, at)
            at += len(data)
        file.sync()
    finally:
        file.close()
    files.replace(temporary, path)
    files.sync_directory(directory)
    return TailFile(f"{SET_ASIDE}/{path.name}", head)


def _truncate(files: Files, root: Path, end: int) -> None:
    """Leave nothing of the log from `end` on; the newest segments go first."""
    directory = root / "commitlog"
    for base in reversed(bases_of(files, root)):
        path = directory / f"{base:0{NAME_DIGITS}d}"
        if base >= end:
            files.remove(path)
            continue
        file = files.open(path)
        try:
            size = file.size()
            file.truncate(end - base if end < base + size else size)
            file.truncate(size)
            file.sync()
        finally:
            file.close()
        break
    files.sync_directory(directory)


def bases_of(files: Files, root: Path) -> list[int]:
    """Where the segments of a directory's log begin, the oldest first."""
    names = files.names(root / "commitlog")
    return [int(name) for name in names if len(name) == NAME_DIGITS and name.isdigit()]


def _pieces(log: "DirectoryLog", begin: int, end: int) -> Iterator[bytes]:
    while begin < end and (data := log.read(begin, min(PIECE_BYTES, end - begin))):
        yield data
        begin += len(data)


def _read_head(files: Files, path: Path) -> tuple[LogTail, int]:
    """What a file says of itself, and where the log's bytes begin in it."""
    file = files.open(path)
    try:
        line, separator, _ = file.pread(HEAD_BYTES_MAX, 0).partition(b"\n")
        if not separator:
            raise Corrupt(f"{path} is not the tail of a log", field="file")
        return msgspec.json.decode(line, type=LogTail), len(line) + 1
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{path} is not the tail of a log: {error}", field="file") from error
    finally:
        file.close()


class DirectoryLog(LogFiles):
    """The log of a closed directory, for a scan."""

    def __init__(self, files: Files, root: Path) -> None:
        self._bases = bases_of(files, root)
        super().__init__(files, root, self._size_bytes(files, root) if self._bases else 0)
        self.oldest = self._bases[0] if self._bases else 0
        self.end = self._bases[-1] + self.segment_bytes if self._bases else 0

    def bases(self) -> list[int]:
        return self._bases

    def _size_bytes(self, files: Files, root: Path) -> int:
        """Of each segment; a crash may have left one too short."""
        if len(self._bases) > 1:
            return self._bases[1] - self._bases[0]
        first = files.open(root / "commitlog" / f"{self._bases[0]:0{NAME_DIGITS}d}")
        try:
            return first.size()
        finally:
            first.close()


class _TailLog:
    """The bytes of a tail's file, for a scan."""

    def __init__(self, files: Files, path: Path, head: LogTail, at: int) -> None:
        self._files, self._path, self._head, self._at = files, path, head, at
        self.segment_bytes = head.segment_bytes

    def bases(self) -> range:
        size, head = self.segment_bytes, self._head
        return range(head.begin - head.begin % size, head.end, size)

    def read(self, position: int, size_bytes: int) -> bytes:
        if not self._head.begin <= position < self._head.end:
            return b""
        room = self.segment_bytes - position % self.segment_bytes
        file = self._files.open(self._path)
        try:
            size = min(size_bytes, room, self._head.end - position)
            return file.pread(size, self._at + position - self._head.begin)
        finally:
            file.close()
