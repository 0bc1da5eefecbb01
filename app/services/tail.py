"""Follows topics as messages are stored, without a group or deliveries.

A tail has an offset for every queue. `mark` encodes all of them: a client that returns with it
resumes exactly there, without gaps or duplicates. A read covers at most COUNT_MAX messages and some
milliseconds; a tail that is more than BEHIND_MAX messages behind skips ahead and reports the number
of skipped messages.

Queues that cannot be read for now, as those of a broker that is away, are left out and tried again:
then they go on at their offset, and one that had none yet at the time when the tail began.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from app.messaging import Messaging
from engine.broker import LongPoll, PullResult, PullStatus
from engine.errors import Busy, Invalid, TopicNotFound
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
AGAIN_S = 1.0  # at least, until a queue that could not be read is tried again

Queue = tuple[str, int]


@dataclass(frozen=True)
class TailBatch:
    """Messages in the order of storing, and what there was besides.

    `looked` messages were looked at, `skipped` passed over as the reader was too far behind,
    `gone` taken by retention or a purge before they were read. `mark` stands after all of it.
    `unknown` says why some queues are left out, as broker b is away.
    """

    messages: list[StoredMessage]
    looked: int
    skipped: int
    gone: int
    is_behind: bool
    mark: str
    unknown: str = ""

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


class _Place(NamedTuple):
    """Where to begin in a queue: an offset, or a time in ms."""

    value: int
    is_time: bool = False


class _Absence:
    """Why a queue cannot be read; due again after AGAIN_S, or twice as long as that took."""

    def __init__(self, reason: str, took_s: float = 0.0) -> None:
        self.reason = reason
        self._due_s = time.monotonic() + max(AGAIN_S, 2 * took_s)

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due_s


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
        self._begin_ms: dict[Queue, int] = {}  # of queues whose offset is not known yet
        self._absences: dict[Queue, _Absence] = {}
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
        now_ms: int,
    ) -> "Tail":
        """Begin at `mark`, or `lookback` messages before the end of every queue.

        Raises TopicNotFound, Forbidden (closed for reading), Invalid (filter, mark, too many), Busy
        where no queue can be read.
        """
        tail = cls(messaging, topics, filter)
        await tail._begin(_parse_mark(mark, tail._topics), lookback, now_ms)
        return tail

    async def _begin(self, places: dict[Queue, _Place], lookback: int, now_ms: int) -> None:
        queues: list[Queue] = []
        for topic in self._topics:
            config = await self._messaging.topic(topic)
            self._since[topic] = config.since_position
            queues += [(topic, queue) for queue in range(config.read_queues)]
        if len(queues) > QUEUES_MAX:
            raise Invalid(
                f"these topics have {len(queues)} queues, a tail follows {QUEUES_MAX}",
                field="topic",
                remedy="follow fewer topics",
            )
        bounds = await asyncio.gather(
            *(self._messaging.queue_bounds(*queue) for queue in queues), return_exceptions=True
        )
        for queue, each in zip(queues, bounds, strict=True):
            place = places.get(queue)
            if isinstance(each, Busy):
                self._absences[queue] = _Absence(each.detail)
            elif isinstance(each, BaseException):
                raise each
            elif place is None:
                # A queue that the mark does not know was added after it was made.
                place = _Place(each[0] if places else max(each[0], each[1] - lookback))
            if place is None or place.is_time:
                self._begin_ms[queue] = now_ms if place is None else place.value
            else:
                self._offsets[queue] = place.value
        if len(self._absences) == len(queues):
            raise next(each for each in bounds if isinstance(each, Busy))
        for topic in self._topics:
            with suppress(Busy):  # said by the first read
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
        await self._find_offsets()
        until_s = time.perf_counter() + READ_S
        share = max(4, COUNT_MAX // max(1, len(self._offsets)))
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
            unknown=next((each.reason for each in self._absences.values()), ""),
        )

    def park(self, wake: Callable[[], None]) -> _Places:
        """Call `wake`, perhaps more than once, when there may be something to read; Busy."""
        places = _Places()
        try:
            for (topic, queue), offset in self._offsets.items():
                if (topic, queue) in self._absences:
                    continue
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
        known = [f"{numbers[topic]}-{queue}-{at}" for (topic, queue), at in offsets.items()]
        times = [f"{numbers[topic]}-{queue}-t{at}" for (topic, queue), at in self._begin_ms.items()]
        return ".".join(known + times)

    async def _find_queues(self) -> None:
        """Topics may get more queues while they are followed, or fewer, or be made anew."""
        for topic in self._topics:
            try:
                config = await self._messaging.topic(topic)
            except Busy:
                continue  # what can be read says more
            except TopicNotFound:
                if not any(name == topic for name, _ in self._absences):
                    raise
                continue  # no broker that has it is there
            followed = [queue for name, queue in [*self._offsets, *self._begin_ms] if name == topic]
            is_another = config.since_position != self._since[topic]
            self._since[topic] = config.since_position
            for queue in followed:
                if is_another or queue >= config.read_queues:
                    for each in (self._offsets, self._begin_ms, self._absences):
                        each.pop((topic, queue), None)
            for queue in range(config.read_queues):
                if len(self._offsets) < QUEUES_MAX and (topic, queue) not in self._begin_ms:
                    self._offsets.setdefault((topic, queue), 0)

    async def _find_offsets(self) -> None:
        """Ask where queues begin that could not be asked before."""

        async def find(queue: Queue) -> None:
            with self._attempt(queue):
                at = await self._messaging.offset_at_time(*queue, self._begin_ms[queue])
                self._offsets[queue] = at
                del self._begin_ms[queue]

        await asyncio.gather(*(find(each) for each in list(self._begin_ms) if self._is_due(each)))

    def _is_due(self, queue: Queue) -> bool:
        return queue not in self._absences or self._absences[queue].is_due

    @contextmanager
    def _attempt(self, queue: Queue) -> Iterator[None]:
        """Note whether the queue can be read; one that waits for an answer is tried less often."""
        began_s = time.monotonic()
        try:
            yield
        except Busy as error:
            reason = error.detail
        except TopicNotFound:  # no broker that has it is there
            if queue not in self._absences:
                raise
            reason = self._absences[queue].reason
        else:
            self._absences.pop(queue, None)
            return
        self._absences[queue] = _Absence(reason, took_s=time.monotonic() - began_s)

    def _turned(self) -> list[Queue]:
        """The queues to read, each time beginning with another one: no busy one starves others."""
        queues = [each for each in self._offsets if self._is_due(each)]
        self._first = (self._first + 1) % max(1, len(queues))
        return queues[self._first :] + queues[: self._first]

    async def _read(self, queue: Queue, count_max: int, until_s: float) -> _Read:
        """Read one queue, at least one pull of it from an offset that it has."""
        offset = self._offsets[queue]
        read = _Read(begin=offset, following=offset)
        with self._attempt(queue):
            await self._pull(queue, read, count_max, until_s)
        read.end = max(read.end, read.following)
        return read

    async def _pull(self, queue: Queue, read: _Read, count_max: int, until_s: float) -> None:
        if time.perf_counter() >= until_s:
            count_max = 1
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
                return

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


def _parse_mark(text: str, topics: Sequence[str]) -> dict[Queue, _Place]:
    """The offsets and times in a mark; raises Invalid."""
    if not text:
        return {}
    try:
        parts = [item.split("-") for item in text[:MARK_CHARS_MAX].split(".")]
        places = {
            (topics[int(number)], int(queue)): _Place(int(at.removeprefix("t")), at[:1] == "t")
            for number, queue, at in parts
        }
    except (ValueError, IndexError):
        places = {("", -1): _Place(-1)}
    if any(queue < 0 or not 0 <= at.value < 1 << 62 for (_, queue), at in places.items()):
        raise Invalid("that is no mark of a tail", field="from", remedy="begin at the newest")
    return places
