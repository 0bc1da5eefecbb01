"""A leader's side: what a standby lacks, piece by piece, from where it is.

Memory is bounded by one piece. Reads come from the page cache, or wait for the disk where a
standby is far behind; the leader goes on writing between any two pieces.
"""

from pathlib import Path
from zlib import crc32

from engine.errors import Conflict
from engine.replication.pieces import (
    JournalPiece,
    LogPiece,
    Piece,
    ReplicaCut,
    SnapshotPiece,
    StandbyState,
)
from engine.store.files import Files
from engine.store.journal import JournalPlace
from engine.store.journal_files import file_numbers, file_path
from engine.store.store import Store

PIECE_BYTES = 256 * 1024
ANEW = "move the standby's data directory away: an empty one is filled anew"


class LeaderCursor:
    """One standby's place in the leader's log and journal."""

    def __init__(self, store: Store, files: Files, data: Path, standby: StandbyState) -> None:
        """`data` is the leader's directory; Conflict where the standby's is no copy of it."""
        self._store = store
        self._files = files
        self._directory = data / "config"
        self._log = standby.log_end
        self._journal = standby.journal
        self._target: ReplicaCut | None = None
        self._last_cut: ReplicaCut | None = None
        self._snapshot: tuple[int, int] | None = None  # number, and how much of it was given
        self._snapshot_given = standby.snapshot
        self._check(standby)
        if not self._log:
            self._log = store.oldest_base
        if standby.wants_snapshot and not self._begin_snapshot():
            store.journal.renew()

    @property
    def lag_bytes(self) -> int:
        """How much of the log the standby was not given yet."""
        return self._store.written - self._log

    def next(self, size_max: int = PIECE_BYTES) -> Piece | None:
        """The next piece, of at most `size_max` bytes; None when there is nothing to give now.

        Conflict where retention has taken what the standby lacks.
        """
        if self._snapshot is not None:
            return self._next_of_snapshot(size_max)
        target = self._target or self._cut()
        if target == self._last_cut:
            return None
        self._target = target
        if self._log < target.log_end:
            return self._next_of_log(min(size_max, target.log_end - self._log))
        # Before more of the journal: a `Reread` there does not mean what this snapshot has.
        number = self._journal.number
        if self._snapshot_given < number and self._begin_snapshot(number):
            return self._next_of_snapshot(size_max)
        if self._journal != target.journal:
            return self._next_of_journal(target.journal, size_max)
        self._target, self._last_cut = None, target
        return target

    def _cut(self) -> ReplicaCut:
        store = self._store
        return ReplicaCut(store.written, store.journal.place, store.oldest_base, store.crc_since)

    def _next_of_log(self, size_max: int) -> LogPiece:
        position, data = self._log, self._store.read_log(self._log, size_max)
        if not data:
            raise Conflict(
                f"the leader's log begins at {self._store.oldest}, the standby's ends at "
                f"{position}: retention took what lay between",
                remedy=ANEW,
            )
        self._log += len(data)
        return LogPiece(position, data, crc32(data))

    def _next_of_journal(self, end: JournalPlace, size_max: int) -> Piece:
        number, at = self._journal
        if number == end.number:
            size_max = min(size_max, end.size_bytes - at)
        try:
            data = self._read("journal", number, at, size_max)
        except FileNotFoundError:  # it became needless by a snapshot
            if self._begin_snapshot():
                return self._next_of_snapshot(size_max)
            raise Conflict("the leader's journal has a hole", remedy=ANEW) from None
        if not data:
            self._journal = JournalPlace(number + 1, 0)
            return JournalPiece(*self._journal, b"", 0)
        self._journal = JournalPlace(number, at + len(data))
        return JournalPiece(number, at, data, crc32(data))

    def _begin_snapshot(self, number_max: int | None = None) -> bool:
        """Whether the newest snapshot is one that the standby has not; it is given next then."""
        numbers = file_numbers(self._files, self._directory, "snapshot")
        if not numbers or numbers[-1] <= self._snapshot_given:
            return False
        if number_max is not None and numbers[-1] > number_max:
            return False
        self._snapshot = numbers[-1], 0
        return True

    def _next_of_snapshot(self, size_max: int) -> Piece:
        assert self._snapshot is not None
        number, at = self._snapshot
        try:
            data = self._read("snapshot", number, at, size_max + 1)
        except FileNotFoundError:  # there is a newer one
            self._begin_snapshot()
            number, at = self._snapshot
            data = self._read("snapshot", number, at, size_max + 1)
        is_last, data = len(data) <= size_max, data[:size_max]
        self._snapshot = None if is_last else (number, at + len(data))
        if is_last:
            self._snapshot_given = number
            self._journal = max(self._journal, JournalPlace(number, 0))
        return SnapshotPiece(number, at, data, crc32(data), is_last)

    def _read(self, kind: str, number: int, at: int, size_max: int) -> bytes:
        file = self._files.open(file_path(self._directory, kind, number))
        try:
            return file.pread(size_max, at)
        finally:
            file.close()

    def _check(self, standby: StandbyState) -> None:
        store = self._store
        if standby.segment_bytes != store.segment_bytes:
            raise Conflict(
                f"the standby's segments have {standby.segment_bytes} bytes, the leader's "
                f"{store.segment_bytes}",
                field="segment_bytes",
                remedy="start the standby with the leader's segment_bytes",
            )
        if standby.log_end > store.written:
            raise Conflict(
                f"the standby's log ends at {standby.log_end}, the leader's at {store.written}: "
                "it has what the leader has not",
                remedy=ANEW,
            )
        self._check_log_tail(standby)
        self._check_journal_tail(standby)

    def _check_log_tail(self, standby: StandbyState) -> None:
        start = standby.log_end - standby.log_tail_bytes
        tail = self._store.read_log(start, standby.log_tail_bytes)
        is_kept = start >= self._store.oldest_base
        if standby.log_tail_bytes and is_kept and crc32(tail) != standby.log_tail_crc:
            raise Conflict(f"the logs differ before {standby.log_end}", remedy=ANEW)

    def _check_journal_tail(self, standby: StandbyState) -> None:
        number, end = standby.journal
        size = standby.journal_tail_bytes
        is_ahead = standby.journal > self._store.journal.place
        try:
            tail = self._read("journal", number, end - size, size) if size else b""
        except FileNotFoundError:
            if not is_ahead:  # an older one, which a snapshot made needless
                return
            tail = b""
        if is_ahead or len(tail) != size or crc32(tail) != standby.journal_tail_crc:
            raise Conflict(f"the journals differ before {end} of file {number}", remedy=ANEW)
