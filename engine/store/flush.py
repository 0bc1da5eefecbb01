"""Group commit: one sync of the log covers everything written before it began.

The sync runs in the pool; waiters are called on the owner's thread. While one sync runs, later
requests gather and share the next one. After a failed sync no sender learns that data is safe:
the log is refused for writing until a restart, because the kernel may have dropped the pages.
A sync that could not begin, because no file can be opened, has failed nothing: it is tried again.
"""

import logging
from collections.abc import Callable

from engine.errors import Corrupt, OutOfFiles
from engine.service import Service
from engine.store.commit_log import CommitLog
from engine.store.files import Syncable, sync_if_open
from engine.store.pool import Pool

log = logging.getLogger("kitemq.flush")

RETRY_S = 0.1  # while no file can be opened
PATIENCE_TICKS = 50  # of that; then waiting senders learn that it takes longer

Done = Callable[[Exception | None], None]


class Flusher(Service):
    """`flushed` is the position up to which the log is on the disk."""

    name = "flush"

    def __init__(
        self,
        log: CommitLog,
        pool: Pool,
        interval_s: float,
        on_flushed: Callable[[int], None],
        take_others: Callable[[], list[Syncable]],
        give_back_others: Callable[[], None],
    ) -> None:
        """`take_others` gives what else must be on disk before the log counts as flushed.

        `give_back_others` is called for what could not be synced yet.
        """
        super().__init__()
        self._log = log
        self._pool = pool
        self._interval_s = interval_s
        self._on_flushed = on_flushed
        self._take_others = take_others
        self._give_back_others = give_back_others
        self.flushed = 0
        self.broken: Corrupt | None = None
        self._running = False
        self._waiting: list[tuple[int, Done]] = []
        self._shortage: OutOfFiles | None = None
        self._short_ticks = 0

    def request(self, position: int, done: Done) -> None:
        """Call `done` once the log is on disk up to `position`; begins a sync if none runs."""
        if self.broken is not None:
            done(self.broken)
        elif position <= self.flushed:
            done(None)
        else:
            self._waiting.append((position, done))
            self._begin()

    def tick(self) -> float:
        """Bring what is only stored to disk, once in every interval."""
        if self._log.written > self.flushed:
            self._begin()
        if self._shortage is None:
            return self._interval_s
        self._short_ticks += 1
        if self._short_ticks >= PATIENCE_TICKS:
            self._short_ticks = 0
            self._tell_all(self._shortage)
        return RETRY_S

    def _begin(self) -> None:
        if self._running or self.broken is not None:
            return
        target = self._log.written
        others, files = self._take_others(), self._log.take_unsynced()
        self._running = True

        def work() -> int:
            for other in others:
                sync_if_open(other)
            for file in files:
                file.sync()
            return target

        self._pool.submit(work, self._finish)

    def _finish(self, target: int | None, error: Exception | None) -> None:
        self._running = False
        if isinstance(error, OutOfFiles):
            self._wait_for_files(error)
            return
        if error is not None or target is None:
            self._fail(error)
            return
        if self._shortage is not None:
            log.warning("the log is flushed again, files can be opened")
            self._shortage = None
        self.settle(target)
        if self._waiting:
            self._begin()

    def settle(self, position: int) -> None:
        """The log is on disk up to `position`: notify the senders that waited for it."""
        self.flushed = max(self.flushed, position)
        self._log.settle(self.flushed)
        self._on_flushed(self.flushed)
        waiting, self._waiting = self._waiting, []
        for position, done in waiting:
            if position <= self.flushed:
                done(None)
            else:
                self._waiting.append((position, done))

    def _fail(self, error: Exception | None) -> None:
        self.broken = Corrupt(
            f"the disk refused to flush the log: {error}",
            remedy="check the disk, then restart: what was not flushed is read back and checked",
        )
        self._log.mark_unsynced(self.flushed)
        self._tell_all(self.broken)

    def _wait_for_files(self, error: OutOfFiles) -> None:
        """What was taken is synced by a later try; senders go on waiting, for a while."""
        if self._shortage is None:
            log.warning("the log cannot be flushed yet, it is tried again: %s", error.detail)
            self._short_ticks = 0
        self._shortage = error
        self._log.mark_unsynced(self.flushed)
        self._give_back_others()

    def _tell_all(self, error: Corrupt | OutOfFiles) -> None:
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(error)
