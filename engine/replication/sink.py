"""A standby's side: writes what a leader's cursor gives, and makes it readable at each cut.

Changes are checked as they are applied; a gap, an overlap that differs and what was damaged on the
way are refused with Corrupt, and what was taken before stays. Where a standby goes
on after any end is what its log and its journal say, there is no mark beside them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from engine.errors import Busy, Corrupt
from engine.replication.cursor import ANEW
from engine.replication.pieces import (
    TAIL_BYTES,
    JournalPiece,
    LogPiece,
    Piece,
    ReplicaCut,
    SnapshotPiece,
    StandbyState,
)
from engine.retention.retention import RetentionService
from engine.retention.trims import Trimmed
from engine.store.commit_log import disk_full
from engine.store.files import DISK_FULL_ERRORS, Files, write_atomic
from engine.store.journal import JournalEntry, Reread
from engine.store.journal_files import file_numbers, file_path, is_whole_snapshot
from engine.store.journal_frames import complete_bytes, read_frames
from engine.store.store import Store
from engine.topic.catalog import Catalog, TopicDeleted

SNAPSHOT_BYTES_MAX = 1024 * 1024 * 1024


class StandbySink:
    """Takes pieces for a store that `Container.follow` opened.

    Once `must_reopen` is true the state in memory is not the directory's any more: close it, open
    it again with another sink, and begin with another cursor.
    """

    def __init__(
        self, store: Store, catalog: Catalog, retention: RetentionService, files: Files, data: Path
    ) -> None:
        """`data` is the standby's directory."""
        self._store = store
        self._catalog = catalog
        self._retention = retention
        self._files = files
        self._directory = data / "config"
        self._record = b""  # the beginning of a record
        self._change = b""  # the beginning of a frame
        self._snapshot = bytearray()
        self._has_trims = False
        self._is_kept_back = False  # until a snapshot, or a file of the journal, is on the disk
        self.must_reopen = False
        self.reread_start: int | None = None  # see `StoreCopy.reread_from`
        self._cut: ReplicaCut | None = None  # not all of its records can be read yet
        self.wants_snapshot = False  # what the journal had next could not be applied

    def state(self) -> StandbyState:
        """Where to go on, for a leader's cursor."""
        store, (number, size) = self._store, self._store.journal.place
        end = store.written
        segment_start = max(end - 1, 0) // store.segment_bytes * store.segment_bytes
        tail = store.read_log(max(segment_start, end - TAIL_BYTES, 0), TAIL_BYTES)
        journal_tail = self._journal_tail(number, size)
        return StandbyState(
            store.segment_bytes,
            end,
            store.journal.place,
            max(file_numbers(self._files, self._directory, "snapshot"), default=0),
            log_tail_bytes=len(tail),
            log_tail_crc=crc32(tail),
            journal_tail_bytes=len(journal_tail),
            journal_tail_crc=crc32(journal_tail),
            wants_snapshot=self.wants_snapshot,
        )

    @property
    def is_busy(self) -> bool:
        """Whether another piece has to wait: for the journal on its way to the disk, or `show`."""
        return self._cut is not None or self._store.journal.is_keeping

    def take(self, piece: Piece) -> None:
        """Write a piece. After Corrupt and DiskFull go on with another sink, and another cursor."""
        assert not self.must_reopen
        assert not self.is_busy
        with refused_by_disk():
            self._take(piece)

    def _take(self, piece: Piece) -> None:
        if not isinstance(piece, ReplicaCut) and crc32(piece.data) != piece.crc:
            raise Corrupt("a piece was damaged on its way")
        if self._is_kept_back and self._store.journal.failure:
            raise Busy(self._store.journal.failure)
        self._is_kept_back = False
        if isinstance(piece, LogPiece):
            self._take_log(piece)
        elif isinstance(piece, JournalPiece):
            self._take_journal(piece)
        elif isinstance(piece, SnapshotPiece):
            self._take_snapshot(piece)
        else:
            self._take_cut(piece)

    # -- the log ------------------------------------------------------------------------------

    def _take_log(self, piece: LogPiece) -> None:
        store = self._store
        if not store.written and not self._record and piece.position:
            if piece.position % store.segment_bytes:
                raise Corrupt(f"no segment of the log begins at {piece.position}")
            store.begin_at(piece.position)
        end = store.written + len(self._record)
        if piece.position > end:
            raise Corrupt(f"the log ends at {end}, what comes begins at {piece.position}")
        if self._record and piece.position == end and not end % store.segment_bytes:
            self._store_records(is_all=True)  # the last record of a segment is damaged
            end = store.written
        overlap = piece.data[: end - piece.position]
        own = store.read_log(piece.position, min(len(overlap), store.written - piece.position))
        begin = max(0, piece.position - store.written)
        own += self._record[begin : begin + len(overlap) - len(own)]
        if overlap != own:
            raise Corrupt(f"the leader has other bytes at {piece.position}", remedy=ANEW)
        self._record += piece.data[len(overlap) :]
        self._store_records(is_all=False)

    def _store_records(self, *, is_all: bool) -> None:
        taken = self._store.append_copy(self._record, is_all=is_all)
        self._record = self._record[taken:]
        if taken and not self._store.written % self._store.segment_bytes:
            self._record = self._after_blank(self._record)

    def _after_blank(self, rest: bytes) -> bytes:
        """Behind a blank record's head there are zeros up to the segment's end."""
        if rest.strip(b"\0"):
            raise Corrupt(f"there are bytes before {self._store.written}, behind a blank record")
        return b""

    # -- the journal --------------------------------------------------------------------------

    def _journal_tail(self, number: int, size: int) -> bytes:
        file = self._files.open(file_path(self._directory, "journal", number))
        try:
            start = max(0, size - TAIL_BYTES)
            return file.pread(size - start, start)
        finally:
            file.close()

    def _take_journal(self, piece: JournalPiece) -> None:
        number, size = self._store.journal.place
        if (piece.number, piece.at, piece.data) == (number + 1, 0, b"") and not self._change:
            self._is_kept_back = True
            self._store.journal.roll_copy()
            return
        size += len(self._change)
        if (piece.number, piece.at) != (number, size):
            raise Corrupt(
                f"the journal ends at {size} of file {number}, what comes begins at {piece.at} of "
                f"file {piece.number}"
            )
        data = self._change + piece.data
        whole = complete_bytes(data)
        self._change = b""
        try:
            entries = self._store.journal.append_copy(data[:whole])
        except Corrupt:
            self.wants_snapshot = True
            raise
        for entry in entries:
            self._applied(entry)
        self._change = data[whole:]

    def _applied(self, entry: JournalEntry) -> None:
        """What a change means for the store, beside the part that has it now."""
        if isinstance(entry, TopicDeleted):
            self._store.delete_topic(entry.name)
        elif isinstance(entry, Trimmed):
            self._has_trims = True
        elif isinstance(entry, Reread):  # what was applied before may never have happened
            self.must_reopen, self.reread_start = True, entry.start

    def _take_snapshot(self, piece: SnapshotPiece) -> None:
        if piece.at == 0:
            self._snapshot.clear()
        if piece.at != len(self._snapshot) or piece.at + len(piece.data) > SNAPSHOT_BYTES_MAX:
            raise Corrupt(f"the snapshot goes on at {piece.at}, not at {len(self._snapshot)}")
        self._snapshot += piece.data
        if not piece.is_last:
            return
        snapshot = bytes(self._snapshot)
        self._snapshot.clear()
        if not is_whole_snapshot(read_frames(snapshot)):
            raise Corrupt("the leader's snapshot of the journal is damaged")
        if piece.number <= self._store.journal.place.number and not self.wants_snapshot:
            self._is_kept_back = True
            self._store.journal.keep_snapshot(piece.number, snapshot)
            return
        write_atomic(self._files, file_path(self._directory, "snapshot", piece.number), snapshot)
        for number in file_numbers(self._files, self._directory, "journal"):
            if number < piece.number:  # it does not lead to the snapshot
                self._files.remove(file_path(self._directory, "journal", number))
        self.must_reopen = True

    # -- both ---------------------------------------------------------------------------------

    def _take_cut(self, cut: ReplicaCut) -> None:
        store = self._store
        if self._record:
            self._store_records(is_all=True)
        if self._change:
            self.wants_snapshot = True
            raise Corrupt("the leader's journal ends with a damaged change")
        if store.written != cut.log_end:
            raise Corrupt(f"the leader's log ends at {cut.log_end}, the copy at {store.written}")
        if store.journal.place != cut.journal:
            raise Corrupt(f"the leader's journal ends at {cut.journal}")
        store.trust_crcs_from(cut.crc_since)
        self._cut = cut
        self.show()

    def show(self) -> None:
        """Make the next records readable, while `is_busy`; DiskFull: call it again."""
        cut, store = self._cut, self._store
        if cut is None:
            return
        with refused_by_disk():
            if not self._show_records(cut.log_end):
                return
        self._cut = None
        if self._has_trims:
            self._retention.show_trims()
            self._has_trims = False
        store.expire(cut.oldest)

    def _show_records(self, end: int) -> bool:
        """Make the next ones readable; whether all before `end` are."""
        return self._store.show_copies(end, self._catalog.has)


@contextmanager
def refused_by_disk() -> Iterator[None]:
    """What a full disk refuses is DiskFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        raise disk_full(str(error)) from error
