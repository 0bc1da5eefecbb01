"""The store: appends and reads messages; everything about bytes on disk is behind it.

Owned by one thread. `append` and reads return after memory and page-cache work only; what may
make the kernel wait goes to the pool. How it is opened: `opening`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import Busy, Corrupt, EngineError, OutOfFiles
from engine.events import EventBus
from engine.host import pack_host
from engine.message import Durability, Message, PutResult, SentRun
from engine.message_columns import ColumnsResult, LonePlace, MessageColumns, PutColumns
from engine.service import Service
from engine.store.checkpoint import (
    Checkpoint,
    CleanMark,
    QueueMark,
    save_checkpoint,
    save_clean,
)
from engine.store.commit_log import disk_full
from engine.store.copying import StoreCopy
from engine.store.dispatch import DispatchBatch
from engine.store.encode import EncodedBatch, Encoder
from engine.store.encode_columns import (
    HashedKeys,
    LoneMessage,
    PackedRun,
    RecordShape,
    encode_columns,
)
from engine.store.entry_codes import CodeCheck, TagCode
from engine.store.expiry import Expiry
from engine.store.files import Files, read_whole, sync_if_open, write_atomic
from engine.store.flush import Done
from engine.store.journal import JournalPlace
from engine.store.pool import Pool
from engine.store.upkeep import Checkpointer, DiskWatch


class Store(StoreCopy):
    """Commit log, consume queues and key index under one directory."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        pool: Pool,
        files: Files,
        events: EventBus,
        tag_codes: dict[str, TagCode] | None = None,
        code_checks: dict[str, CodeCheck] | None = None,
    ) -> None:
        """`tag_codes` gives, by topic, another third field of entries than the tag's hash.

        `code_checks` say of such a topic what else than that it may be.
        """
        super().__init__(
            config,
            clock=clock,
            pool=pool,
            files=files,
            events=events,
            tag_codes=tag_codes or {},
            code_checks=code_checks or {},
        )
        self._encoder = Encoder(config.store_host, self._id_prefix(), self._queue, self._tag_codes)
        self.expiry = Expiry(files, self._root, pool, self._log, self._index, self._queue_files)
        self._last_ms = 0
        self._deletions = 0  # of topics, since the start
        self._exported: set[str] = set()
        self._free_bytes: int | None = None
        self._total_bytes = 0
        self.crowding = ""  # why producers are refused though there is some room left

    # -- life ---------------------------------------------------------------------------------

    @property
    def on_visible(self) -> list[Callable[[str, int, int, list[int]], None]]:
        """Called with (topic, queue, first offset, tag codes) when messages became readable."""
        return self._dispatch.on_visible

    @property
    def on_visible_in(self) -> dict[str, Callable[[str, int, int, list[int]], None]]:
        """The same for messages of one topic, by its name: at most one for each."""
        return self._dispatch.on_visible_in

    @property
    def flushed(self) -> int:
        """The position up to which the log is on disk."""
        return self._flusher.flushed

    @property
    def flush_service(self) -> Service:
        """The one of `services` without which nothing that was accepted is answered."""
        return self._flusher

    def services(self) -> list[Service]:
        checkpointer = Checkpointer(self, self._config.checkpoint_interval_s)
        return [self._flusher, checkpointer, DiskWatch(self), self.journal]

    def open(self) -> None:
        """Take the directory's lock and open its files; Busy when another process holds it."""
        super().open()
        self.watch_disk()

    def stop(self) -> None:
        """Flush everything and leave the clean mark; the last thing done with the store.

        Where the disk refused something there is no mark: the next start reads and checks.
        """
        if self._flusher.broken is None:
            self._log.mark_unsynced(self._flusher.flushed)
            for unsynced in self._log.take_unsynced():
                unsynced.sync()
            self._dispatch.copied = self._log.written  # nobody waits for a standby any more
            self._flusher.settle(self._log.written)
            if self._dispatch.failure is None and not self.journal.is_behind:
                self._leave_clean()
        self.close()

    def _leave_clean(self) -> None:
        self._queue_files.sync(self._queue_files.take_unsynced())
        marks = [
            QueueMark(queue.id.topic, queue.id.queue, queue.min_offset(self.oldest), queue.visible)
            for queue in self._queues.values()
        ]
        written = self._log.written
        place, entries = self.journal.place, self._entry_count()
        self._index.close()
        self.journal.close()
        self.save_checkpoint(written, place, entries)
        clean = CleanMark(written, marks, (place.number, place.size_bytes))
        save_clean(self._files, self._root / "clean", clean)
        self._files.remove(self._root / "abort")

    def export(self, name: str, content: object) -> None:
        """Write `content` as JSON into the configuration directory, for Apache RocketMQ to read.

        Where this start found the journal damaged the file before is kept: it may say more.
        """
        path = self._root / "config" / name
        if self.journal.is_damaged and name not in self._exported and self._files.exists(path):
            with suppress(OSError):
                self.damage_log.keep_copy(name, read_whole(self._files, path))
        self._exported.add(name)
        write_atomic(self._files, path, msgspec.json.encode(content))

    def show_keys(self) -> None:
        """Let another broker find keys as far as they are indexed; 2 MB to the page cache."""
        self._index.write_slots()

    # -- writing ------------------------------------------------------------------------------

    def append(
        self,
        messages: Sequence[Message],
        *,
        durability: Durability = Durability.STORED,
        waits: bool = True,
    ) -> PutResult:
        """Write all of `messages` with one write, or none of them.

        Each has its topic and queue (0 or more) set, and gets a message id if it has none. Not
        STORED they become readable only after the flush, REPLICATED ones after `show_copied`, too;
        with `waits` False the sender does not wait for the flush.
        DiskFull, Invalid (too large) and Corrupt (the disk failed) leave nothing behind.
        """
        self.check_leader()
        self._check_writable()
        stored_ms = self._last_ms = self._clock.now_ms()
        position = self._log.written
        batch = self._encoder.encode(messages, position, stored_ms)
        try:
            start = self._log.place(len(batch.data))
            if start != position:  # it did not fit this segment: positions are part of the bytes
                _take_names(batch)
                batch = self._encoder.encode(messages, start, stored_ms)
            self._log.append(batch.data, start)
        except EngineError:
            _take_names(batch)
            raise
        end = start + len(batch.data)
        is_held = durability is not Durability.STORED
        needs_copy = durability is Durability.REPLICATED
        runs = self._dispatch_written(
            DispatchBatch(
                end, stored_ms, is_held, batch.runs, batch.keyed, [], needs_copy=needs_copy
            )
        )
        if is_held and not waits:
            self._flusher.request(end, _ignore)
        level = durability if waits else Durability.STORED
        return PutResult(messages, batch.offsets, batch.positions, level, end, runs)

    def append_columns(
        self, batches: Sequence[MessageColumns], queue: int, *, durability: Durability
    ) -> PutColumns:
        """Write all batches, of plain messages, with one write, or none of them; as `append` does.

        Those that name no queue go to `queue`.
        """
        self.check_leader()
        self._check_writable()
        stored_ms = self._last_ms = self._clock.now_ms()
        position = self._log.written
        batch = encode_columns(self._encoder, batches, queue, position, stored_ms)
        start = self._log.place(len(batch.data))
        if start != position:  # it did not fit this segment: positions are part of the bytes
            batch = encode_columns(self._encoder, batches, queue, start, stored_ms)
        self._log.append(batch.data, start)
        end = start + len(batch.data)
        is_held = durability is not Durability.STORED
        hashed = [batch.hashed] if batch.hashed.hashes else []
        needs_copy = durability is Durability.REPLICATED
        runs = self._dispatch_written(
            DispatchBatch(end, stored_ms, is_held, batch.runs, [], hashed, needs_copy=needs_copy)
        )
        id_prefix = self._encoder.id_prefix
        results = [ColumnsResult(*place, durability, id_prefix) for place in batch.places]
        return PutColumns(results, durability, end, runs)

    def append_lone(
        self, shape: RecordShape, message: LoneMessage, queue: int, *, is_held: bool
    ) -> LonePlace:
        """Write one plain message of a prepared shape; as `append` does.

        With `is_held` it becomes readable only after the flush.
        """
        self.check_leader()
        self._check_writable()
        known, log = self._queue(shape.topic, queue), self._log
        stored_ms = self._last_ms = self._clock.now_ms()
        position = log.written
        encoded = shape.encode(message, known, position, stored_ms)
        start = log.place(len(encoded.records))
        if start != position:  # it did not fit this segment: positions are part of the bytes
            encoded = shape.encode(message, known, start, stored_ms)
        data, entry, _, _, hashes, places = encoded
        log.append(data, start)
        size_bytes, offset = len(data), known.next_offset
        known.next_offset = offset + 1
        run = PackedRun(known, offset, entry, shape.tag_codes, size_bytes)
        hashed = [HashedKeys(hashes, places)] if hashes else []
        end = start + size_bytes
        self._dispatch.add(DispatchBatch(end, stored_ms, is_held, [run], [], hashed))
        return LonePlace(queue, offset, start, end, stored_ms)

    def record_shape(self, columns: MessageColumns) -> RecordShape:
        """The shape of messages like the one that came as columns, for `append_lone`."""
        return RecordShape(self._encoder, columns)

    @property
    def id_prefix(self) -> str:
        """What ids begin with that are made here; the 16 hex digits of the position follow."""
        return self._encoder.id_prefix

    def _dispatch_written(self, batch: DispatchBatch) -> list[SentRun]:
        """Bring what the log has now on its way to the readers; the result for each queue."""
        runs = [run.sent() for run in batch.runs]  # before the dispatch takes them off the batch
        for run in batch.runs:
            run.queue.next_offset += len(run.tag_codes)
        self._dispatch.add(batch)
        return runs

    def may_take_columns(self, topic: str) -> bool:
        """Whether nothing about the messages of `topic` has to be known one by one."""
        return not self.crowding and not self._encoder.has_tag_codes(topic)

    def check_room(self) -> None:
        """Raise DiskFull where producers are refused so that the engine's own work has room."""
        if self.crowding:
            raise disk_full(self.crowding)

    def show_copied(self, position: int) -> None:
        """Nothing before `position` waits for a standby any more: it is readable once flushed."""
        self._dispatch.copied = max(self._dispatch.copied, position)
        self._dispatch.release(self._flusher.flushed)

    def when_flushed(self, position: int, done: Done) -> None:
        """Call `done(None)` once the log is on disk up to `position`, or `done(error)`."""
        self._flusher.request(position, done)

    def _id_prefix(self) -> str:
        """Host and second of this start: ids of messages that a power loss took never return."""
        host = pack_host(self._config.store_host)[:4].hex().upper()
        return f"{host}{self._clock.now_ms() // 1000 & 0xFFFFFFFF:08X}"

    def _check_writable(self) -> None:
        if self._flusher.broken is not None:
            raise self._flusher.broken
        if self._free_bytes is not None and self._free_bytes < self._config.disk_free_min_bytes:
            raise disk_full(
                f"{self._free_bytes} bytes are free, {self._config.disk_free_min_bytes} must stay"
            )
        if self._dispatch.failure is not None:
            self._dispatch.release(self._flusher.flushed)
            failure = self._dispatch.failure
            if failure is not None:
                raise failure if isinstance(failure, OutOfFiles) else disk_full(str(failure))

    # -- upkeep -------------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> None:
        """Forget the queues of `topic`; its records stay in the log until retention."""
        self._deletions += 1
        for key in [key for key in self._queues if key[0] == topic]:
            self._forget(self._queues[key])
        directory = self._root / "consumequeue" / topic
        if self._files.exists(directory):
            # Out of the way at once, so that a new topic may take the name; deleted in the pool.
            trash = self._root / "trash" / f"{self._clock.now_ms()}-{self._log.written}-{topic}"
            try:
                self._files.make_directory(trash.parent)
                self._files.replace(directory, trash)
            except OSError:  # no room for another name: then at once
                self._files.remove_tree(directory)
            else:
                self._pool.submit(lambda: self._files.remove_tree(trash), lambda _, __: None)

    def expire(self, position: int) -> int:
        """Delete log segments wholly below `position` (never the last); returns how many.

        Nothing that recovery would begin with: queues count their offsets by it. See `expiry`.
        """
        return self.expiry.expire(min(position, self._checkpointed))

    def trim(self, topic: str, queue: int, offset: int) -> int:
        """Let a queue begin at `offset`, or at its end if that is before; where it begins now.

        The records stay in the log for as long as their segment. Not kept over a restart.
        """
        known = self._queues.get((topic, queue))
        if known is not None:
            known.trim(offset)
        return self.bounds(topic, queue)[0]

    def sweep(self, queues: Sequence[tuple[str, int]]) -> None:
        """Delete the files which these queues have before their first readable offset."""
        aside: list[Path] = []
        for key in queues:
            known = self._queues.get(key)
            if known is not None:
                known.min_offset(self._log.oldest)
                aside += self.expiry.sweep(known, self._checkpointed)
        if aside:
            self.expiry.discard(aside)

    def watch_disk(self) -> None:
        """Measure what is free; sends are refused below the setting.

        What the disk had refused to make readable is tried again.
        """
        self._free_bytes = self._files.free_bytes(self._root)
        self._total_bytes = self._files.total_bytes(self._root)
        config = self._config
        self.crowding = ""
        if 0 < config.disk_refuse_percent <= self.disk_percent:
            self.crowding = (
                f"the disk is {self.disk_percent:.1f} % full, messages are refused from "
                f"{config.disk_refuse_percent} % on"
            )
        if self._dispatch.failure is not None:
            self._dispatch.release(self._flusher.flushed)

    @property
    def free_bytes(self) -> int | None:
        return self._free_bytes

    @property
    def disk_percent(self) -> float:
        """Use of the disk in percent; 0 while `disk_enough_bytes` are free, or if unknown."""
        free = self._free_bytes
        if free is None or not self._total_bytes or free >= self._config.disk_enough_bytes:
            return 0.0
        return 100.0 * (1.0 - free / self._total_bytes)

    @property
    def disk_bytes(self) -> int:
        """The size of the disk; 0 where it is unknown."""
        return self._total_bytes

    def refusal(self) -> str:
        """Why writing is refused, for health; empty when it is not."""
        try:
            self._check_writable()
        except (Busy, Corrupt) as error:
            return error.detail
        return self.crowding

    @property
    def changes(self) -> tuple[int, int]:
        """What a checkpoint says is out of date once this is another."""
        return self._log.written, self._deletions

    def begin_checkpoint(self, finished: Callable[[], None]) -> None:
        """Bring everything below the readable end to disk, then move the checkpoint there.

        The steps run in the pool, one after another; `finished` is called after the last.
        """
        if self.journal.is_behind:
            finished()
            return
        mark = min(self._dispatch.position, self._log.written)
        self._index.write()
        queues = self._queue_files.take_unsynced()
        place, entries = self.journal.place, self._entry_count()
        others = [*self._index.take_unsynced(), *self.journal.take_unsynced()]

        def sync() -> None:
            self._queue_files.sync(queues)
            for unsynced in others:
                sync_if_open(unsynced)

        def log_flushed(error: Exception | None) -> None:
            if error is not None:
                finished()
                return
            self._pool.submit(lambda: self.save_checkpoint(mark, place, entries), saved)

        def saved(_: None, error: Exception | None) -> None:
            if error is None:
                self._checkpointed = mark
            finished()

        def others_synced(_: Any, error: Exception | None) -> None:
            if error is None:
                self._index.mark_synced()
                self._flusher.request(mark, log_flushed)
                return
            self._queue_files.give_back(queues)
            self._index.give_back()
            self.journal.give_back()
            finished()

        self._pool.submit(sync, others_synced)

    def save_checkpoint(self, position: int, journal: JournalPlace, entries: int) -> None:
        """Write the checkpoint file: everything below `position` and `journal` is on disk.

        `entries` is how many the queues have of records below `position`, taken together.
        """
        ms = self._last_ms
        checkpoint = Checkpoint(
            *(ms, ms, ms, position, position, journal, entries),
            crc_since=self._crc_since,
            index_file=self._index.marked,
        )
        save_checkpoint(self._files, self._root / "checkpoint", checkpoint)


def _take_names(batch: EncodedBatch) -> None:
    """The ids made from positions of a batch that did not get them."""
    for message in batch.unnamed:
        message.message_id = ""


def _ignore(_: Exception | None) -> None:
    """Does nothing: no sender waits for this flush."""
