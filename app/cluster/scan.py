"""Looks through a topic of a cluster: all its queues merged by the time of storing, page by page.

Messages are pulled and looked at here, so any filter and any text will do. A cursor is the place of
the last message looked at; each queue goes on behind that time.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.reading import PULL_MAX, READ_COUNT
from app.cluster.routes import ClusterQueue
from app.cluster.verbs.part import ClusterPart, all_of
from engine.broker import ScanPage, ScanQuery, parse_filter
from engine.errors import Busy
from engine.message import StoredMessage
from engine.search.cursor import Cursor, digest_of, read_cursor, write_cursor

COUNT_MAX = 200
PAGE_BYTES_MAX = 4 * 1024 * 1024
READ_BYTES = 8 * 1024 * 1024  # of all queues at once
LOOK_AT_ONCE = 100  # messages, between which others work


class TimeCursor(Cursor, frozen=True, array_like=True):
    """A cursor whose position and end are times; behind `offset` of `queue` in that millisecond."""

    queue: int
    offset: int


class ScannedQueue:
    """The offsets `low` to `high` - 1 of a queue, read from one end; `ahead` comes next."""

    def __init__(self, place: ClusterQueue, number: int, low: int, high: int) -> None:
        self.place, self.number, self.low, self.high = place, number, low, high
        self.ahead: deque[StoredMessage] = deque()
        self.count = READ_COUNT

    @property
    def is_waiting(self) -> bool:
        """Whether it has to be read before one can say what comes next."""
        return not self.ahead and self.low < self.high


class ClusterScan(ClusterPart):
    """One page of a search."""

    def __init__(
        self, catalog: ClusterCatalog, query: ScanQuery, count_max: int, cursor: str
    ) -> None:
        """Raises Invalid for the filter, or the cursor."""
        super().__init__(catalog)
        self._query = query
        self._count_max = max(1, min(count_max, COUNT_MAX))
        self._match = parse_filter(query.filter)
        self._text = query.contains.encode()
        self._sign = -1 if query.is_newest_first else 1
        self._digest = digest_of(query)
        self._cursor = read_cursor(cursor, self._digest, TimeCursor) if cursor else None
        self._queues: list[ScannedQueue] = []
        self._items: list[StoredMessage] = []
        self._bytes = self._scanned = 0
        self._last: StoredMessage | None = None

    async def page(self, budget_s: float) -> ScanPage:
        """The page, which ends early at the limit of time; TopicNotFound, Busy."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + budget_s
        await self._begin()
        while (left := [each for each in self._queues if each.low < each.high or each.ahead]) and (
            not self._is_full() and (loop.time() < end_s or not self._scanned)
        ):
            await all_of(self._read(each, len(left)) for each in left if each.is_waiting)
            self._look(left)
            await asyncio.sleep(0)
        return self._page(is_over=not left)

    async def _begin(self) -> None:
        query, after = self._query, self._cursor
        config = await self._catalog.topic(query.topic)
        now_ms = self._catalog.now_ms()
        end_ms = after.end if after else min(query.end_ms, now_ms + 1)
        self._end_ms = end_ms
        begin_ms = query.begin_ms
        if after and query.is_newest_first:
            end_ms = after.position + 1
        elif after:
            begin_ms = after.position
        self._queues = await all_of(
            self._queue(number, begin_ms, end_ms) for number in range(config.read_queues)
        )
        self._total = after.total if after else sum(each.high - each.low for each in self._queues)

    async def _queue(self, number: int, begin_ms: int, end_ms: int) -> ScannedQueue:
        place = self._numbers.place(self._query.topic, number)
        reads = self._client.reads
        with engine_errors():
            low, high = await reads.min_offset(place), await reads.max_offset(place)
            if low < high and begin_ms:
                low = max(low, await reads.offset_at(place, begin_ms))
            if low < high and end_ms <= self._catalog.now_ms():
                high = min(high, await reads.offset_at(place, end_ms))
        return ScannedQueue(place, number, low, max(low, high))

    async def _read(self, queue: ScannedQueue, queues: int) -> None:
        """Have messages ahead of a queue; the newest of the next few where those come first."""
        size = max(64 * 1024, READ_BYTES // queues)
        first = queue.low
        if self._sign < 0:
            first = max(queue.low, queue.high - queue.count)
        messages: list[StoredMessage] = []
        offset = first
        while offset < queue.high:
            with engine_errors():
                page = await self._client.reads.pull(
                    queue.place,
                    offset,
                    count_max=min(PULL_MAX, READ_COUNT, queue.high - offset),
                    bytes_max=size,
                    is_from_master=True,
                )
            messages += [self._stored(each) for each in page.messages if each.offset < queue.high]
            if page.next_offset <= offset:
                raise Busy(
                    f"queue {queue.number} of {queue.place.topic!r} gives nothing at {offset}",
                    remedy="try again",
                    retry_after_s=1.0,
                )
            offset = page.next_offset
            if self._sign > 0:
                break
        if self._sign > 0:
            queue.low = min(offset, queue.high)
        else:
            queue.high = first
            messages.reverse()
            average = sum(each.size_bytes for each in messages) // max(1, len(messages))
            queue.count = max(1, min(READ_COUNT, size // max(1, average)))
        queue.ahead.extend(each for each in messages if self._is_after(each))

    def _is_after(self, message: StoredMessage) -> bool:
        """Whether the pages before have not looked at it."""
        after = self._cursor
        return after is None or self._order(message) > (
            self._sign * after.position,
            self._sign * after.queue,
            self._sign * after.offset,
        )

    def _order(self, message: StoredMessage) -> tuple[int, int, int]:
        sign = self._sign
        return sign * message.stored_ms, sign * message.queue, sign * message.offset

    def _look(self, queues: Sequence[ScannedQueue]) -> None:
        """Look at what comes next, as long as every queue that has more says what."""
        for _ in range(LOOK_AT_ONCE):
            if self._is_full() or any(each.is_waiting for each in queues):
                return
            filled = [each for each in queues if each.ahead]
            if not filled:
                return
            queue = min(filled, key=lambda each: self._order(each.ahead[0]))
            message = queue.ahead.popleft()
            self._scanned += 1
            self._last = message
            if self._match.matches(message) and self._holds(message):
                self._items.append(message)
                self._bytes += message.size_bytes

    def _holds(self, message: StoredMessage) -> bool:
        if not self._text:
            return True
        holds = self._text in message.plain.body
        message.decompressed = None  # a page of them would take much memory
        return holds

    def _is_full(self) -> bool:
        return len(self._items) >= self._count_max or self._bytes >= PAGE_BYTES_MAX

    def _page(self, *, is_over: bool) -> ScanPage:
        before = self._cursor
        scanned = self._scanned + (before.scanned if before else 0)
        matched = len(self._items) + (before.matched if before else 0)
        total = max(self._total, scanned)
        following = None
        if not is_over and self._last is not None:
            last = self._last
            following = write_cursor(
                TimeCursor(
                    digest=self._digest,
                    position=last.stored_ms,
                    end=self._end_ms,
                    scanned=scanned,
                    total=total,
                    matched=matched,
                    queue=last.queue,
                    offset=last.offset,
                )
            )
        reached_ms = self._last.stored_ms if self._last else None
        return ScanPage(
            items=self._items,
            scanned=scanned,
            total=total,
            matched=matched,
            next_cursor=following,
            reached_ms=reached_ms,
            unreadable=0,
        )
