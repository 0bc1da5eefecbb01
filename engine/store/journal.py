"""The progress journal: every change of topics, groups, offsets and hand-outs, in order.

Appending is one write to the page cache, so a killed process forgets nothing. From time to time
the whole state is written as a snapshot and the journal starts anew. Loading reads the newest
whole snapshot and the journals after it; a torn last entry is cut off.

On disk, both files: frames of [payload size u32][CRC-32 u32][payload], the payload being the
msgpack array of a tagged struct. A snapshot ends with an empty payload.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Union
from zlib import crc32

import msgspec

from engine.errors import Corrupt
from engine.service import Service
from engine.store.commit_log import DISK_FULL_ERRORS, disk_full
from engine.store.files import File, Files, Names, Syncable, read_whole, write_atomic
from engine.store.pool import Pool

FRAME = struct.Struct(">II")  # payload size, CRC-32
assert FRAME.size == 8
COMPACT_BYTES = 16 * 1024 * 1024
COMPACT_CHECK_S = 1.0
NEVER = 1 << 62

Flushed = Callable[[Exception | None], None]


class JournalEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change; subclasses set their own `tag`, which is never reused for another meaning."""

    @property
    def follows(self) -> int:
        """The end of the record in the log that this follows from; 0 for none.

        Where the log has to be read again from before there, loading leaves the change out: a
        power loss may have taken the record, and if not, recovery finds it and makes the change.
        """
        return 0


class Reread(JournalEntry, frozen=True, tag="reread", array_like=True):
    """The log was read again from `start` on: changes before this that follow from later records
    were made anew, or never happened.
    """

    start: int


class JournalPart:
    """Who keeps state in the journal: its entry types, how to apply one, and a snapshot of all."""

    def __init__(
        self,
        entry_types: Iterable[type[JournalEntry]],
        apply: Callable[[Any], None],
        snapshot: Callable[[], Iterable[JournalEntry]],
    ) -> None:
        self.entry_types = tuple(entry_types)
        self.apply = apply
        self.snapshot = snapshot


