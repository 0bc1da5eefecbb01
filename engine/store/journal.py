"""The progress journal: every change of topics, groups, offsets and deliveries, in order.

Appending is one write to the page cache, so a killed process forgets nothing. From time to time
the whole state is written as a snapshot and the journal starts anew. Loading reads the newest
whole snapshot and the journals after it; what is damaged is stepped over and reported.

A change is found legal before a byte of it is written: each part registers a check with its entry
types, which raises Illegal. What a start cannot read or apply it sets aside (journal_entries.py).

On disk, both files: frames as in `journal_frames`, the payload being the msgpack array of a tagged
struct. `journal_files` decides which files count.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from engine.errors import PASSING_ERRORS, Corrupt, EngineError, Illegal, OnStandby
from engine.legality import check_number
from engine.service import Service
from engine.store.commit_log import disk_full, out_of_memory
from engine.store.damage import DamageLog
from engine.store.files import (
    DISK_FULL_ERRORS,
    DirectoryNames,
    File,
    Files,
    Syncable,
    sync_if_open,
    write_atomic,
)
from engine.store.journal_entries import (
    EntryReader,
    JournalEntry,
    JournalFrame,
    Predecessor,
    RefusedFrame,
    gaps_in,
    reason_of,
    set_aside,
)
from engine.store.journal_files import JournalPlace, JournalReader, file_numbers, file_path
from engine.store.journal_frames import FRAME, frame, join_frames, read_frames
from engine.store.pool import Pool

__all__ = ["FRAME", "Journal", "JournalEntry", "JournalPart", "JournalPlace", "Reread"]

COMPACT_BYTES = 16 * 1024 * 1024
COMPACT_CHECK_S = 1.0
NEVER = 1 << 62
# What the encoder raises for a number of more than 64 bits, or a text with a lone surrogate.
UNWRITABLE = (OverflowError, UnicodeError, TypeError, msgspec.MsgspecError)

Flushed = Callable[[Exception | None], None]


class Reread(JournalEntry, frozen=True, tag="reread", array_like=True):
    """The log was read again from `start` on: changes before this that follow from later records
    were made anew, or never happened. What the journal has lost lies before this, too.
    """

    start: int


Check = Callable[[Any], None]


def _no_change(entry: Predecessor) -> None:
    """It tells of files."""


def _check_predecessor(entry: Predecessor) -> None:
    check_number("size_bytes", entry.size_bytes)


def _is_legal(entry: JournalEntry) -> None:
    """For a part whose entries can be applied in any state, whatever they hold."""


class JournalPart:
    """An owner of state in the journal: its entry types, their application, its snapshot."""

    def __init__(
        self,
        entry_types: Iterable[type[JournalEntry]],
        apply: Callable[[Any], None],
        snapshot: Callable[[], Iterable[JournalEntry]],
        checks: Mapping[type[JournalEntry], Check],
    ) -> None:
        self.entry_types = tuple(entry_types)
        self.apply = apply
        self.snapshot = snapshot
        self.checks = checks


class Journal(Service):
    """`append` is for changes after `load`; parts register before it."""

    name = "journal"

    def __init__(
        self,
        files: Files,
        directory: Path,
        pool: Pool,
        compact_bytes: int = COMPACT_BYTES,
        *,
        damage_log: DamageLog | None = None,
    ) -> None:
        super().__init__()
        self._files = files
        self._damage_log = damage_log or DamageLog(files, directory)
        self._directory = directory
        self._pool = pool
        self._compact_bytes = compact_bytes
        self._damage_log = damage_log or DamageLog(files, directory)
        self._parts: list[JournalPart] = []
        self._checks: dict[type[JournalEntry], Callable[[Any], None]] = {Reread: _check_reread}
        self.register((Predecessor,), _no_change, lambda: (), _check_predecessor)
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
        self.synced: JournalPlace | None = None  # was on the disk at the last checkpoint
        self.stopped: JournalPlace | None = None  # the end that a clean stop left
        # Loading found damage: gives the position from which on the log is read again for it.
        self.distrust: Callable[[], int] = lambda: self.trusted
        self.is_damaged = False
        self.has_gap = False  # what a start applies now lies behind changes that are lost
        self._applied = 0  # entries, when the journal was loaded
        self._has_left_out = False  # entries that follow from records which are lost
        self._has_refused = False  # what is set aside or stepped over is not in the next snapshot
        self._is_renewed = False  # a new snapshot is wanted whatever the size
        self.before_reread: Callable[[int], None] = lambda start: None  # of a copy
        self.kept_snapshot = 0  # number of the newest one that was written here since the start
        self.is_keeping = False  # something of the leader's is on its way to the disk
        self.is_copy = False  # of a leader's: `append_copy` alone writes
        self.refusal: Callable[[], EngineError] | None = None  # while changes are held back
        self._is_pinned = False  # what could not be set aside must not go with the old files

    def register(
        self,
        entry_types: Iterable[type[JournalEntry]],
        apply: Callable[[Any], None],
        snapshot: Callable[[], Iterable[JournalEntry]],
        check: Check | Mapping[type[JournalEntry], Check] = _is_legal,
    ) -> None:
        """Add a part; its `snapshot` entries, applied to an empty part, must rebuild its state.

        `check`, or one for each type, raises Illegal for an entry that the state does not allow,
        and changes nothing. What it lets pass `apply` must be able to apply without fail.
        """
        kinds = tuple(entry_types)
        checks = check if isinstance(check, Mapping) else dict.fromkeys(kinds, check)
        self._parts.append(JournalPart(kinds, apply, snapshot, checks))
        self._checks.update(checks)

    def load(self) -> int:
        """Apply what was kept; returns how many entries were.

        What is damaged is stepped over and reported; Corrupt where that would lose all before it.
        """
        self._files.make_directory(self._directory)
        reader = JournalReader(
            self._files,
            self._directory,
            self._damage_log,
            synced=self.synced,
            stopped=self.stopped,
        )
        contents = reader.read()
        if contents.is_damaged and self.is_copy:
            raise Corrupt(
                "the copy of the leader's journal is damaged",
                field="data",
                remedy="move the data directory away: an empty one is filled anew",
            )
        if self.is_copy:  # the leader has the records that a power loss may have taken here
            self.trusted = NEVER
        if contents.is_damaged:
            self.is_damaged = self._has_refused = True
            self.trusted = min(self.trusted, self.distrust())
        applied = self._apply(contents.frames)
        self._sync_before(contents.number)
        self._open(contents.number)
        if (self._has_left_out or contents.is_damaged) and not self.is_copy:
            self.append(Reread(self.trusted), is_owed=True)  # else a full disk would stop the start
        return applied

    @property
    def place(self) -> JournalPlace:
        """End of the journal."""
        return JournalPlace(self._number, self._size)

    def append(
        self, entry: JournalEntry, *, is_lasting: bool = False, is_owed: bool = False
    ) -> None:
        """Keep one change; in the page cache when this returns. DiskFull or Corrupt: it is not.

        Raises Illegal for one that the state does not allow, also an owed one: nothing has changed.
        A change that `is_lasting` is on disk before any message flushed after it is said to be.
        One that `is_owed` follows from a record that the log already has: no full disk refuses it
        any more. It waits for room, and no checkpoint moves over that record.
        """
        if self.is_copy or not is_owed:  # an owed one belongs to what the log has already
            self.check_leader()
        self._checks[type(entry)](entry)
        try:
            payload = self._encode(entry)
        except UNWRITABLE as error:
            raise _unwritable(entry, error) from error
        self._write(frame(payload), is_owed=is_owed)
        if is_lasting:
            self._must_sync = True

    def append_all(self, entries: Iterable[JournalEntry], *, is_lasting: bool = False) -> None:
        """Keep several changes with one write, so that a refusal leaves none of them.

        Each is checked against the state before all of them: none may depend on another.
        """
        self.check_leader()
        frames: list[bytes] = []
        for entry in entries:
            self._checks[type(entry)](entry)
            try:
                frames.append(self._frame(entry))
            except UNWRITABLE as error:
                raise _unwritable(entry, error) from error
        data = b"".join(frames)
        if data:
            self._write(data)
        if is_lasting:
            self._must_sync = True

    def check_leader(self) -> None:
        """Raise OnStandby where every change has to come from the leader, or the refusal."""
        if self.is_copy:
            raise OnStandby
        if self.refusal is not None:
            raise self.refusal()

    def append_copy(self, data: bytes) -> list[JournalEntry]:
        """Keep frames as a leader wrote them, all whole, and apply them; their entries, in order.

        Corrupt for damage, and for an entry that this state does not allow; then the frames before
        it are kept. After a `Reread` nothing is applied: the state is to be loaded anew.
        """
        assert self.is_copy
        frames = read_frames(data)
        if frames.gaps or frames.end != len(data):
            raise Corrupt("a change of the leader's is damaged")
        start = self._size
        entries: list[JournalEntry] = []
        try:
            changes = [(at, self._read(payload)) for at, payload in frames.payloads]
            for _, entry in changes:
                if isinstance(entry, Reread):
                    self.before_reread(entry.start)
            self._write(data)
            for at, entry in changes:
                start = self._size - len(data) + at
                self._checks[type(entry)](entry)
                entries.append(entry)
                if isinstance(entry, Reread):
                    break
                self._owners[type(entry)](entry)
        except Illegal as error:
            self._cut(start)
            raise Corrupt(
                f"a change of the leader's does not fit: {reason_of(error)}",
                remedy="give both the same version; else move this data directory away, so "
                "that an empty one is filled anew",
            ) from error
        self._must_sync = True
        return entries

    def roll_copy(self) -> None:
        """Go on in the next file, as the leader did; its snapshot comes once the leader has it.

        `is_keeping` until what came before is on the disk: a loss of power that took the end of a
        file and left the next one would go unseen. `failure` says why it is not.
        """
        assert self.is_copy
        assert self._file is not None
        before = self._file
        self._open(self._number + 1)
        self._older.append(before)
        self.is_keeping, self.failure = True, ""
        unsynced = self.take_unsynced()

        def sync() -> None:
            for each in unsynced:
                sync_if_open(each)

        def synced(_: None, error: Exception | None) -> None:
            self.is_keeping = False
            if error is not None:
                self.failure = f"the journal is not on the disk: {error}"
                self.give_back()

        self._pool.submit(sync, synced)

    def keep_snapshot(self, number: int, snapshot: bytes) -> None:
        """Write a snapshot of the leader's with which a file so far begins, in the pool.

        `is_keeping` until it is there: no change behind it may be applied before. `failure` says
        why it is not.
        """
        assert self.is_copy
        self.is_keeping, self.failure = True, ""
        older = self._older.copy()

        def written(_: None, error: Exception | None) -> None:
            self.is_keeping = False
            if error is not None:
                self.failure = f"snapshot not written: {error}"
                return
            self._older = [file for file in self._older if file not in older]
            for file in older:
                file.close()

        self._pool.submit(lambda: self._write_snapshot(number, snapshot, older), written)

    def tick(self) -> float:
        """Start a new journal with a snapshot when the current one has grown."""
        if self.is_copy:
            return COMPACT_CHECK_S
        if self._owed:
            self._write(b"")
        is_due = self._size >= self._base_size + self._compact_bytes
        is_due |= self._has_refused or self._is_renewed
        if is_due and not self._compacting and not self._is_pinned:
            self.compact()
        return COMPACT_CHECK_S

    def renew(self) -> None:
        """Begin anew with a snapshot soon: somebody cannot go on with the files there are."""
        self._is_renewed = True

    @property
    def is_behind(self) -> bool:
        """Whether changes that are in force could not be written yet."""
        return bool(self._owed)

    def compact(self) -> None:
        """Snapshot now; the file work goes to the pool. A crash in between reads the old ones.

        The log is flushed first: what the snapshot holds may follow from its last records. The
        snapshot before this one stays, with the journals that lead from it to this one.
        """
        assert self._file is not None
        snapshot = self._snapshot_bytes()
        older_file, begin = self._file, frame(self._encode(Predecessor(self._size)))
        self._open(self._number + 1)  # where no file can be opened, nothing has begun
        if not self._owed:
            self._write(begin, is_owed=True)
        self._has_refused = self._is_renewed = False
        self._older.append(older_file)
        older = list(self._older)
        self._base_size = 0
        self._compacting = True
        number = self._number

        def flushed(error: Exception | None) -> None:
            if error is None:
                self._pool.submit(
                    lambda: self._write_snapshot(number, snapshot, older), self._compacted
                )
            else:
                self._compacted(None, error)

        self.when_flushed(flushed)

    def take_unsynced(self) -> list[Syncable]:
        """What a checkpoint has to bring to disk before it moves on."""
        files: list[Syncable] = [*self._older]
        if self._file is not None:
            files.append(self._file)
        if self._has_new_name:
            files.append(DirectoryNames(self._files, self._directory))
        self._has_new_name = False
        return files

    def give_back(self) -> None:
        """It could not be synced: the next caller of `take_unsynced` has to do it."""
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

    def give_back_lasting(self) -> None:
        """What `take_lasting` gave could not be synced: its next caller has to do it."""
        self._must_sync = True
        self.give_back()

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
        return frame(self._encode(entry))

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
            if error.errno in PASSING_ERRORS:
                raise out_of_memory(error) from error
            raise Corrupt(
                f"progress cannot be written: {error}", remedy="free some disk, then restart"
            ) from error
        self._size += len(data)
        self._owed = b""

    def entries(self) -> Iterator[JournalEntry]:
        """What a snapshot of the state now consists of."""
        for part in self._parts:
            yield from part.snapshot()

    def _snapshot_bytes(self) -> bytes:
        return join_frames(map(self._encode, self.entries()))

    def _write_snapshot(self, number: int, snapshot: bytes, older: Sequence[File]) -> None:
        for file in older:  # a power loss must leave the older generation whole
            sync_if_open(file)
        write_atomic(self._files, self._path("snapshot", number), snapshot)
        self.kept_snapshot = number
        self._remove_stale(number)

    def _remove_stale(self, number: int) -> None:
        """Remove what lies before the snapshot that came before this one, the oldest first."""
        snapshots = file_numbers(self._files, self._directory, "snapshot")
        previous = max((each for each in snapshots if each < number), default=0)
        for kind in ("journal", "snapshot"):
            for each in file_numbers(self._files, self._directory, kind):
                if each < previous:
                    self._files.remove(self._path(kind, each))

    def _apply(self, frames: Sequence[JournalFrame]) -> int:
        """Apply what counts and can be applied, set aside what cannot; how many were applied."""
        refused = self.examine(frames)
        if refused:
            self._has_refused = True
            self._is_pinned = not set_aside(refused, self._damage_log)
        return self._applied

    def examine(self, frames: Sequence[JournalFrame]) -> list[RefusedFrame]:
        """Apply to the parts what counts and can be applied; what cannot. Touches no file."""
        owners, refused = self._owners, list[RefusedFrame]()
        gaps, self._applied = deque(gaps_in(frames)), 0
        for number, entry in self._counting(frames, refused):
            while gaps and gaps[0] <= number:
                gaps.popleft()
                self.has_gap = True
            if isinstance(entry, Reread):  # by a start that knew of the gap
                self.has_gap = False
                continue
            try:
                self._checks[type(entry)](entry)
            except Illegal as error:
                refused.append(RefusedFrame(frames[number], reason_of(error)))
            else:
                owners[type(entry)](entry)
                self._applied += 1
        self.has_gap = False
        return sorted(refused, key=lambda each: (each.frame.file, each.frame.at))

    def _counting(
        self, frames: Sequence[JournalFrame], refused: list[RefusedFrame]
    ) -> Iterable[tuple[int, JournalEntry]]:
        """The entries that count, in order, with the numbers of their frames, and each `Reread`.

        What cannot be read is added to `refused`.
        """
        read = self._read
        counting: list[tuple[int, JournalEntry]] = []
        trusted = self.trusted
        for number in reversed(range(len(frames))):
            try:
                entry = read(frames[number].payload)
            except Illegal as error:
                refused.append(RefusedFrame(frames[number], reason_of(error)))
                continue
            if isinstance(entry, Reread):
                trusted = min(trusted, entry.start)
            if entry.follows <= trusted:
                counting.append((number, entry))
            else:
                self._has_left_out = True
        return reversed(counting)

    @cached_property
    def _owners(self) -> dict[type[JournalEntry], Callable[[Any], None]]:
        """By type of entry what applies it, once every part is registered."""
        return {kind: part.apply for part in self._parts for kind in part.entry_types}

    @cached_property
    def _read(self) -> Callable[[bytes], Any]:
        return EntryReader(self._checks).read

    def _sync_before(self, number: int) -> None:
        """Bring the files before this one to the disk, where a killed process may not have."""
        for each in file_numbers(self._files, self._directory, "journal"):
            if each < number:
                file = self._files.open(self._path("journal", each))
                file.sync()
                file.close()

    def _cut(self, size: int) -> None:
        assert self._file is not None
        self._file.truncate(size)
        self._size = size

    def _open(self, number: int) -> None:
        file = self._files.open(self._path("journal", number), create=True)
        self._number = number
        self._file = file
        self._size = file.size()
        self._has_new_name = True

    def _path(self, kind: str, number: int) -> Path:
        return file_path(self._directory, kind, number)


def _unwritable(entry: JournalEntry, error: Exception) -> Illegal:
    return Illegal(f"{type(entry).__name__} cannot be written: {error}")


def _check_reread(entry: Reread) -> None:
    if entry.start < 0:
        raise Illegal(f"the log begins at 0, not at {entry.start}")
