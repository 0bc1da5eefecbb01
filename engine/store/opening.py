"""Opens a store: takes its lock, and makes log, queues and index agree, by mark or by scan.

The part of `Store` that runs before anything is written. The order: `open`, then the owners of
state in the journal register, then `journal.load`, then `recover`.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import Busy, OnStandby
from engine.events import EventBus
from engine.message import SOURCE, StoredMessage
from engine.store.checkpoint import (
    NEVER,
    Checkpoint,
    CleanMark,
    read_checkpoint,
    read_clean,
    save_checkpoint,
)
from engine.store.commit_log import disk_full
from engine.store.consume_queue import ConsumeQueue, QueueCut, QueueFiles, QueueId
from engine.store.damage import COPY_BYTES_MAX, Damage
from engine.store.dispatch import Redispatch
from engine.store.entry_codes import CodeCheck, TagCode
from engine.store.files import (
    DISK_FULL_ERRORS,
    File,
    Files,
    make_lasting_directory,
    read_whole,
    write_atomic,
)
from engine.store.flush import Flusher
from engine.store.journal import Journal, JournalPlace
from engine.store.journal_files import file_numbers
from engine.store.pool import Pool
from engine.store.reading import StoreReader
from engine.store.record import BLANK_BYTES_MIN, CRC_NAME, NO_RANGE, RECORD_BYTES_MIN
from engine.store.recovery import LogScan

log = logging.getLogger("kitemq.store")

CLEAN_PROBE_BYTES = 4096
ROCKETMQ_COPY = "rocketmq-copy"  # the log is an Apache master's, and no start has adopted it yet
SOURCE_MARK = f"{SOURCE}\x01".encode()
NOTES_MAX = 1000
OFFSETS_SPARE = 1 << 16


class StoreOpening(StoreReader):
    """The directory of a store, taken and made whole."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        pool: Pool,
        files: Files,
        events: EventBus,
        tag_codes: dict[str, TagCode],
        code_checks: dict[str, CodeCheck],
    ) -> None:
        super().__init__(
            config,
            clock=clock,
            files=files,
            events=events,
            tag_codes=tag_codes,
            code_checks=code_checks,
        )
        self._config = config
        self._pool = pool
        self._queue_files = QueueFiles(
            files, self._root / "consumequeue", config.queue_file_entries, config.open_files_max
        )
        self.journal = Journal(files, self._root / "config", pool, damage_log=self.damage_log)
        self.journal.when_flushed = lambda done: self._flusher.request(self._log.written, done)
        self.journal.distrust = self._distrust
        self._flusher = Flusher(
            self._log,
            pool,
            config.flush_interval_s,
            self._dispatch.release,
            self.journal.take_lasting,
            self.journal.give_back_lasting,
        )
        self._lock: File | None = None
        self._clean: CleanMark | None = None
        self._checkpointed = 0  # recovery begins here
        self._start = 0  # and here, at this start
        self._cuts: dict[QueueId, QueueCut] = {}  # what recovery dropped of each queue
        self._entries_then: int | None = None  # how many there were at the checkpoint
        self._bare_end = 0  # behind the last record of this start's scan that has none
        self._crc_since = 0  # from here on every record has a CRC of its own
        self._marked = Checkpoint()
        self.start_refusal = ""  # what a full disk refused to this start
        self.is_foreign = False  # another broker has written here since KiteMQ did
        self.is_copy = False  # of another's log: `append_copy` alone writes it
        self.is_rocketmq_copy = False  # of an Apache master's, whose records have no CRC
        self._notes: list[str] = []

    @property
    def damages(self) -> list[Damage]:
        """What this start found damaged; at most 1,000 are listed."""
        return self.damage_log.listed()

    @property
    def notes(self) -> list[str]:
        """What this start found of another broker's, and what became of it; at most 1,000."""
        return self._notes.copy()

    def note(self, text: str) -> None:
        """Say in the log and in health what was found that is not KiteMQ's, and no damage."""
        if len(self._notes) < NOTES_MAX:
            self._notes.append(text)
        log.warning("%s", text)

    def damage_warning(self) -> str:
        """One sentence where anything is damaged, without details; else empty."""
        count = self.damage_log.count
        if not count:
            return ""
        places = "1 place" if count == 1 else f"{count} places"
        return f"the data directory is damaged in {places}; the server's log names them"

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
        self._start = self._scan_start()
        if not self._files.exists(self._root / "abort"):
            self._clean = self._clean_mark()
        self._check_index()
        if self._clean is None:
            self.journal.trusted = self._start
        else:
            self.journal.stopped = JournalPlace(*self._clean.journal)
        self._mark_unclean(self._root / "clean")
        self._files.remove_tree(self._root / "trash")

    def _check_index(self) -> None:
        """A key index that is not as it was left is made anew from the log."""
        newest = None if self.is_foreign else self._marked.index_file
        fault = self._index.fault(self._start, is_clean=self._clean is not None, newest=newest)
        if not fault:
            return
        self._clean, self._start = None, self._log.oldest_base
        # A crash before the next checkpoint must not leave what of it there is by then.
        again = msgspec.structs.replace(
            self._marked, confirmed=self._start, entries=None, index_file=None
        )
        try:
            save_checkpoint(self._files, self._root / "checkpoint", again)
            self._marked = again
        except OSError:
            if self.journal.is_copy:  # it may name no index file that the next start would miss
                raise
        copy = self.damage_log.move_aside(self._root / "index")
        make_lasting_directory(self._files, self._root / "index")
        detail = f"{fault}; the key index was made anew from the log"
        self.damage_log.add(Damage(0, 0, detail, "index", copy))

    def look(self) -> None:
        """Open the log for reading alone, without the directory's lock; `close` lets go."""
        self._log.open()

    def mark_rocketmq_copy(self) -> None:
        """Let the first start of a leader read the log for what it has to know of RocketMQ's."""
        if not self._files.exists(self._root / ROCKETMQ_COPY):
            write_atomic(self._files, self._root / ROCKETMQ_COPY, b"")

    def end_rocketmq_copy(self) -> None:
        """A leader's start has adopted everything, and it is on the disk."""
        if self._files.exists(self._root / ROCKETMQ_COPY):
            self._files.remove(self._root / ROCKETMQ_COPY)
            self._files.sync_directory(self._root)

    def check_leader(self) -> None:
        """Raise OnStandby where every record has to come from another's log."""
        if self.is_copy:
            raise OnStandby

    def _mark_unclean(self, clean: Path) -> None:
        """From here on only a clean stop makes this a clean store."""
        try:
            write_atomic(self._files, self._root / "abort", str(os.getpid()).encode())
        except OSError as error:
            if error.errno not in DISK_FULL_ERRORS:
                raise
            # Reading goes on without it: a store that has no clean mark is checked as well.
            self.start_refusal = str(error)
        self._files.remove(clean)
        if self.start_refusal:
            self._files.sync_directory(self._root)

    def recover(
        self,
        *,
        begin_of: Callable[[str], int | None],
        is_wanted: Callable[[StoredMessage], bool],
        on_replayed: Callable[[StoredMessage], None],
        on_foreign: Callable[[StoredMessage], None] = lambda message: None,
        is_deleted: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        """Make queues, index and log agree.

        After a clean stop nothing is scanned. Else the queues of topics that are no more go
        (`begin_of` gives the position from which on a topic's records count, or None; `is_deleted`
        whether the journal has its end), and every record since the checkpoint is checked and
        dispatched again if `is_wanted` (its topic was not deleted since). Those that carry the
        SOURCE property go to `on_replayed`, those without a CRC of their own, which other
        brokers wrote, to `on_foreign`. Queues of an unknown topic stay, and are named.
        """
        if self._clean is not None:
            self._open_clean(self._clean)
        else:
            # Files of deleted topics go: what says that they were deleted must not be lost after.
            self.journal.sync()
            self._open_queues(begin_of, is_deleted)
            self._recover_by_scan(is_wanted, on_replayed, on_foreign)
        self._clean = None
        self._settle_crcs()
        is_whole = self._dispatch.failure is None
        self._dispatch.position = self._log.written if is_whole else self._checkpointed

    def _settle_crcs(self) -> None:
        """From here on no other broker writes: every record to come has a CRC of its own.

        Kept at once where it is new: a crash may come before the first checkpoint.
        """
        since = NEVER if self.is_rocketmq_copy else self._marked.crc_since
        if since is None:
            since = self._log.written
        self._crc_since = max(since, self._bare_end)
        self._log.crc_range = range(self._crc_since, NEVER)
        if self._crc_since == self._marked.crc_since:
            return
        marked = msgspec.structs.replace(self._marked, crc_since=self._crc_since)
        with suppress(OSError):  # a later checkpoint says it again
            save_checkpoint(self._files, self._root / "checkpoint", marked)

    def close(self) -> None:
        """Let go of all files as they are, as a crash would."""
        self._log.close()
        self._sealed_files.close()
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

    @property
    def offset_max(self) -> int:
        """No queue can have an offset past this: every message takes its bytes of the log.

        A segment more than there are, as a power loss may have taken the last one.
        """
        end = self._end_of_segments() + self._log.segment_bytes
        return end // RECORD_BYTES_MIN + OFFSETS_SPARE

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
        on_foreign: Callable[[StoredMessage], None],
    ) -> None:
        self._log.written = self._end_of_segments()
        start, cuts = self._start, self._cuts
        is_short = self._entry_count() < (self._entries_then or 0)
        self._index.open(is_clean=False)
        self._index.truncate(start)
        scan = LogScan(self._log, start, self._log.written, self._log.crc_range)
        oldest = self._log.oldest_base
        again = Redispatch(self._index, self._queue, self._codes.code_of, oldest=oldest)
        is_copy = self.is_copy
        for message in scan.records():
            if is_copy and scan.damages:
                break
            if is_wanted(message):
                again.add(message)
            if SOURCE_MARK in message.property_block:
                on_replayed(message)
            elif CRC_NAME not in message.property_block:
                on_foreign(message)
        again.finish()
        for queue in self._queues.values():
            queue.cut_stale()
        self._bare_end = scan.bare_end
        self.is_foreign |= scan.bare_end > start
        if is_copy:  # the leader has what is not whole here
            self._log.truncate(scan.whole_end)
        else:
            self._tell_damages(scan)
            self._cut_end(scan.end, max((cut.claimed for cut in cuts.values()), default=0))
        lost = {place for place, cut in cuts.items() if cut.is_damaged} | again.gaps
        if lost or is_short:
            self._mend_before(start, None if is_short else lost, is_wanted)
        self._log.mark_unsynced(start)
        self._flusher.flushed = self._checkpointed = start
        if again.failure is not None:
            self._dispatch.owe([*again.owing.values()], self._log.written, again.failure)

    def _entry_count(self) -> int:
        """How many entries all queues have, taken together, those that are gone included."""
        return sum(queue.visible for queue in self._queues.values())

    def _tell_damages(self, scan: LogScan) -> None:
        for damage in (*scan.damages, *scan.holes):
            self.damage_log.add(damage)

    def _cut_end(self, end: int, claimed: int) -> None:
        """Cut the log off behind its last whole record; what goes is kept and reported.

        Where a copy cannot be written the bytes stay, and the log goes on behind them.
        """
        covered, is_kept = end, True
        for base in self._log.bases():
            for position in range(max(base, end), base + self._log.segment_bytes, COPY_BYTES_MAX):
                torn = self._log.tail(position, COPY_BYTES_MAX)
                if torn:
                    copy = self.damage_log.try_copy(f"commitlog.{position}", torn)
                    detail = "the end of the log was not written whole"
                    self.damage_log.add(Damage(position, position + len(torn), detail, copy=copy))
                    covered = position + len(torn)
                    is_kept &= bool(copy)
        if claimed > covered:
            detail = "messages that a queue knows are not in the log any more"
            self.damage_log.add(Damage(covered, claimed, detail))
        self._log.truncate(end if is_kept else self._goes_on(covered))

    def _goes_on(self, covered: int) -> int:
        """Where records can be written behind a torn end that must stay."""
        segment_bytes = self._log.segment_bytes
        if covered % segment_bytes > segment_bytes - BLANK_BYTES_MIN:
            raise disk_full(f"{self._root / 'set-aside'} cannot take a copy of the log's torn end")
        return covered

    def _mend_before(
        self, start: int, lost: set[QueueId] | None, is_wanted: Callable[[StoredMessage], bool]
    ) -> None:
        """Queues that lost entries of records before the checkpoint get them back from the log.

        None stands for all of them.
        """
        scan = LogScan(self._log, self._log.oldest, start, self._log.crc_range)
        for message in scan.records():
            place = QueueId(message.topic, message.queue)
            if (lost is None or place in lost) and is_wanted(message):
                self._mender.restore(self._queue(*place), message)
        self._tell_damages(scan)

    def _clean_mark(self) -> CleanMark | None:
        """What the last stop left, if it was clean and nothing speaks against it."""
        clean, fault = read_clean(self._files, self._root / "clean")
        if clean is not None:
            if self._end_of_segments() < clean.written:
                fault = f"the log ends before {clean.written}"
            elif self._log.has_data(clean.written, CLEAN_PROBE_BYTES):
                fault = f"the log goes on behind {clean.written}"
            elif self._start != clean.written:
                fault = f"the checkpoint says {self._start}, not {clean.written}"
        if fault and self.is_foreign:
            self.note(f"another broker went on behind the last clean stop: {fault}")
            return None
        if fault:
            self._disbelieve("clean", f"{fault}; the log was read to find its end")
            return None
        return clean

    def _distrust(self) -> int:
        """The journal is damaged: what follows from the log is made anew from its beginning."""
        self._clean = None
        self._start = self._log.oldest_base
        return self._start

    def _disbelieve(self, name: str, fault: str) -> None:
        """Tell that a file is not believed, and keep a copy."""
        data = read_whole(self._files, self._root / name)
        copy = self.damage_log.try_copy(name, data)
        self.damage_log.add(Damage(0, len(data), fault, name, copy))

    def _scan_start(self) -> int:
        """The checkpoint's position; without a usable one, the beginning of the log."""
        marked = read_checkpoint(self._files, self._root / "checkpoint")
        first, end = self._log.oldest_base, self._end_of_segments()
        fault, position = marked.fault, marked.checkpoint.confirmed
        self._marked, self._log.crc_range = marked.checkpoint, marked.crc_range
        if self._files.exists(self._root / ROCKETMQ_COPY) and not self.is_copy:
            # The standby's checkpoints say nothing of what is adopted from RocketMQ's records.
            self.is_foreign, self._marked, self._log.crc_range = True, Checkpoint(), NO_RANGE
            self.journal.synced = marked.checkpoint.journal
            return first
        has_log = bool(self._log.bases())
        self.is_foreign = marked.is_foreign or (has_log and not self._has_journal())
        self.journal.synced = marked.checkpoint.journal
        self._entries_then = marked.checkpoint.entries
        if not fault and position > end:
            fault = f"the log ends before {position}"
        if fault:
            self._marked = Checkpoint()
            if not marked.is_foreign or self._has_journal():
                self._disbelieve("checkpoint", f"{fault}; the log is read from its beginning")
        return position if first <= position <= end and not fault else first

    def _has_journal(self) -> bool:
        """Whether KiteMQ has used the directory before."""
        return any(
            file_numbers(self._files, self._root / "config", kind)
            for kind in ("journal", "snapshot")
        )

    def _open_queues(
        self, begin_of: Callable[[str], int | None], is_deleted: Callable[[str], bool]
    ) -> None:
        root = self._root / "consumequeue"
        for topic in self._files.names(root):
            begin = begin_of(topic)
            if begin is None:
                self._leave(root / topic, is_deleted(topic))
                continue
            for name in filter(str.isdigit, self._files.names(root / topic)):
                queue = self._queue(topic, int(name))
                queue.recover()
                first = queue.first_recovered()
                if first is not None and first.position < begin:  # of an earlier topic
                    self._forget(queue)
                    self._files.remove_tree(root / topic / name)
                else:
                    self._cuts[queue.id] = queue.truncate(self._start)

    def _leave(self, directory: Path, is_deleted: bool) -> None:
        """The queues of a deleted topic go, those of an unknown one do not.

        Where damage may be the reason that it is unknown, they make room for those that follow
        from the log.
        """
        if not self.journal.is_damaged:
            if is_deleted:
                self._files.remove_tree(directory)
            else:
                self.note(f"consumequeue/{directory.name} was left alone: no topic has this name")
            return
        copy = self.damage_log.move_aside(directory)
        detail = "a topic that the damaged journal does not know; its records in the log count"
        self.damage_log.add(Damage(0, 0, detail, f"consumequeue/{directory.name}", copy))

    def _forget(self, queue: ConsumeQueue) -> None:
        queue.is_deleted = True
        del self._queues[queue.id]
        self._queue_files.forget(queue.id)
