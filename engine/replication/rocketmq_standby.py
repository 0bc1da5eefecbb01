"""A standby of an Apache RocketMQ master: its log byte for byte, and its tables by value.

The master gives bytes of the log, without CRCs or cuts, and tables. Every whole record is readable
at once; bytes that are no record are refused, as they may have been damaged on their way.
"""

from collections.abc import Iterator

from engine.errors import Corrupt
from engine.handover.master_tables import MasterMatch, MasterState, TableFiles
from engine.replication.cursor import ANEW
from engine.replication.pieces import TAIL_BYTES, LogPiece, Piece, ReplicaCut
from engine.replication.sink import StandbySink, refused_by_disk
from engine.replication.standby import Standby
from engine.store.checkpoint import NEVER

PART_BYTES_MAX = 64 * 1024 * 1024  # of a record whose end has not come


class RocketmqSink(StandbySink):
    """Takes pieces of the log alone; `oldest` is where the master's begins."""

    match: MasterMatch
    oldest = 0

    def _take(self, piece: Piece) -> None:
        assert isinstance(piece, LogPiece)
        self._take_log(piece)
        if len(self._record) > PART_BYTES_MAX:
            raise Corrupt(f"no record ends within {PART_BYTES_MAX} bytes", remedy=ANEW)
        self.show_all()

    def show_all(self) -> None:
        """Begin to make readable what is not yet; go on with `show` while `is_busy`."""
        store = self._store
        self._cut = ReplicaCut(store.written, store.journal.place, self.oldest, NEVER)
        self.show()

    def _show_records(self, end: int) -> bool:
        is_whole = self._store.show_copies(end, self.match.owns)
        return not self.match.settle() and is_whole


class RocketmqStandby(Standby):
    """Owned by one thread; fed with `take` and `apply`."""

    is_rocketmq = True

    @property
    def overlap(self) -> int:
        """From where the master's bytes have to come: the last that are here are compared."""
        store = self.parts.store
        segment = max(store.written - 1, 0) // store.segment_bytes * store.segment_bytes
        return max(segment, store.written - TAIL_BYTES, 0)

    def apply(self, state: MasterState) -> Iterator[None]:
        """Take over the master's tables, in slices; DiskFull: begin again with the next ones.

        The log has to reach as far as the master's did when it gave them.
        """
        with refused_by_disk():
            yield from self._match.steps(state)
            self._sink.show_all()

    def expire(self, position: int) -> None:
        """Delete what the master's retention has deleted, which begins at `position`."""
        self._sink.oldest = position
        self.parts.store.expire(position)

    def _open(self) -> None:
        super()._open()
        self.table_files = TableFiles(self._files, self._config.data)

    def _new_sink(self, *, wants_snapshot: bool = False) -> RocketmqSink:
        parts = self.parts
        self._match = MasterMatch(parts.store, parts.catalog, parts.delivery)
        self._sink: RocketmqSink = RocketmqSink(
            parts.store, parts.catalog, parts.retention, self._files, self._config.data
        )
        self._sink.match = self._match
        return self._sink
