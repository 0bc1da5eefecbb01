"""Follows topics as messages are stored, without a group or deliveries.

A tail has an offset for every queue. `mark` encodes all of them: a client that returns with it
resumes exactly there, without gaps or duplicates. A read covers at most COUNT_MAX messages and some
milliseconds; a tail that is more than BEHIND_MAX messages behind skips ahead and reports the number
of skipped messages.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from app.messaging import Messaging
from engine.broker import LongPoll, PullResult, PullStatus
from engine.errors import Invalid
from engine.message import StoredMessage

TOPICS_MAX = 8
QUEUES_MAX = 128
COUNT_MAX = 400
PULL_MAX = 160
READ_S = 0.008
READ_BYTES_MAX = 1024 * 1024
BEHIND_MAX = 20_000
CATCH_UP_COUNT = 2_000
MARK_CHARS_MAX = 8_000

Queue = tuple[str, int]


@dataclass(frozen=True)
class TailBatch:
    """Messages in the order of storing, and what there was besides.

    `looked` messages were looked at, `skipped` passed over as the reader was too far behind,
    `gone` taken by retention or a purge before they were read. `mark` stands after all of it.
    """

    messages: list[StoredMessage]
    looked: int
    skipped: int
    gone: int
    is_behind: bool
    mark: str

    @property
    def has_news(self) -> bool:
        return bool(self.messages or self.skipped or self.gone)


@dataclass
class _Read:
    """The result of reading one queue; `is_more`: more can be read at once."""

    messages: list[StoredMessage] = field(default_factory=list)
    begin: int = 0
    following: int = 0
    end: int = 0
    gone: int = 0
    is_more: bool = False


class _Places:
    """Waits on several queues as one."""

    def __init__(self) -> None:
        self.parked: list[LongPoll] = []

    def cancel(self) -> None:
        for parked in self.parked:
            parked.cancel()


class Tail:
    """A reader of up to TOPICS_MAX topics, from now on or from a mark."""

    def __init__(self, messaging: Messaging, topics: Sequence[str], filter: str) -> None:
        self._messaging = messaging
        self._topics = list(dict.fromkeys(topics))
        self._filter = filter
        if not 1 <= len(self._topics) <= TOPICS_MAX:
            raise Invalid(
                f"{len(self._topics)} topics to follow",
                field="topic",
                remedy=f"name 1 to {TOPICS_MAX} of them",
            )
        self._since: dict[str, int] = {}
        self._offsets: dict[Queue, int] = {}
        self._first = 0

    @classmethod
    async def begin(
        cls,
        messaging: Messaging,
        topics: Sequence[str],
        filter: str = "*",
        *,
        mark: str = "",
        lookback: int = 0,
    ) -> "Tail":
        """Begin at `mark`, or `lookback` messages before the end of every queue.

        Raises TopicNotFound, Forbidden (closed for reading), Invalid (filter, mark, too many).
        """
        tail = cls(messaging, topics, filter)
        await tail._begin(_parse_mark(mark, tail._topics), lookback)
        return tail

    async def _begin(self, offsets: dict[Queue, int], lookback: int) -> None:
        for topic in self._topics:
            config = await self._messaging.topic(topic)
            self._since[topic] = config.since_position
            self._offsets |= {(topic, queue): 0 for queue in range(config.read_queues)}
        if len(self._offsets) > QUEUES_MAX:
            raise Invalid(
                f"these topics have {len(self._offsets)} queues, a tail follows {QUEUES_MAX}",
                field="topic",
                remedy="follow fewer topics",
            )
        bounds = await asyncio.gather(
            *(self._messaging.queue_bounds(*queue) for queue in self._offsets)
        )
        for queue, (first, end) in zip(list(self._offsets), bounds, strict=True):
            # A queue that the mark does not know was added after it was made.
            new = first if offsets else max(first, end - lookback)
            self._offsets[queue] = offsets.get(queue, new)
        for topic in self._topics:
            await self._messaging.pull(topic, 0, 0, count_max=1, filter=self._filter)

    @property
    def mark(self) -> str:
        """The current mark."""
        return self._mark(self._offsets)

    def mark_before(self, messages: Sequence[StoredMessage]) -> str:
        """The mark before these messages: a tail that begins there reads them again."""
        first = dict(self._offsets)
        for message in messages:
            queue = (message.topic, message.queue)
            first[queue] = min(first.get(queue, message.offset), message.offset)
        return self._mark(first)

    async def read(self) -> TailBatch:
        """The next messages, bounded; never waits. Raises TopicNotFound, Forbidden, Invalid."""
        await self._find_queues()
        until_s = time.perf_counter() + READ_S
        share = max(4, COUNT_MAX // len(self._offsets))
        turned = self._turned()
        # Of an engine behind a network all are under way at once; the embedded one answers in turn.
        parts = await asyncio.gather(*(self._read(queue, share, until_s) for queue in turned))
        reads = dict(zip(turned, parts, strict=True))
        messages = self._in_order(reads)
        gone = sum(read.gone for read in reads.values())
        scanned = sum(self._offsets[queue] - read.begin for queue, read in reads.items()) - gone
        skipped = self._catch_up(reads)
        return TailBatch(
            messages=messages,
            looked=scanned,
            skipped=skipped,
            gone=gone,
            is_behind=any(self._offsets[queue] < read.end for queue, read in reads.items()),
            mark=self.mark,
        )

    def park(self, wake: Callable[[], None]) -> _Places:
        """Call `wake`, perhaps more than once, when there may be something to read; Busy."""
        places = _Places()
        try:
            for (topic, queue), offset in self._offsets.items():
                places.parked.append(
                    self._messaging.wait_to_pull(topic, queue, offset, self._filter, wake)
                )
        except Exception:
            places.cancel()
            raise
        return places

    # -- inside ----------------------------------------------------------------------------------

    def _mark(self, offsets: dict[Queue, int]) -> str:
        numbers = {topic: number for number, topic in enumerate(self._topics)}
        return ".".join(
            f"{numbers[topic]}-{queue}-{offset}" for (topic, queue), offset in offsets.items()
        )

    async def _find_queues(self) -> None:
        """Topics may get more queues while they are followed, or fewer, or be made anew."""
        for topic in self._topics:
            config = await self._messaging.topic(topic)
            followed = [queue for name, queue in self._offsets if name == topic]
            is_another = config.since_position != self._since[topic]
            self._since[topic] = config.since_position
            for queue in followed:
                if is_another or queue >= config.read_queues:
                    del self._offsets[(topic, queue)]
            for queue in range(config.read_queues):
                if len(self._offsets) < QUEUES_MAX:
                    self._offsets.setdefault((topic, queue), 0)

    def _turned(self) -> list[Queue]:
        """All queues, each time beginning with another one: no busy queue starves the others."""
        queues = list(self._offsets)
        self._first = (self._first + 1) % len(queues)
        return queues[self._first :] + queues[: self._first]

    async def _read(self, queue: Queue, count_max: int, until_s: float) -> _Read:
        """Read one queue, at least one pull of it from an offset that it has."""
        if time.perf_counter() >= until_s:
            count_max = 1
        offset = self._offsets[queue]
        read = _Read(begin=offset, following=offset)
        room = READ_BYTES_MAX // len(self._offsets) + 1
        while True:
            want = min(PULL_MAX, count_max - len(read.messages))
            result = await self._messaging.pull(
                *queue, read.following, count_max=want, bytes_max=room, filter=self._filter
            )
            read.end = result.max_offset
            if not self._take(read, result):
                continue  # once: the next pull begins at an offset that the queue has
            room -= sum(message.size_bytes for message in result.messages)
            read.is_more = read.following < read.end
            is_full = len(read.messages) >= count_max or room <= 0
            if not read.is_more or is_full or time.perf_counter() >= until_s:
                return read

    def _take(self, read: _Read, result: PullResult) -> bool:
        """Record the result of a pull; False if it only reported the queue's begin."""
        if result.status is PullStatus.OFFSET_TOO_SMALL:
            read.gone += result.next_offset - read.following
            read.following = result.next_offset
            return False
        if result.status is PullStatus.OFFSET_OVERFLOW_BADLY or not result.max_offset:
            # The topic was deleted and made anew: it begins at its beginning.
            read.begin = read.following = result.min_offset
            return not result.max_offset
        read.messages += result.messages
        read.following = result.next_offset
        return True

    def _in_order(self, reads: dict[Queue, _Read]) -> list[StoredMessage]:
        """The messages as stored; those behind an unread one wait for the next read."""
        order = self._messaging.storing_order
        lasts = [order(read.messages[-1]) for read in reads.values() if _is_cut(read)]
        until = min(lasts, default=None)
        messages: list[StoredMessage] = []
        for queue, read in reads.items():
            chosen = [m for m in read.messages if until is None or order(m) <= until]
            messages += chosen
            is_held_back = len(chosen) < len(read.messages)
            following = read.messages[len(chosen)].offset if is_held_back else read.following
            self._offsets[queue] = following
        messages.sort(key=order)
        return messages

    def _catch_up(self, reads: dict[Queue, _Read]) -> int:
        """Go forward where too much is unread; how many messages that passes over."""
        unread = sum(read.end - self._offsets[queue] for queue, read in reads.items())
        if unread <= BEHIND_MAX:
            return 0
        count_max = max(1, CATCH_UP_COUNT // len(reads))
        skipped = 0
        for queue, read in reads.items():
            offset = max(self._offsets[queue], read.end - count_max)
            skipped += offset - self._offsets[queue]
            self._offsets[queue] = offset
        return skipped


def _is_cut(read: _Read) -> bool:
    return read.is_more and bool(read.messages)


def _parse_mark(text: str, topics: Sequence[str]) -> dict[Queue, int]:
    """The offsets in a mark; raises Invalid."""
    if not text:
        return {}
    try:
        parts = [tuple(map(int, item.split("-"))) for item in text[:MARK_CHARS_MAX].split(".")]
        offsets = {(topics[number], queue): offset for number, queue, offset in parts}
    except (ValueError, IndexError):
        offsets = {("", -1): -1}
    if any(queue < 0 or not 0 <= offset < 1 << 62 for (_, queue), offset in offsets.items()):
        raise Invalid("that is no mark of a tail", field="from", remedy="begin at the newest")
    return offsets
