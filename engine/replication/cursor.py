"""A leader's side: what a standby lacks, piece by piece, from where it is.

Memory is bounded by one piece. The owner's thread looks where log and journal end (`plan`); what
may wait for the disk (`check`, `read`) touches files alone, so that another thread can run it.
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
from engine.store.commit_log import NAME_DIGITS
from engine.store.files import Files
from engine.store.journal import JournalPlace
from engine.store.journal_files import file_numbers, file_path
from engine.store.store import Store

PIECE_BYTES = 256 * 1024
NEWEST = 1 << 62
ANEW = "move the standby's data directory away: an empty one is filled anew"


class LogFiles:
    """A log as its files, read on any thread."""

    def __init__(self, files: Files, data: Path, segment_bytes: int) -> None:
        self._files = files
        self._directory = data / "commitlog"
        self.segment_bytes = segment_bytes

    def read(self, position: int, size_max: int) -> bytes:
        """Bytes of one segment from `position`; empty where its file is gone."""
        at = position % self.segment_bytes
        try:
            file = self._files.open(self._directory / f"{position - at:0{NAME_DIGITS}d}")
        except FileNotFoundError:
            return b""
        try:
            return file.pread(min(size_max, self.segment_bytes - at), at)
        finally:
            file.close()


class LogCursor:
    """A place in the leader's log alone, for a slave of RocketMQ; `position` is where it goes on.

    As Apache's broker does it: a slave that has nothing begins with the last segment.
    """

    def __init__(self, store: Store, files: Files, data: Path, position: int) -> None:
        """Conflict where the slave has more than the leader."""
        if position > store.written:
            raise Conflict(f"its log ends at {position}, the leader's at {store.written}")
        end = store.written
        self._store = store
        self._log = LogFiles(files, data, store.segment_bytes)
        self._end = end
        self.position = position or end - end % store.segment_bytes

    def plan(self) -> bool:
        """Look how far the log goes by now; whether there is something to read."""
        self._end = self._store.written
        return self._end > self.position

    def read(self, size_max: int) -> tuple[int, bytes]:
        """The next bytes and their position, on any thread; Conflict where retention took them."""
        position = self.position
        data = self._log.read(position, min(size_max, self._end - position))
        if not data:
            raise Conflict(f"the leader's log has nothing at {position} any more")
        self.position += len(data)
        return position, data


class LeaderCursor:
    """One standby's place in the leader's log and journal; one thread at a time may use it."""

    def __init__(self, store: Store, files: Files, data: Path, standby: StandbyState) -> None:
        """`data` is the leader's directory; `check` says whether the standby's is a copy of it."""
        self._store = store
        self._files = files
        self._directory = data / "config"
        self._standby = standby
        self._log = standby.log_end
        self._journal = standby.journal
        self._target: ReplicaCut | None = None
        self._last_cut: ReplicaCut | None = None
        self._snapshot: tuple[int, int] | None = None  # number, and how much of it was given
        self._snapshot_given = standby.snapshot
        self._start = self._cut()
        self._log_files = LogFiles(files, data, store.segment_bytes)

    def check(self) -> None:
        """Read the ends of both, before the first piece: Conflict where they are no copies."""
        self._check(self._standby)
        if not self._log:
            self._log = self._start.oldest
        if self._standby.wants_snapshot and not self._begin_snapshot():
            self._store.journal.renew()

    @property
    def position(self) -> int:
        """How far of the log the standby was given."""
        return self._log

    @property
    def lag_bytes(self) -> int:
        """How much of the log the standby was not given yet."""
        return self._store.written - self._log

    def next(self, size_max: int = PIECE_BYTES) -> Piece | None:
        """`plan` and `read` at once, on the owner's thread; None when there is nothing to give."""
        return self.read(size_max) if self.plan() else None

    def plan(self) -> bool:
        """Look how far log and journal go by now; whether there is a piece to read."""
        if self._snapshot is None and self._target is None:
            if self._store.journal.is_behind:
                # At a cut without a change that the log has already, it would be made again.
                return False
            target = self._cut()
            has_snapshot = self._snapshot_given >= self._store.journal.kept_snapshot
            if target == self._last_cut and has_snapshot:
                return False
            self._target = target
        return True

    def read(self, size_max: int = PIECE_BYTES) -> Piece:
        """The next piece, of at most `size_max` bytes, after a `plan` that was true.

        Conflict where retention has taken what the standby lacks.
        """
        if self._snapshot is not None:
            return self._next_of_snapshot(size_max)
        target = self._target
        assert target is not None
        if self._log < target.log_end:
            return self._next_of_log(min(size_max, target.log_end - self._log))
        # Before more of the journal: a `Reread` there does not mean what this snapshot has.
        number_max = self._journal.number
        if self._journal == JournalPlace(0, 0):
            # The journal of a leader that has been a standby may begin with a snapshot.
            number_max = NEWEST
        if self._snapshot_given < number_max and self._begin_snapshot(number_max):
            return self._next_of_snapshot(size_max)
        if self._journal != target.journal:
            return self._next_of_journal(target.journal, size_max)
        self._target, self._last_cut = None, target
        return target

    def _cut(self) -> ReplicaCut:
        store = self._store
        return ReplicaCut(store.written, store.journal.place, store.oldest_base, store.crc_since)

    def _next_of_log(self, size_max: int) -> LogPiece:
        position, data = self._log, self._log_files.read(self._log, size_max)
        if not data:
            raise Conflict(
                f"the standby's log ends at {position}, where the leader's has nothing any more: "
                "retention took what lay between",
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

    def _begin_snapshot(self, number_max: int = NEWEST) -> bool:
        """Whether the newest snapshot is one that the standby has not; it is given next then."""
        numbers = file_numbers(self._files, self._directory, "snapshot")
        if not numbers or not self._snapshot_given < numbers[-1] <= number_max:
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
        if standby.segment_bytes != self._log_files.segment_bytes:
            raise Conflict(
                f"the standby's segments have {standby.segment_bytes} bytes, the leader's "
                f"{self._log_files.segment_bytes}",
                field="segment_bytes",
                remedy="start the standby with the leader's segment_bytes",
            )
        if standby.log_end > self._start.log_end:
            raise Conflict(
                f"the standby's log ends at {standby.log_end}, the leader's at "
                f"{self._start.log_end}: it has what the leader has not",
                remedy=ANEW,
            )
        self._check_log_tail(standby)
        self._check_journal_tail(standby)

    def _check_log_tail(self, standby: StandbyState) -> None:
        start = standby.log_end - standby.log_tail_bytes
        tail = self._log_files.read(start, standby.log_tail_bytes)
        is_kept = start >= self._start.oldest
        if standby.log_tail_bytes and is_kept and crc32(tail) != standby.log_tail_crc:
            raise Conflict(f"the logs differ before {standby.log_end}", remedy=ANEW)

    def _check_journal_tail(self, standby: StandbyState) -> None:
        number, end = standby.journal
        size = standby.journal_tail_bytes
        is_ahead = standby.journal > self._start.journal
        try:
            tail = self._read("journal", number, end - size, size) if size else b""
        except FileNotFoundError:
            if not is_ahead:  # an older one, which a snapshot made needless
                return
            tail = b""
        if is_ahead or len(tail) != size or crc32(tail) != standby.journal_tail_crc:
            raise Conflict(f"the journals differ before {end} of file {number}", remedy=ANEW)
