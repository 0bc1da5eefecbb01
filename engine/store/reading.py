"""Reads a store: entries, records, positions by key and by time.

The half of `Store` that changes nothing. Records are read from the page cache; those that may be
cold have jobs for the pool (`reader_of`, `reader_at`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import add

from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import Corrupt, MessageNotFound
from engine.events import CorruptRecord, EventBus
from engine.message import StoredMessage
from engine.store import kernel
from engine.store.background_reader import BackgroundReader, RecordBatch
from engine.store.commit_log import CommitLog
from engine.store.consume_queue import ENTRY, ConsumeQueue, QueueEntry, entries_layout
from engine.store.damage import Damage, DamageLog
from engine.store.decoding import decode, decode_run
from engine.store.dispatch import Dispatch
from engine.store.entry_codes import CodeCheck, EntryCodes, TagCode
from engine.store.files import Files
from engine.store.kernel import StoredColumns
from engine.store.key_index import KeyIndex
from engine.store.queue_mending import Mender
from engine.store.record import (
    HEAD_BYTES_MAX,
    RECORD_BYTES_MIN,
    stored_ms_in,
    times_in,
)
from engine.store.sealed_files import SealedFiles

RUN_BYTES_MAX = 1024 * 1024
NEAR_COUNT_MIN = 8  # fewer are read as quickly by message
GAP_BYTES_MAX = 64 * 1024  # of other queues' records, read along with as many bytes as wanted


class StoreReader:
    """Log, queues and key index of one directory, as a reader sees them."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        files: Files,
        events: EventBus,
        tag_codes: dict[str, TagCode],
        code_checks: dict[str, CodeCheck],
    ) -> None:
        self._clock = clock
        self._files = files
        self._events = events
        self._tag_codes = tag_codes
        self._codes = EntryCodes(tag_codes, code_checks)
        self._root = config.data
        sealed = self._sealed_files = SealedFiles(files, config.log_files_max)
        self._log = CommitLog(files, self._root / "commitlog", config.segment_bytes, sealed)
        self._index = KeyIndex(
            files, self._root / "index", config.index_slots, config.index_items, sealed
        )
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._dispatch = Dispatch(self._index)
        self.damage_log = DamageLog(files, self._root)
        self._mender = Mender(self._log, self.damage_log, self._codes)

    @property
    def written(self) -> int:
        """The position after the last record."""
        return self._log.written

    @property
    def readable(self) -> int:
        """The position up to which records can be read."""
        return self._dispatch.position

    @property
    def oldest(self) -> int:
        """The position of the first byte that retention left."""
        return self._log.oldest

    def bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """First offset still kept, and one past the last readable one; (0, 0) if unknown."""
        known = self._queues.get((topic, queue))
        return (0, 0) if known is None else (known.min_offset(self._log.oldest), known.visible)

    def end(self, topic: str, queue: int) -> int:
        """One past the last readable offset; 0 if the queue is unknown."""
        known = self._queues.get((topic, queue))
        return 0 if known is None else known.visible

    def entries(self, topic: str, queue: int, offset: int, count_max: int) -> list[QueueEntry]:
        """Readable entries from `offset` (or the first kept) on, at most `count_max`."""
        known = self._queues.get((topic, queue))
        if known is None:
            return []
        return known.read(max(offset, known.min_offset(self._log.oldest)), count_max)

    def read_entries(
        self, entries: Sequence[QueueEntry], place: tuple[str, int] | None = None
    ) -> list[StoredMessage | None]:
        """The messages of these entries; None where a record is damaged or gone.

        `place` is the topic and the queue that they are of: an entry that does not fit its record
        is then mended from the log, and reported.
        """
        messages: list[StoredMessage | None] = []
        for run in _contiguous(entries):
            start, last = run[0].position, run[-1]
            size = last.position + last.size_bytes - start if last.has_record else 0
            data = self._log.read(start, size)
            starts = [entry.position - start for entry in run]
            read = decode_run(data, starts, self._log.crc_range)
            for entry, message in zip(run, read, strict=True):
                if isinstance(message, StoredMessage) and (
                    message.position == entry.position
                    and message.offset == entry.offset
                    and (place is None or (message.topic, message.queue) == place)
                ):
                    messages.append(message)
                    if place is not None and not self._codes.fits(message, entry.tag_code):
                        self._mend_code(message)
                else:
                    messages.append(self._mended(entry, message, place))
        return messages

    def read_columns(
        self, topic: str, queue: int, offset: int, *, count_max: int, bytes_max: int
    ) -> StoredColumns | None:
        """The plain records from a kept `offset` on that lie near each other in the log.

        Together of `bytes_max` bytes at most. None where the first of them is not plain, or too
        large, or lies alone: read by message then, which also tells damage.
        """
        known = self._queues.get((topic, queue))
        packed = b"" if known is None else known.read_packed(offset, count_max)
        fields = entries_layout(len(packed) // ENTRY.size).unpack(packed)
        totals = list(accumulate(fields[1::3]))
        count = bisect_right(totals, bytes_max)
        count = count and _near_count(fields, totals, count)
        if not count:
            return None
        start = fields[0]
        data = self._log.read(start, fields[3 * count - 3] + fields[3 * count - 2] - start)
        columns = StoredColumns(
            *kernel.stored_columns(
                data, packed[: count * ENTRY.size], start, offset, queue, topic.encode()
            )
        )
        return columns if columns.message_count else None

    def read_at(self, position: int, *, held: bool = False) -> StoredMessage:
        """The record that begins at `position`; MessageNotFound when there is none.

        With `held` also one that is written and not to be seen yet: see `positions_held`.
        """
        size = 0
        end = self._log.written if held else self._dispatch.position
        if self._log.oldest <= position < end:
            size = int.from_bytes(self._log.read(position, 4), "big")
        if RECORD_BYTES_MIN <= size <= self._log.segment_bytes:
            try:
                message = decode(self._log.read(position, size), crc_range=self._log.crc_range)
            except Corrupt:
                message = None
            if message is not None and message.position == position:
                return message
        raise MessageNotFound(f"no message lies at position {position}", field="position")

    def positions_of_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = 64,
        begin_ms: int = 0,
        end_ms: int = 1 << 62,
    ) -> list[int]:
        """Where messages with this key or id may lie, newest first; compare the text yourself."""
        return [
            position
            for position in self._index.positions(
                topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
            )
            if position >= self._log.oldest
        ]

    def positions_held(self, topic: str, key: str) -> list[int]:
        """The same for records that wait for their flush, or for room, before they can be read."""
        return self._dispatch.positions_held(topic, key)

    def places_of_key(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 1 << 62
    ) -> Iterator[int | None]:
        """The same bit by bit; after a None it may be left alone and asked on later."""
        for position in self._index.iter_places(topic, key, begin_ms=begin_ms, end_ms=end_ms):
            if position is None or position >= self._log.oldest:
                yield position

    @property
    def index_file_count(self) -> int:
        """Number of key index files: a search reads each of them."""
        return self._index.file_count

    def has_tag_codes(self, topic: str) -> bool:
        """Whether the third field of a topic's entries is the hash of the tag."""
        return topic not in self._tag_codes

    def reader_of(
        self, entries: Sequence[QueueEntry], places: Sequence[tuple[str, int]]
    ) -> Callable[[], list[StoredMessage | None]]:
        """A job that reads the messages of these entries on any thread; None for what is gone.

        `places` are the topics and queues that they are of; a record that says it is of another
        place, or another offset, is None as well.
        """
        pieces: list[RecordBatch | None] = []
        for run in _contiguous(entries):
            place = self._log.segment_at(run[0].position)
            if place is None or not all(entry.has_record for entry in run):
                pieces += [None] * len(run)
                continue
            size = run[-1].position + run[-1].size_bytes - run[0].position
            pieces.append(RecordBatch(*place, [entry.position for entry in run], size))
        read = BackgroundReader(self._files, pieces, self._log.crc_range)
        requests = [(*of, entry.offset) for of, entry in zip(places, entries, strict=True)]
        return lambda: [
            message
            if message is not None and (message.topic, message.queue, message.offset) == place
            else None
            for message, place in zip(read(), requests, strict=True)
        ]

    def reader_at(self, positions: Sequence[int]) -> Callable[[], list[StoredMessage | None]]:
        """The same for records that begin at these positions; None where no readable one does."""
        pieces: list[RecordBatch | None] = []
        for position in positions:
            is_readable = self._log.oldest <= position < self._dispatch.position
            place = self._log.segment_at(position) if is_readable else None
            segment_bytes = self._log.segment_bytes
            pieces.append(
                None if place is None else RecordBatch(*place, [position], 0, segment_bytes)
            )
        return BackgroundReader(self._files, pieces, self._log.crc_range)

    def positions_of_id(self, topics: Sequence[str], message_id: str, count_max: int) -> list[int]:
        """Where messages with this id may lie in any of `topics`, but for where it was made."""
        positions = self._index.positions_in(topics, message_id, count_max)
        return [position for position in positions if position >= self._log.oldest]

    def finders_of_id(
        self, topics: Sequence[str], message_id: str, count_max: int
    ) -> "Iterator[int | Callable[[], list[int]]]":
        """The same for thousands of topics: positions, or work for a thread that finds some."""
        return self._index.finders(topics, message_id, count_max)

    def offset_at_time(self, topic: str, queue: int, at_ms: int) -> int:
        """The first offset stored at or after `at_ms`; one past the last when all are older."""
        known = self._queues.get((topic, queue))
        if known is None:
            return 0

        def is_late(entry: QueueEntry) -> bool:
            return (self.stored_ms_at(entry) or 0) >= at_ms

        return known.first_where(is_late, known.min_offset(self._log.oldest))

    def offset_at_position(self, topic: str, queue: int, position: int) -> int:
        """The first offset whose record lies at or past `position`; the end when none does."""
        known = self._queues.get((topic, queue))
        if known is None:
            return 0
        first = known.min_offset(self._log.oldest)
        return known.first_where(lambda entry: entry.position >= position, first)

    def stored_ms_at(self, entry: QueueEntry) -> int | None:
        """When the entry's record was stored; None when it cannot be read."""
        return self.stored_ms_of(entry.position) if entry.has_record else None

    def born_ms(self, topic: str, queue: int, offset: int) -> int | None:
        """When a message was made at its producer; None when its record cannot be read."""
        entries = self.entries(topic, queue, offset, 1)
        if not entries or entries[0].offset != offset or not entries[0].has_record:
            return None
        position = entries[0].position
        if not self._log.oldest <= position < self._log.written:
            return None
        times = times_in(self._log.read(position, HEAD_BYTES_MAX), position)
        return None if times is None else times[0]

    def stored_ms_of(self, position: int) -> int | None:
        """When the record that begins at `position` was stored; None when none does."""
        if not self._log.oldest <= position < self._log.written:
            return None
        return stored_ms_in(self._log.read(position, HEAD_BYTES_MAX), position)

    def last_stored_ms(self, topic: str, queue: int) -> int | None:
        """When the last readable message of a queue was stored; None when none is left."""
        known = self._queues.get((topic, queue))
        if known is None or known.min_offset(self._log.oldest) >= known.visible:
            return None
        return known.last_stored_ms(self.stored_ms_at)

    def segments(self) -> tuple[int, ...]:
        """Positions at which the log's segments begin, oldest first."""
        return self._log.bases()

    def queue_keys(self) -> list[tuple[str, int]]:
        """Topic and number of every queue that ever held a message."""
        return list(self._queues)

    def queues_of(self, topic: str) -> list[int]:
        """Numbers of the queues of `topic` that ever held a message."""
        return sorted(queue for name, queue in self._queues if name == topic)

    def _mended(
        self, entry: QueueEntry, result: StoredMessage | Corrupt, place: tuple[str, int] | None
    ) -> StoredMessage | None:
        """What lies where an entry points is not its record: look for that, else tell the damage.

        Nothing new where retention took it.
        """
        if not entry.has_record:
            return None
        queue = None if place is None else self._queues.get(place)
        if queue is not None and not queue.is_deleted:
            if entry.offset < queue.min_offset(self._log.oldest):
                return None
            is_record = isinstance(result, Corrupt) and self._mender.fits(queue.id, entry)
            mended = None if is_record else self._mender.mend(queue, entry.offset)
            if mended is not None:
                return mended
        if entry.position >= self._log.oldest:
            self._tell_damage(entry, result)
        return None

    def _mend_code(self, message: StoredMessage) -> None:
        """The entry has another tag or time than its record: report it."""
        queue = self._queues.get((message.topic, message.queue))
        if queue is not None and not queue.is_deleted:
            self._mender.put(queue, message)

    def _tell_damage(self, entry: QueueEntry, result: StoredMessage | Corrupt) -> None:
        if isinstance(result, Corrupt):
            detail = result.detail
        else:
            detail = f"it says it lies at {result.position} as offset {result.offset}"
        end = entry.position + max(0, entry.size_bytes)
        self.damage_log.add(Damage(entry.position, end, f"a record cannot be read: {detail}"))
        if self._events.has_subscribers:
            self._events.emit(CorruptRecord(self._clock.now_ms(), entry.position, detail))


def _contiguous(entries: Sequence[QueueEntry]) -> list[list[QueueEntry]]:
    """Entries in runs that lie one behind the other in the log, each read with one call."""
    if len(entries) < 2:
        return [list(entries)] if entries else []
    runs = [[entries[0]]]
    size = entries[0].size_bytes
    for before, entry in pairwise(entries):
        size += entry.size_bytes
        if before.position + before.size_bytes == entry.position and size <= RUN_BYTES_MAX:
            runs[-1].append(entry)
        else:
            runs.append([entry])
            size = entry.size_bytes
    return runs


def _near_count(fields: Sequence[int], totals: Sequence[int], count: int) -> int:
    """How many of the first `count` entries are read together; 0 where that is no gain.

    Each entry is three fields: position, size, tag code. `totals` are the sizes, summed up.
    """
    start, total = fields[0], totals[count - 1]
    if total <= fields[3 * count - 3] + fields[3 * count - 2] - start <= 2 * total + GAP_BYTES_MAX:
        return count
    near = 0
    for total, end in zip(totals, map(add, fields[::3], fields[1::3]), strict=True):
        if not total <= end - start <= 2 * total + GAP_BYTES_MAX:
            break
        near += 1
    return near if near >= NEAR_COUNT_MIN else 0
