"""Scans a topic: all its queues merged in the order of storing or its reverse, page by page.

The log is written in the order of storing, so the positions in the entries of the queues, which
are 20 bytes each, give the order without a record being read; and one position says where the next
page goes on, however many queues there are. Records are read by a job in the pool.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, islice, repeat
from operator import itemgetter
from typing import NamedTuple, Protocol

import msgspec

from engine.compression import plain_body
from engine.message import BODY_BYTES_MAX, StoredMessage
from engine.search.cursor import Cursor, digest_of, read_cursor, write_cursor
from engine.store.consume_queue import QueueEntry
from engine.store.pool import Pool
from engine.store.store import Store

ANYWHERE = 1 << 62  # a position behind every record
FOREVER_MS = 1 << 62
COUNT_MAX = 200
PAGE_BYTES_MAX = 4 * 1024 * 1024
STEP_QUEUES_MAX = 8  # whose ends are searched in one step: some 40 small reads each
STEP_ENTRIES_MAX = 2000
STEP_RECORDS_MAX = 500
STEP_LANES_MAX = 2000  # queues that are looked at to merge what they have
STEP_BYTES_MAX = 1024 * 1024
BLOCK_ENTRIES_MAX = 512

# What was read, and whether each body holds the text.
Looked = tuple[list[StoredMessage | None], list[bool]]
Done = Callable[[Exception | None], None]


class Match(Protocol):
    """A condition on messages; `engine.delivery.filter` implements it."""

    @property
    def is_all(self) -> bool: ...

    def may_match(self, tag_code: int) -> bool: ...

    def matches(self, message: StoredMessage) -> bool: ...


class ScanQuery(msgspec.Struct, frozen=True):
    """Conditions of a scan: messages stored from `begin_ms` to before `end_ms` (ms since 1970 UTC).

    Those before `begin_position` in the log are left out.
    `filter` is "*", tags, or an SQL92 expression; `contains` is a text that the body holds, as its
    UTF-8 bytes (of a body that its producer compressed, once it is decompressed). The order is
    that of storing, or its reverse if `is_newest_first`.
    """

    topic: str
    begin_ms: int = 0
    end_ms: int = FOREVER_MS
    filter: str = "*"
    contains: str = ""
    begin_position: int = 0
    is_newest_first: bool = False


class ScanPage(msgspec.Struct, frozen=True):
    """Messages in the order of the query, and how far the search has come over all its pages.

    `scanned` of `total` messages were looked at and `matched` found. `next_cursor` goes on, None
    at the end. `reached_ms` is when the last message looked at was stored. `unreadable` of this
    page's messages are damaged or gone.
    """

    items: list[StoredMessage]
    scanned: int
    total: int
    matched: int
    next_cursor: str | None
    reached_ms: int | None
    unreadable: int


class RankedEntry(NamedTuple):
    """An entry of a queue; of several queues the one with the lowest rank comes next."""

    rank: int
    entry: QueueEntry
    queue: int


class QueueReader:
    """One queue on its way from an offset to another; `_block` holds entries read ahead."""

    __slots__ = ("_block", "_block_max", "_end", "_next", "_rank", "_store", "_topic", "queue")
    SIGN = 1  # of ranks, which are positions in the log

    def __init__(
        self, store: Store, topic: str, queue: int, begin: int, end: int, block_max: int
    ) -> None:
        self._store = store
        self._topic = topic
        self.queue = queue
        self._next = begin
        self._end = end
        self._block_max = block_max
        self._block: list[RankedEntry] = []
        self._rank = -ANYWHERE

    def ahead(self) -> list[RankedEntry]:
        """Entries that come next; none at the end."""
        if not self._block:
            entries = self._read_block()
            if not entries:
                self._next = self._end
                return []
            # A queue's own order stands, whatever the positions of entries without a record say.
            positions = [self.SIGN * entry.position for entry in entries]
            ranks = islice(accumulate(positions, max, initial=self._rank), 1, None)
            self._block = list(map(RankedEntry, ranks, entries, repeat(self.queue)))
            self._rank = self._block[-1].rank
        return self._block

    def take(self, rank_max: int) -> list[RankedEntry]:
        """Go on behind the entries that were read ahead up to a rank."""
        count = bisect_right(self._block, rank_max, key=itemgetter(0))
        taken, self._block = self._block[:count], self._block[count:]
        return taken

    def _read_block(self) -> list[QueueEntry]:
        block = self._entries(self._next, min(self._block_max, self._end - self._next))
        if block:
            self._next = block[-1].offset + 1
        return block

    def _entries(self, offset: int, count: int) -> list[QueueEntry]:
        if count <= 0:
            return []
        entries = self._store.entries(self._topic, self.queue, offset, count)
        return [entry for entry in entries if entry.offset < self._end]


class BackwardQueueReader(QueueReader):
    """The same queue from its end back to the first offset."""

    __slots__ = ()
    SIGN = -1

    def _read_block(self) -> list[QueueEntry]:
        first = max(self._next, self._end - self._block_max)
        block = self._entries(first, self._end - first)
        self._end = first
        return block[::-1]


class Candidate(NamedTuple):
    """An entry of a queue whose record decides, and how many were looked at before it."""

    entry: QueueEntry
    queue: int
    scanned: int


class MessageScan:
    """One page in the making: `step` until `is_over`, one step at a time; then `page`."""

    def __init__(
        self,
        store: Store,
        pool: Pool,
        query: ScanQuery,
        match: Match,
        queue_count: int,
        *,
        count_max: int = 32,
        cursor: str = "",
    ) -> None:
        """At most `count_max` (1 to 200) messages, 4 MiB of records. Raises Invalid (cursor)."""
        self._store = store
        self._pool = pool
        self._query = query
        self._match = match
        self._needle = query.contains.encode()
        self._has_tags = store.has_tag_codes(query.topic)
        self._count_max = max(1, min(count_max, COUNT_MAX))
        self._digest = digest_of(query)
        self._start = read_cursor(cursor, self._digest, Cursor) if cursor else None
        self._is_newest_first = query.is_newest_first
        # What is left to look at lies from `_position` to before `_end`, whatever the order.
        self._position, self._end = (ANYWHERE if query.is_newest_first else 0), 0
        self.scanned = self.total = self.matched = 0
        if self._start is not None:
            _, self._position, self._end, self.scanned, self.total, self.matched = (
                msgspec.structs.astuple(self._start)
            )
        self._unplaced = list(range(queue_count))
        self._block_max = max(16, BLOCK_ENTRIES_MAX // max(1, queue_count))
        self._lanes: list[QueueReader] = []  # that have entries ahead
        self._merged: list[RankedEntry] = []  # what comes next of all queues, from `_at` on
        self._at = 0
        self._last: QueueEntry | None = None
        self._messages: list[StoredMessage] = []
        self._size_bytes = 0
        self._unreadable = 0
        self._is_full = False

    @property
    def is_over(self) -> bool:
        """Whether the page is full, or nothing is left to look at."""
        return self._is_full or not (self._unplaced or self._has_more)

    @property
    def _has_more(self) -> bool:
        return bool(self._lanes) or self._at < len(self._merged)

    @property
    def is_placed(self) -> bool:
        """Whether the ends of all queues are known; only then can a page say where to go on."""
        return not self._unplaced

    def step(self, done: Done) -> None:
        """Look at a bounded number of messages; `done` is called on the owner's thread, once."""
        if self._unplaced:
            self._place_some()
            done(None)
            return
        candidates = self._choose()
        if not candidates:
            done(None)
            return
        step = -1 if self._is_newest_first else 1  # neighbours in the log are read together
        places = [(self._query.topic, each.queue) for each in candidates[::step]]
        read = self._store.reader_of([each.entry for each in candidates[::step]], places)

        def look() -> Looked:
            messages = read()[::step]
            return messages, [self._holds(message) for message in messages]

        def on_read(looked: Looked | None, error: Exception | None) -> None:
            if looked is not None:
                self._take(candidates, *looked)
            done(error)

        self._pool.submit(look, on_read)

    def page(self) -> ScanPage:
        """The matches so far; a page that is not over goes on at its `next_cursor` as well."""
        assert self.is_placed, "a page before its time"
        is_left = self._has_more or (self._is_full and self._position < self._end)
        return ScanPage(
            items=self._messages,
            scanned=self.scanned,
            total=self.total,
            matched=self.matched,
            next_cursor=self._cursor() if is_left else None,
            reached_ms=None if self._last is None else self._store.stored_ms_at(self._last),
            unreadable=self._unreadable,
        )

    # -- where to look ---------------------------------------------------------------------------

    def _place_some(self) -> None:
        part, self._unplaced = (
            self._unplaced[:STEP_QUEUES_MAX],
            self._unplaced[STEP_QUEUES_MAX:],
        )
        for queue in part:
            begin, end = self._ends_of(queue)
            reader = BackwardQueueReader if self._is_newest_first else QueueReader
            lane = reader(self._store, self._query.topic, queue, begin, end, self._block_max)
            if lane.ahead():
                self._lanes.append(lane)

    def _ends_of(self, queue: int) -> tuple[int, int]:
        """The first offset to look at, and the one after the last."""
        store, topic, query = self._store, self._query.topic, self._query
        if self._start is not None:
            return (
                store.offset_at_position(topic, queue, self._position),
                store.offset_at_position(topic, queue, self._end),
            )
        begin, end = store.bounds(topic, queue)
        if query.begin_ms > 0:
            begin = store.offset_at_time(topic, queue, query.begin_ms)
        if query.begin_position > 0:
            begin = max(begin, store.offset_at_position(topic, queue, query.begin_position))
        if query.end_ms < FOREVER_MS:
            end = store.offset_at_time(topic, queue, query.end_ms)
        if begin < end:
            self.total += end - begin
            last = store.entries(topic, queue, end - 1, 1)
            if last:
                self._end = max(self._end, last[0].position + 1)
            first = store.entries(topic, queue, begin, 1) if self._is_newest_first else []
            if first:
                self._position = min(self._position, first[0].position)
        return begin, end

    # -- looking ---------------------------------------------------------------------------------

    def _choose(self) -> list[Candidate]:
        """Go on over entries, in order, and gather those whose record has to be read."""
        by_tag, may_match = self._has_tags and not self._match.is_all, self._match.may_match
        records_max = self._records_max()
        candidates: list[Candidate] = []
        looked = size_bytes = lanes = 0
        while looked < STEP_ENTRIES_MAX and len(candidates) < records_max and self._has_more:
            if self._at >= len(self._merged):
                if lanes > STEP_LANES_MAX:
                    break
                lanes += len(self._lanes)
                self._merge()
            _, entry, queue = self._merged[self._at]
            if entry.has_record and (not by_tag or may_match(entry.tag_code)):
                size_bytes += entry.size_bytes
                if size_bytes > STEP_BYTES_MAX and candidates:
                    break
                candidates.append(Candidate(entry, queue, self.scanned + looked))
            looked += 1
            self._at += 1
            self._last = entry
        self.scanned += looked
        if self._last is not None:
            self._leave_behind(self._last)
        return candidates

    def _merge(self) -> None:
        """Take what all queues have ahead up to where one of them has to be read further."""
        rank_max = min(lane.ahead()[-1].rank for lane in self._lanes)
        taken = [each for lane in self._lanes for each in lane.take(rank_max)]
        self._merged, self._at = sorted(taken, key=itemgetter(0)), 0
        self._lanes = [lane for lane in self._lanes if lane.ahead()]

    def _leave_behind(self, entry: QueueEntry) -> None:
        if self._is_newest_first:
            self._end = entry.position
        else:
            self._position = entry.position + 1

    def _records_max(self) -> int:
        """No more than are wanted where every record will do."""
        if self._match.is_all and not self._needle:
            return min(STEP_RECORDS_MAX, self._count_max - len(self._messages))
        return STEP_RECORDS_MAX

    def _take(
        self,
        candidates: Sequence[Candidate],
        messages: Sequence[StoredMessage | None],
        holds: Sequence[bool],
    ) -> None:
        rows = zip(candidates, messages, holds, strict=True)
        for (entry, _, scanned), message, is_held in rows:
            if message is None:
                self._unreadable += 1
            elif is_held and self._matches(message):
                self._messages.append(message)
                self.matched += 1
                self._size_bytes += message.size_bytes
                if self._is_page_full():
                    self._stop_after(entry, scanned + 1)
                    return

    def _holds(self, message: StoredMessage | None) -> bool:
        """Whether the body that was sent holds the text; for a thread, keeps nothing."""
        if not self._needle or message is None:
            return True
        if not message.is_compressed:
            return self._needle in message.body
        plain = plain_body(message.body, message.sys_flag, bytes_max=BODY_BYTES_MAX)
        return self._needle in plain.body

    def _matches(self, message: StoredMessage) -> bool:
        query = self._query
        is_in_time = query.begin_ms <= message.stored_ms < query.end_ms
        return is_in_time and self._match.matches(message)

    def _is_page_full(self) -> bool:
        return len(self._messages) >= self._count_max or self._size_bytes >= PAGE_BYTES_MAX

    def _stop_after(self, entry: QueueEntry, scanned: int) -> None:
        """The page ends here: what was looked at behind it is for the next one."""
        self._is_full = True
        self._last = entry
        self._leave_behind(entry)
        self.scanned = scanned

    def _cursor(self) -> str:
        counts = (self.scanned, self.total, self.matched)
        return write_cursor(Cursor(self._digest, self._position, self._end, *counts))
