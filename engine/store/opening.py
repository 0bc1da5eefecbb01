"""Opening a store: its lock, and queues, index and log that agree, by the clean mark or by a scan.

The part of `Store` that runs before anything is written. The order: `open`, then whoever keeps
state in the journal registers, then `journal.load`, then `recover`.
"""

import os
from collections.abc import Callable

import msgspec

from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import Busy
from engine.events import Events
from engine.message import SOURCE, StoredMessage
from engine.store.checkpoint import CleanMark, load_checkpoint
from engine.store.consume_queue import ConsumeQueue, QueueFiles, QueueId
from engine.store.dispatch import Redispatch
from engine.store.encode import TagCode
from engine.store.files import File, Files, make_lasting_directory, read_whole, write_atomic
from engine.store.flush import Flusher
from engine.store.hashing import tag_hash
from engine.store.journal import Journal
from engine.store.pool import Pool
from engine.store.reading import Reading
from engine.store.recovery import Damage, Scan

DAMAGES_MAX = 1000
SOURCE_MARK = f"{SOURCE}\x01".encode()


class Opening(Reading):
    """The directory of a store, taken and made whole."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        pool: Pool,
        files: Files,
        events: Events,
        tag_codes: dict[str, TagCode],
    ) -> None:
        super().__init__(config, clock=clock, files=files, events=events, tag_codes=tag_codes)
        self._config = config
        self._pool = pool
        self._queue_files = QueueFiles(
            files, self._root / "consumequeue", config.queue_file_entries, config.open_files_max
        )
        self.journal = Journal(files, self._root / "config", pool)
        self.journal.when_flushed = lambda done: self._flusher.request(self._log.written, done)
        self._flusher = Flusher(
            self._log,
            pool,
            config.flush_interval_s,
            self._dispatch.release,
            self.journal.take_lasting,
        )
        self._lock: File | None = None
        self._clean: CleanMark | None = None
        self._checkpointed = 0  # recovery begins here
        self.damages: list[Damage] = []

    def open(self) -> None:
        """Take the directory's lock and open its files; Busy when another process holds it."""
        for name in ("commitlog", "consumequeue", "index", "config"):
            make_lasting_directory(self._files, self._root / name)
        self._lock = self._files.lock(self._root / "lock")
        if self._lock is None:
            raise Busy(
                f"another process uses {self._root}",
                field="data",
                remedy="stop it, or choose another data directory",
            )
        self._log.open()
        clean = self._root / "clean"
        if self._files.exists(clean) and not self._files.exists(self._root / "abort"):
            self._clean = msgspec.msgpack.decode(read_whole(self._files, clean), type=CleanMark)
            if self._end_of_segments() < self._clean.written:
                self._clean = None
        if self._clean is None:
            self.journal.trusted = self._scan_start()
        write_atomic(self._files, self._root / "abort", str(os.getpid()).encode())
        self._files.remove(clean)
        self._files.remove_tree(self._root / "trash")

    def recover(
        self,
        *,
        begin_of: Callable[[str], int | None],
        is_wanted: Callable[[StoredMessage], bool],
        on_replayed: Callable[[StoredMessage], None],
    ) -> None:
        """Make queues, index and log agree.

        After a clean stop nothing is scanned. Else the queues of topics that are no more go
        (`begin_of` gives the position from which on a topic's records count, or None), and every
        record since the checkpoint is checked and dispatched again if `is_wanted` (its topic was
        not deleted since); those that carry the SOURCE property are told to `on_replayed`.
        """
        if self._clean is not None:
            self._open_clean(self._clean)
        else:
            # Files of deleted topics go: what says that they were deleted must not be lost after.
            self.journal.sync()
            self._open_queues(begin_of)
            self._recover_by_scan(is_wanted, on_replayed)
        self._clean = None
        self._dispatch.position = self._log.written

    def close(self) -> None:
        """Let go of all files as they are, as a crash would."""
        self._log.close()
        self._queue_files.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _queue(self, topic: str, queue: int) -> ConsumeQueue:
        known = self._queues.get((topic, queue))
        if known is None:
            known = ConsumeQueue(self._queue_files, QueueId(topic, queue))
            self._queues[topic, queue] = known
        return known

    def _end_of_segments(self) -> int:
        bases = self._log.bases()
        return bases[-1] + self._log.segment_bytes if bases else 0

    def _open_clean(self, clean: CleanMark) -> None:
        self._log.written = self._flusher.flushed = self._checkpointed = clean.written
        self._index.open(is_clean=True)
        for mark in clean.queues:
            self._queues[mark.topic, mark.queue] = ConsumeQueue(
                self._queue_files, QueueId(mark.topic, mark.queue), oldest=mark.oldest, end=mark.end
            )

    def _recover_by_scan(
        self,
        is_wanted: Callable[[StoredMessage], bool],
        on_replayed: Callable[[StoredMessage], None],
    ) -> None:
        self._log.written = self._end_of_segments()
        start = self._scan_start()
        for queue in self._queues.values():
            queue.truncate(start)
        self._index.open(is_clean=False)
        self._index.truncate(start)
        scan = Scan(self._log, start, self._log.written)
        again = Redispatch(self._index, self._queue, self._tag_code)
        for message in scan.records():
            if is_wanted(message):
                again.add(message)
            if SOURCE_MARK in message.property_block:
                on_replayed(message)
        again.finish()
        self.damages = scan.damages[:DAMAGES_MAX]
        self._log.truncate(scan.end)
        self._log.mark_unsynced(start)
        self._flusher.flushed = self._checkpointed = start

    def _scan_start(self) -> int:
        """The checkpoint's position; without a usable one, the beginning of the log."""
        bases = self._log.bases()
        if not bases:
            return 0
        checkpoint = load_checkpoint(self._files, self._root / "checkpoint")
        if bases[0] <= checkpoint.confirmed <= self._end_of_segments():
            return checkpoint.confirmed
        return bases[0]

    def _open_queues(self, begin_of: Callable[[str], int | None]) -> None:
        root = self._root / "consumequeue"
        for topic in self._files.names(root):
            begin = begin_of(topic)
            if begin is None:
                self._files.remove_tree(root / topic)
                continue
            for name in filter(str.isdigit, self._files.names(root / topic)):
                queue = self._queue(topic, int(name))
                queue.recover()
                first = queue.first()
                if first is not None and first.position < begin:  # of an earlier topic
                    self._forget(queue)
                    self._files.remove_tree(root / topic / name)

    def _forget(self, queue: ConsumeQueue) -> None:
        queue.is_gone = True
        del self._queues[queue.id]
        self._queue_files.forget(queue.id)

    def _tag_code(self, message: StoredMessage) -> int:
        code_of = self._tag_codes.get(message.topic)
        if code_of is None:
            return tag_hash(message.tag)
        return code_of(message, message.stored_ms)