class Journal(Service):
    """`append` is for changes after `load`; parts register before it."""

    name = "journal"

    def __init__(
        self, files: Files, directory: Path, pool: Pool, compact_bytes: int = COMPACT_BYTES
    ) -> None:
        super().__init__()
        self._files = files
        self._directory = directory
        self._pool = pool
        self._compact_bytes = compact_bytes
        self._parts: list[JournalPart] = []
        self._encode = msgspec.msgpack.Encoder().encode
        self._file: File | None = None
        self._number = 0
        self._size = 0
        self._base_size = 0
        self._compacting = False
        self._older: list[File] = []  # what they hold is not in a snapshot on the disk yet
        self._has_new_name = False
        self.trusted = NEVER  # up to where the log is known to be whole
        self.when_flushed: Callable[[Flushed], None] = lambda done: done(None)
        self._owed = b""
        self._must_sync = True  # with the next flush of the log

    def register(
        self,
        entry_types: Iterable[type[JournalEntry]],
        apply: Callable[[Any], None],
        snapshot: Callable[[], Iterable[JournalEntry]],
    ) -> None:
        """Add a part; its `snapshot` entries, applied to an empty part, must rebuild its state."""
        self._parts.append(JournalPart(entry_types, apply, snapshot))

    def load(self) -> int:
        """Apply what was kept; returns how many entries were."""
        self._files.make_directory(self._directory)
        entries: list[JournalEntry] = []
        for number in reversed(self._numbers("snapshot")):
            found = self._read_snapshot(number)
            if found is not None:
                self._number, entries = number, found
                break
        last = self._number
        is_whole = True
        for number in self._numbers("journal"):
            if number < self._number:
                continue
            if not is_whole:  # a power loss took the end of the one before: this one builds on it
                self._files.remove(self._path("journal", number))
                continue
            last = number
            is_whole = self._read_journal(number, entries)
        applied = self._apply(entries)
        self._open(last)
        if applied < len(entries):
            self.append(Reread(self.trusted))
        return applied

    def append(
        self, entry: JournalEntry, *, is_lasting: bool = False, is_owed: bool = False
    ) -> None:
        """Keep one change; in the page cache when this returns. DiskFull or Corrupt: it is not.

        A change that `is_lasting` is on disk before any message flushed after it is said to be.
        One that `is_owed` follows from a record that the log already has: it cannot be refused any
        more. Where it cannot be written it waits, and no checkpoint moves over that record.
        """
        payload = self._encode(entry)
        self._write(FRAME.pack(len(payload), crc32(payload)) + payload, is_owed=is_owed)
        if is_lasting:
            self._must_sync = True

    def append_all(self, entries: Iterable[JournalEntry], *, is_lasting: bool = False) -> None:
        """Keep several changes with one write, so that a refusal leaves none of them."""
        data = b"".join(map(self._frame, entries))
        if data:
            self._write(data)
        if is_lasting:
            self._must_sync = True

    def tick(self) -> float:
        """Start a new journal with a snapshot when the current one has grown."""
        if self._owed:
            self._write(b"")
        if self._size >= self._base_size + self._compact_bytes and not self._compacting:
            self.compact()
        return COMPACT_CHECK_S

    @property
    def is_behind(self) -> bool:
        """Whether changes that are in force could not be written yet."""
        return bool(self._owed)

    def compact(self) -> None:
        """Snapshot now; the file work goes to the pool. A crash in between reads the old ones.

        The log is flushed first: what the snapshot holds may follow from its last records.
        """
        assert self._file is not None
        snapshot = self._snapshot_bytes()
        old = self._number
        self._older.append(self._file)
        self._open(old + 1)
        self._base_size = 0
        self._compacting = True
        path = self._path("snapshot", self._number)

        def work() -> None:
            write_atomic(self._files, path, snapshot)
            for number in range(old, -1, -1):
                stale = [self._path(kind, number) for kind in ("journal", "snapshot")]
                if not any(map(self._files.exists, stale)):
                    break
                for stale_path in stale:
                    self._files.remove(stale_path)

        def flushed(error: Exception | None) -> None:
            if error is None:
                self._pool.submit(work, self._compacted)
            else:
                self._compacted(None, error)

        self.when_flushed(flushed)

    def take_unsynced(self) -> list[Syncable]:
        """What a checkpoint has to bring to disk before it moves on."""
        taken: list[Syncable] = [*self._older]
        if self._file is not None:
            taken.append(self._file)
        if self._has_new_name:
            taken.append(Names(self._files, self._directory))
        self._has_new_name = False
        return taken

    def give_back(self) -> None:
        """It could not be synced: the next who takes has to do it."""
        self._has_new_name = True

    def take_lasting(self) -> list[Syncable]:
        """What has to be on disk before a flush of the log counts: mostly nothing.

        Not what a checkpoint took meanwhile: its sync may come after the flush.
        """
        if not self._must_sync:
            return []
        self._must_sync = False
        self._has_new_name = True
        return self.take_unsynced()

    def sync(self) -> None:
        """Bring everything to disk now: at a start, which may wait for it."""
        for unsynced in self.take_unsynced():
            unsynced.sync()

    def close(self) -> None:
        """Bring everything to disk and let go."""
        self.sync()
        for file in (*self._older, self._file):
            if file is not None:
                file.close()
        self._older = []
        self._file = None

    def _compacted(self, _: None, error: Exception | None) -> None:
        self._compacting = False
        if error is not None:
            self.failure = f"snapshot not written: {error}"
            self._base_size = self._size  # try again after as much again
        else:
            self.failure = ""
            for file in self._older:
                file.close()
            self._older = []

    def _frame(self, entry: JournalEntry) -> bytes:
        payload = self._encode(entry)
        return FRAME.pack(len(payload), crc32(payload)) + payload

    def _write(self, data: bytes, *, is_owed: bool = False) -> None:
        assert self._file is not None, "journal used before load or after close"
        data = self._owed + data
        try:
            self._file.pwrite(data, self._size)
        except OSError as error:
            with suppress(OSError):  # no part of a refused change may come to life
                self._file.truncate(self._size)
            if is_owed:
                self._owed = data
                return
            if error.errno in DISK_FULL_ERRORS:
                raise disk_full(str(error)) from error
            raise Corrupt(
                f"progress cannot be written: {error}", remedy="free some disk, then restart"
            ) from error
        self._size += len(data)
        self._owed = b""

    def _snapshot_bytes(self) -> bytes:
        frames = [self._frame(entry) for part in self._parts for entry in part.snapshot()]
        return b"".join(frames) + FRAME.pack(0, 0)

    def _read_snapshot(self, number: int) -> list[JournalEntry] | None:
        data = read_whole(self._files, self._path("snapshot", number))
        payloads = list(_iter_payloads(data))
        end = sum(len(payload) + FRAME.size for payload in payloads)
        if data[end : end + FRAME.size] != FRAME.pack(0, 0):
            return None
        decoder = self._decoder()
        return [decoder.decode(payload) for payload in payloads]

    def _read_journal(self, number: int, entries: list[JournalEntry]) -> bool:
        """Add what a journal holds; whether that was all of it. A torn end is cut off."""
        path = self._path("journal", number)
        data = read_whole(self._files, path)
        payloads = list(_iter_payloads(data))
        decoder = self._decoder()
        entries += [decoder.decode(payload) for payload in payloads]
        end = sum(len(payload) + FRAME.size for payload in payloads)
        if end < len(data):
            file = self._files.open(path)
            file.truncate(end)
            file.close()
        return end == len(data)

    def _apply(self, entries: list[JournalEntry]) -> int:
        """Apply what counts, and say how many did."""
        owners = {kind: part.apply for part in self._parts for kind in part.entry_types}
        counting: list[JournalEntry] = []
        trusted = self.trusted
        for entry in reversed(entries):
            if isinstance(entry, Reread):
                trusted = min(trusted, entry.start)
            elif entry.follows <= trusted:
                counting.append(entry)
        for entry in reversed(counting):
            owners[type(entry)](entry)
        return len(counting)

    def _decoder(self) -> msgspec.msgpack.Decoder[Any]:
        kinds = (Reread, *(kind for part in self._parts for kind in part.entry_types))
        return msgspec.msgpack.Decoder(Union[kinds])  # noqa: UP007 (built at run time)

    def _open(self, number: int) -> None:
        file = self._files.open(self._path("journal", number), create=True)
        self._number = number
        self._file = file
        self._size = file.size()
        self._has_new_name = True

    def _numbers(self, kind: str) -> list[int]:
        prefix = f"progress.{kind}."
        names = self._files.names(self._directory)
        return sorted(
            int(name[len(prefix) :])
            for name in names
            if name.startswith(prefix) and name[len(prefix) :].isdigit()
        )

    def _path(self, kind: str, number: int) -> Path:
        return self._directory / f"progress.{kind}.{number:010d}"


def _iter_payloads(data: bytes) -> Iterator[bytes]:
    """Payloads up to the first frame that is empty, short or fails its CRC."""
    at = 0
    while at + FRAME.size <= len(data):
        size, crc = FRAME.unpack_from(data, at)
        payload = data[at + FRAME.size : at + FRAME.size + size]
        if size == 0 or len(payload) < size or crc32(payload) != crc:
            return
        yield payload
        at += FRAME.size + size
