"""A standby: the parts of an engine over a copy, opened, fed with pieces, and closed.

Opened by a broker in the usual way the same directory is a leader's that stopped without notice.
"""

from collections.abc import Callable

from engine.clock import Clock
from engine.config import EngineConfig
from engine.container import Container
from engine.errors import OnStandby, unusable
from engine.replication.epochs import EpochStart
from engine.replication.pieces import Piece, StandbyState
from engine.replication.sink import StandbySink, refused_by_disk
from engine.replication.tail import TailFile, cut_tail
from engine.service import ServiceRunner
from engine.store.files import Files, OsFiles, sync_if_open
from engine.store.journal import JournalPlace
from engine.store.pool import Pool


class Standby:
    """Owned by one thread; `tick`ed by it, as a broker is."""

    is_rocketmq = False  # of an Apache master

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        pool: Pool,
        files: Files | None = None,
        on_wake: Callable[[], None] = lambda: None,
        check_running: Callable[[], None] | None = None,
    ) -> None:
        """Open the directory; Busy and Corrupt as a broker's start.

        `check_running` refuses what would change something.
        """
        self._config, self._clock, self._pool = config, clock, pool
        self._files = files or OsFiles()
        self._on_wake = on_wake
        self._check_running = check_running or _refuse
        self.parts: Container
        self._sink: StandbySink
        self._cut: tuple[EpochStart, int] | None = None  # to be made, and the epoch before it
        self.tail: TailFile | None = None  # what the last cut has set aside
        self._open()

    @property
    def must_reopen(self) -> bool:
        """Whether `reopen` has to be called before the next piece."""
        return self._cut is not None or self._sink.must_reopen

    def cut(self, start: EpochStart, epoch: int) -> None:
        """Let `reopen` set aside what lies behind a start of the leader's, written in `epoch`."""
        self._cut = start, epoch

    @property
    def end(self) -> tuple[int, JournalPlace]:
        """Where log and journal end here."""
        store = self.parts.store
        return store.written, store.journal.place

    def state(self) -> StandbyState:
        """Where a leader's cursor has to begin."""
        return self._sink.state()

    def take(self, piece: Piece) -> None:
        """Write what the leader gives; see `StandbySink.take`."""
        self._sink.take(piece)

    @property
    def is_busy(self) -> bool:
        """Whether `show` has to be called, perhaps several times, before the next piece.

        It also waits for the pool, which brings the journal to the disk.
        """
        return self._sink.is_busy

    @property
    def is_waiting(self) -> bool:
        """Whether it is busy with the journal in the pool, so that `show` has nothing to do."""
        return self.parts.store.journal.is_keeping

    def show(self) -> None:
        """Make some more records of the last cut readable; DiskFull: call it again."""
        self._sink.show()

    def sync_work(self) -> Callable[[], None]:
        """What brings log and journal to the disk, to be called on any thread."""
        unsynced = self.parts.store.take_unsynced()

        def work() -> None:
            for each in unsynced:
                sync_if_open(each)

        return work

    def begin_again(self) -> None:
        """A connection was lost: forget the beginnings of what it did not give whole."""
        self._sink = self._new_sink(wants_snapshot=self._sink.wants_snapshot)

    def reopen(self) -> None:
        """Load the directory anew, the pool being idle; where that fails this standby is closed."""
        if self._sink.reread_start is not None:  # a checkpoint may have ended since
            with refused_by_disk():
                self.parts.store.reread_from(self._sink.reread_start)
        end, _ = self.end
        self.close()
        if self._cut is not None:
            with refused_by_disk():
                self._set_aside(*self._cut, end)
            self._cut = None
        self._open()

    def _set_aside(self, start: EpochStart, epoch: int, end: int) -> None:
        self.tail = cut_tail(
            self._files,
            self._config.data,
            start,
            epoch=epoch,
            log_end=end,
            now_ms=self._clock.now_ms(),
        )

    def tick(self) -> float:
        """Do the store's upkeep; seconds until the next call is useful, at most 5."""
        return self.runner.tick()

    def close(self) -> None:
        """Bring everything to disk and let go. The pool must be idle."""
        self.parts.store.stop_copy()

    def _open(self) -> None:
        self.parts = Container(
            self._config,
            clock=self._clock,
            pool=self._pool,
            files=self._files,
            check_running=self._check_running,
        )
        try:
            self.parts.follow(is_rocketmq=self.is_rocketmq)
        except OSError as error:
            self.parts.store.close()
            raise unusable(self._config.data, error) from error
        self.runner = ServiceRunner(self.parts.store.services(), self._clock, self._on_wake)
        self._sink = self._new_sink()

    def _new_sink(self, *, wants_snapshot: bool = False) -> StandbySink:
        parts = self.parts
        sink = StandbySink(
            parts.store, parts.catalog, parts.retention, self._files, self._config.data
        )
        sink.wants_snapshot = wants_snapshot
        return sink


def _refuse() -> None:
    raise OnStandby
