"""Deletes what retention selects: whole log segments, then index files, then queue files.

The order is what keeps a crash harmless at any point: a queue or index file goes only after the
segments that it points to are off the disk. What a crash left half done comes back at the next
start as if it had not begun, and is taken again. Files are unlinked in the pool: giving a large
one back may take the kernel long.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from engine.store.commit_log import CommitLog
from engine.store.consume_queue import ConsumeQueue, QueueFiles
from engine.store.files import Files
from engine.store.key_index import KeyIndex
from engine.store.pool import Pool

log = logging.getLogger("kitemq.store")


class Expiry:
    """One deletion of segments at a time; `is_busy` until its files are gone for good."""

    def __init__(
        self,
        files: Files,
        root: Path,
        pool: Pool,
        commit_log: CommitLog,
        index: KeyIndex,
        queue_files: QueueFiles,
    ) -> None:
        self._files = files
        self._logs = root / "commitlog"
        self._trash = root / "trash"
        self._pool = pool
        self._log = commit_log
        self._index = index
        self._queue_files = queue_files
        self._leaving: list[Path] = []  # segments let go of whose files are still there
        self._moved = 0
        self.is_busy = False
        self.failure = ""
        self.on_deleted: Callable[[], None] = _nobody

    @property
    def is_settled(self) -> bool:
        """Whether no file is left of any segment that was let go of."""
        return not (self.is_busy or self._leaving)

    def expire(self, position: int) -> int:
        """Let go of segments wholly below `position`, never the last; returns how many.

        None while the files of an earlier call are being deleted: a crash must not leave a hole.
        What could not be deleted then is tried again, before anything behind it. `on_deleted` is
        called on the owner's thread when the files are gone.
        """
        if self.is_busy:
            return 0
        expired = self._log.expire(position)
        self._leaving += expired
        indexes = self._index.expire(self._log.oldest)
        if self._leaving or indexes:
            self._delete(list(self._leaving), indexes)
        return len(expired)

    def _delete(self, segments: list[Path], indexes: list[Path]) -> None:
        def work() -> None:
            for path in segments:  # the oldest first: what is left has no hole
                self._files.remove(path)
            # Before anything that leads into them goes: a power loss could bring them back.
            self._files.sync_directory(self._logs)
            for path in indexes:
                self._files.remove(path)

        def done(_: None, error: Exception | None) -> None:
            self.is_busy = False
            if error is not None:
                self.failure = f"old log files could not be deleted: {error}"
                log.error("%s; they are tried again", self.failure)
                return
            self.failure = ""
            self._leaving = []
            self.on_deleted()

        self.is_busy = True
        self._pool.submit(work, done)

    def sweep(self, queue: ConsumeQueue, durable: int) -> list[Path]:
        """Put the queue's files aside that it needs no more; `durable` as for `take_obsolete`.

        They are moved at once, as a new topic of that name may soon have files like them; the
        caller hands what this returns to `discard`.
        """
        aside: list[Path] = []
        for path in queue.take_obsolete(durable):
            self._files.make_directory(self._trash)
            self._moved += 1
            target = self._trash / f"queue-{self._moved}"
            self._files.replace(path, target)
            aside.append(target)
        return aside

    def discard(self, aside: list[Path]) -> None:
        """Delete what was put aside; what a crash leaves of it goes at the next start."""

        def work() -> None:
            for path in aside:
                self._files.remove(path)

        self._pool.submit(work, lambda _, __: None)


def _nobody() -> None:
    """Does nothing, until a callback is set."""
