"""A store as the source and as the target of a copy: the log's bytes as they lie in it.

What a leader's log has is written here unread but for its checks, and becomes readable when the
journal says which topics its records belong to (`engine.replication`).
"""

from collections.abc import Callable
from zlib import crc32

import msgspec

from engine.errors import Corrupt
from engine.message import StoredMessage
from engine.store.checkpoint import NEVER, save_checkpoint
from engine.store.commit_log import disk_full
from engine.store.damage import Damage
from engine.store.decoding import decode_run
from engine.store.dispatch import Redispatch
from engine.store.files import Syncable
from engine.store.opening import StoreOpening
from engine.store.record import BLANK, MAGIC_BLANK, RECORD_BYTES_MIN, place_in
from engine.store.recovery import NO_RECORD, LogScan

SHOW_BYTES = 64 * 1024  # of the log at once


class StoreCopy(StoreOpening):
    """The part of `Store` that copies."""

    _is_held = False
    _doubtful = (0, 0)  # where a record lay that could not be read, and the CRC of its bytes

    @property
    def segment_bytes(self) -> int:
        return self._log.segment_bytes

    @property
    def oldest_base(self) -> int:
        """Where the oldest segment begins."""
        return self._log.oldest_base

    @property
    def crc_since(self) -> int:
        """The position from which on every record has a CRC of its own."""
        return self._crc_since

    def read_log(self, position: int, size_bytes: int) -> bytes:
        """Bytes of one segment from `position`, at most `size_bytes`; empty when not kept."""
        return self._log.read(position, size_bytes)

    def begin_at(self, position: int) -> None:
        """Let an empty store's log begin at `position`: what is older the leader has no more."""
        self._log.begin_at(position)
        self._flusher.flushed = self._checkpointed = self._dispatch.position = position

    def trust_crcs_from(self, position: int) -> None:
        """Records from `position` on have a CRC of their own; the next checkpoint says so too."""
        self._crc_since = position
        self._log.crc_range = range(position, NEVER)

    def stop_copy(self) -> None:
        """Bring log and journal to disk and let go, without the mark of a clean stop.

        What lies behind the last cut is not readable: the next start looks for it.
        """
        for unsynced in self.take_unsynced():
            unsynced.sync()
        self.journal.close()
        self.close()

    def take_unsynced(self) -> list[Syncable]:
        """What a sync of log and journal has to cover, on any thread."""
        self._log.mark_unsynced(self._flusher.flushed)
        return [*self._log.take_unsynced(), *self.journal.take_unsynced()]

    def append_copy(self, data: bytes, *, is_all: bool = False) -> int:
        """Write the whole records that `data` begins with at the log's end; how many bytes.

        All lie in one segment, and nobody can read them yet. What is left over is the beginning of
        a record: call again with more of it. The head of a blank record closes the segment; its
        zeros may be left out. What is no record, before one that is whole or if `is_all` before the
        end, is damaged in the other log too: it is written as it is, and reported.
        """
        at = 0
        while True:
            end, is_blank, detail = self._whole_until(data, at)
            if end > at:
                self._log.append_copy(data[at:end])
            at = end
            if is_blank:
                return self._append_blank(data, at)
            if not detail and not (is_all and at < len(data)):
                return at
            if self.is_rocketmq_copy:
                end = at + self._check_doubtful(data[at:], detail)
            else:
                end = self._next_whole(data, at) or (len(data) if is_all else at)
            if end == at:
                return at
            start, bad = self._log.written, data[at:end]
            self._log.append_copy(bad)
            detail = f"{detail or 'a record is cut'}; so it is in the leader's log"
            self.damage_log.add(Damage(start, start + len(bad), detail))
            at = end

    def _append_blank(self, data: bytes, at: int) -> int:
        """Close the segment with the blank record at `at`; where it ends in `data`.

        RocketMQ may leave other bytes than zeros in one, so of its own all are written.
        """
        size = BLANK.unpack_from(data, at)[0] if self.is_rocketmq_copy else BLANK.size
        if at + size > len(data):
            return at
        self._log.append_copy(data[at : at + size], is_blank=True)
        return at + size

    def _check_doubtful(self, data: bytes, detail: str) -> int:
        """The size of a record that cannot be read, and was the same when it came before.

        Corrupt for any other: no CRC says whether an Apache master's bytes were damaged on their
        way, so they have to come twice.
        """
        position = self._log.written
        size, *_, stated = place_in(data) or (0, 0)
        doubtful = position, crc32(data[:size])
        if not BLANK.size < size <= len(data) or stated != position or self._doubtful != doubtful:
            self._doubtful = doubtful
            raise Corrupt(f"no record lies at {position}: {detail or 'it is cut'}")
        return size

    def _whole_until(self, data: bytes, at: int) -> tuple[int, bool, str]:
        """Where the whole records at `at` end, whether a blank one follows, else what is wrong."""
        base, starts, detail = self._log.written - at, list[int](), ""
        stop = base + at - (base + at) % self._log.segment_bytes + self._log.segment_bytes
        is_blank = False
        while at + BLANK.size <= len(data):
            size, magic = BLANK.unpack_from(data, at)
            is_blank = magic == MAGIC_BLANK and base + at + size == stop
            if is_blank:
                break
            if not RECORD_BYTES_MIN <= size <= stop - base - at:
                detail = NO_RECORD
                break
            if at + size > len(data):
                break
            starts.append(at)
            at += size
        for start, message in zip(starts, decode_run(data, starts), strict=True):
            if isinstance(message, Corrupt):
                return start, False, message.detail
            if message.position != base + start:
                return start, False, f"the record says it lies at {message.position}"
        return at, is_blank, detail

    def _next_whole(self, data: bytes, at: int) -> int:
        """Where in `data` the first whole record or blank behind `at` begins; 0: nowhere."""
        base = self._log.written - at
        scan = LogScan(
            _Bytes(data[at:], base + at, self.segment_bytes), base + at, base + len(data)
        )
        next(scan.records(), None)
        return scan.damages[0].end - base if scan.damages else 0

    def hold_copies(self) -> None:
        """After recovery, which knew no later change of the journal than the copy had.

        What lies behind the checkpoint is looked at once more with the next `show_copies`, as some
        of it may be of topics that were not known; until then no checkpoint moves over it.
        """
        self._dispatch.position = self._checkpointed
        self._is_held = True

    def reread_from(self, start: int) -> None:
        """The leader made changes anew that follow from records behind `start`.

        One such change may stand for many records: a start that leaves it out has to meet them all.
        So no checkpoint may stay that is further on.
        """
        if start >= self._checkpointed:
            return
        marked = msgspec.structs.replace(
            self._marked, confirmed=start, entries=None, index_file=None
        )
        save_checkpoint(self._files, self._root / "checkpoint", marked)
        self._marked, self._checkpointed = marked, start

    def show_copies(self, end: int, is_wanted: Callable[[StoredMessage], bool]) -> bool:
        """Make records below `end` readable that are not yet and are wanted; whether all are.

        Some hundred at once: call it again until it is true. DiskFull where there is no room for
        their entries: call it again then, too.
        """
        self._dispatch.release(self._flusher.flushed)
        if self._dispatch.failure is not None:
            raise disk_full(str(self._dispatch.failure))
        start = self._dispatch.position
        if self._is_held:
            self._index.write()
            self._index.truncate(start)  # what follows is added in the log's order
            self._is_held = False
        limit = min(end, start + SHOW_BYTES)
        reached = self._show_until(start, limit, is_wanted)
        if reached == start and limit < end:  # a long record, or the end of a segment
            limit = end
            reached = self._show_until(start, end, is_wanted, is_one=True)
        if reached == start:
            self._dispatch.position = limit
        return self._dispatch.position >= end

    def _show_until(
        self,
        start: int,
        limit: int,
        is_wanted: Callable[[StoredMessage], bool],
        *,
        is_one: bool = False,
    ) -> int:
        """Dispatch the whole records before `limit`, or the first; where the last of them ends."""
        scan = LogScan(self._log, start, limit)
        oldest = self._log.oldest_base
        again = Redispatch(self._index, self._queue, self._codes.code_of, oldest=oldest)
        for message in scan.records():
            if is_wanted(message):
                again.add(message)
            if is_one:
                break
        again.finish()
        if again.failure is not None:
            self._dispatch.owe([*again.owing.values()], scan.end, again.failure)
            raise disk_full(str(again.failure))
        self._dispatch.position = scan.end
        return scan.end


class _Bytes:
    """A stretch of a log in memory, as a scan reads it."""

    def __init__(self, data: bytes, position: int, segment_bytes: int) -> None:
        self._data, self._position, self.segment_bytes = data, position, segment_bytes

    def bases(self) -> tuple[int]:
        return (self._position - self._position % self.segment_bytes,)

    def read(self, position: int, size_bytes: int) -> bytes:
        at = position - self._position
        return self._data[at : at + size_bytes] if at >= 0 else b""
