"""What waits in a cluster for its time, read from the topics in which its brokers keep it.

A level's queue is in order of due time, and its broker says how far it is. The queue of timers is
in order of arrival and has what was delivered, too: it is read once, from its newest BACK_MAX
records on, and what waits is kept until its time. Records of the brokers' own (of POP) are left
out. Of each queue HELD_MAX messages are known at once; a look counts for LOOK_S.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterUnreachable
from app.cluster.messages import DELIVER_AT_MS, ClusterMessage
from app.cluster.routes import ClusterQueue
from app.cluster.schedules import SCHEDULE_TOPIC, TIMER_TOPIC, level_waits_ms
from app.cluster.tail import QueueTail
from app.cluster.verbs.part import ClusterPart
from engine.broker import RETRY_PREFIX, LevelWaiting, Scheduled, is_system_topic
from engine.message import REAL_QID, REAL_TOPIC

LOOK_S = 1.0
HELD_MAX = 1_000
HELD_BYTES_MAX = 64 * 1024 * 1024  # of all queues together
PULLS_MAX = 64  # of a queue in one look
BACK_MAX = 100_000
DELAY_MAX_S = 3 * 86_400  # of timers, unless a broker says otherwise
STEP_MS = 1_000  # by which a timer's record may be earlier than its time
BEHIND_MS = 5_000  # from which a broker counts as late with its timers
TIMER_OUT_MS = "TIMER_OUT_MS"
RECALLED_KEY = "TIMER_DEL_UNIQKEY"
ROLLED = "TIMER_ROLL_TIMES"


class DuePlace(NamedTuple):
    """Where a message stands in the list; `level` is 0 for an exact time."""

    due_ms: int
    level: int
    queue: int
    offset: int


class WaitingQueue:
    """A queue in which messages wait: those that are known, by offset."""

    def __init__(self, place: ClusterQueue, level: int) -> None:
        self.tail, self.level = QueueTail(place), level
        self.items: dict[int, Scheduled] = {}
        self.count = 0  # that wait, known or not; of timers those that are known
        self.unknown = ""
        self.keys: dict[str, int] = {}  # of timers: offsets by what a recall names
        self.recalls: dict[str, int] = {}  # by that: the time until which it matters
        self.first_ms = 0  # of timers: those that were stored before may be unknown

    @property
    def room(self) -> int:
        return HELD_MAX - len(self.items)

    def places(self, number: int) -> Iterator[tuple[DuePlace, Scheduled]]:
        """What waits, with its place in the list of a cluster in which the queue has a number."""
        for offset, item in self.items.items():
            yield DuePlace(item.due_ms, self.level, number, offset), item


class WaitingLook(NamedTuple):
    """What is known to wait, by time; how many wait at least, and why that may be a part only."""

    items: Sequence[tuple[DuePlace, Scheduled]]
    levels: list[LevelWaiting]
    total: int
    unknown: str


class ClusterWaiting(ClusterPart):
    """Looks at what waits."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        super().__init__(catalog)
        self._queues: dict[ClusterQueue, WaitingQueue] = {}
        self._turn = asyncio.Lock()  # who comes meanwhile takes what the first one saw
        self._look: WaitingLook | None = None
        self._until_s = 0.0

    async def look(self) -> WaitingLook:
        """What waits, at most LOOK_S old; Busy if no broker answers."""
        async with self._turn:
            if self._look is None or time.monotonic() >= self._until_s:
                self._look = await self._read()
                self._until_s = time.monotonic() + LOOK_S
        return self._look

    def drop(self, place: ClusterQueue, offset: int) -> None:
        """A message that is known does not wait any more."""
        self._until_s = 0.0
        if queue := self._queues.get(place):
            queue.items.pop(offset, None)

    async def waits(self, record: ClusterMessage) -> Scheduled | None:
        """A record as it waits just now; None where its time has come. Busy if not to be told."""
        broker, level = record.place.broker, 0
        with engine_errors():
            if record.place.topic == TIMER_TOPIC:
                is_over = out_ms_of(record) + STEP_MS <= await self._passed_ms(broker)
            else:
                level = record.place.queue + 1
                passed = await self._client.schedules.passed(broker)
                is_over = record.offset < passed.get(level, 0)
            waits_ms = level_waits_ms(await self._catalog.settings(broker))
        if is_over or is_own(record):
            return None
        wait_ms = waits_ms[level - 1] if 0 < level <= len(waits_ms) else 0
        return self._item(record, level, wait_ms)

    # -- inside ----------------------------------------------------------------------------------

    async def _read(self) -> WaitingLook:
        with engine_errors():
            answers = await self._ask_brokers(self._read_broker)
        reasons, levels = [], dict[int, LevelWaiting]()
        items: list[tuple[DuePlace, Scheduled]] = []
        count = 0
        for answer in answers:
            if isinstance(answer, ClusterUnreachable):
                reasons.append(answer.detail)
                continue
            waits_ms, queues = answer
            for queue in queues:
                items += queue.places(self._numbers.number(queue.tail.place))
                count += queue.count
                reasons += [queue.unknown] if queue.unknown else []
            for level, wait_ms in enumerate(waits_ms, 1):
                more = sum(each.count for each in queues if each.level == level)
                known = levels.get(level)
                levels[level] = LevelWaiting(level, wait_ms, more + (known.count if known else 0))
        if not levels:
            with engine_errors():
                raise ClusterUnreachable("; ".join(reasons), remedy="look whether the brokers run")
        items.sort(key=lambda each: each[0])
        unknown = "; ".join(dict.fromkeys(reasons))[:500]
        return WaitingLook(items, [levels[each] for each in sorted(levels)], count, unknown)

    async def _read_broker(self, broker: str) -> tuple[list[int], list[WaitingQueue]]:
        """How long its levels wait, and its queues; ClusterUnreachable."""
        settings = await self._catalog.settings(broker)
        waits_ms = level_waits_ms(settings)
        passed = await self._client.schedules.passed(broker)
        ends = await self._client.topics.queues_on(broker, SCHEDULE_TOPIC)
        queues = []
        for level, wait_ms in enumerate(waits_ms, 1):
            queue = self._queue(ClusterQueue(SCHEDULE_TOPIC, broker, level - 1), level)
            if end := ends.get(queue.tail.place):
                first = max(end.min_offset, passed.get(level, 0))
                await self._read_level(queue, first, end.max_offset, wait_ms)
            queues.append(queue)
        if settings.get("timerWheelEnable") == "true":
            queues.append(await self._read_timers(broker, settings))
        return waits_ms, queues

    def _queue(self, place: ClusterQueue, level: int) -> WaitingQueue:
        return self._queues.setdefault(place, WaitingQueue(place, level))

    async def _read_level(self, queue: WaitingQueue, first: int, end: int, wait_ms: int) -> None:
        queue.tail.skip_to(first)
        queue.items = {each: item for each, item in queue.items.items() if each >= first}
        for each in await self._next(queue, end):
            queue.items[each.offset] = self._item(each, queue.level, wait_ms)
        queue.count = max(0, end - first)
        if queue.tail.next_offset >= end:
            queue.unknown = ""
        else:
            queue.unknown = (
                f"broker {queue.tail.place.broker} has {queue.count:,} messages in delay level "
                f"{queue.level}, of which the next {len(queue.items):,} are listed"
            )

    async def _read_timers(self, broker: str, settings: dict[str, str]) -> WaitingQueue:
        place = ClusterQueue(TIMER_TOPIC, broker, 0)
        queue = self._queue(place, 0)
        end = (await self._client.topics.queues_on(broker, TIMER_TOPIC)).get(place)
        if end is None:
            return queue
        now_ms = self._catalog.now_ms()
        longest_ms = int(settings.get("timerMaxDelaySec", DELAY_MAX_S)) * 1000
        first = end.max_offset - BACK_MAX
        if queue.tail.next_offset < 0:
            at = await self._client.reads.offset_at(place, now_ms - longest_ms)
            queue.tail.skip_to(max(at, end.min_offset))
        if queue.tail.next_offset < first:
            queue.tail.skip_to(first)
            queue.first_ms = now_ms
        passed_ms = await self._passed_ms(broker)
        queue.items = {
            offset: item
            for offset, item in queue.items.items()
            if _out_ms(item) + STEP_MS > passed_ms
        }
        queue.keys = {key: each for key, each in queue.keys.items() if each in queue.items}
        queue.recalls = {key: ms for key, ms in queue.recalls.items() if ms + STEP_MS > passed_ms}
        sql = f"{TIMER_OUT_MS} > {passed_ms - STEP_MS}"
        is_filtered = self._catalog.capabilities.sql_filters
        for each in await self._next(queue, end.max_offset, sql if is_filtered else ""):
            self._take_timer(queue, each, passed_ms)
        queue.count = len(queue.items)
        queue.unknown = ""
        if queue.tail.next_offset < end.max_offset:
            queue.unknown = f"of the timers of broker {broker} {queue.count:,} were read so far"
        elif now_ms - queue.first_ms < longest_ms:
            queue.unknown = f"of the timers of broker {broker} the last {BACK_MAX:,} were read"
        return queue

    def _take_timer(self, queue: WaitingQueue, record: ClusterMessage, passed_ms: int) -> None:
        """Note a message that waits, or that one that waits was recalled."""
        out_ms = out_ms_of(record)
        if out_ms + STEP_MS <= passed_ms or is_own(record):
            return
        if key := record.properties.get(RECALLED_KEY):
            queue.recalls[key] = out_ms
            queue.items.pop(queue.keys.pop(key, -1), None)
            return
        keys = _keys(record.properties[REAL_TOPIC], record.message_id)
        if queue.recalls.keys() & set(keys):
            return
        if ROLLED in record.properties:  # its broker has written it anew
            queue.items.pop(queue.keys.get(keys[1], -1), None)
        queue.keys |= dict.fromkeys(keys, record.offset)
        queue.items[record.offset] = self._item(record, 0, 0)

    async def _next(self, queue: WaitingQueue, end: int, sql: str = "") -> list[ClusterMessage]:
        """What comes next in a queue, as far as there is room for it."""
        size = sum(each.message.size_bytes for each in queue.items.values())
        if queue.room <= 0 or size >= HELD_BYTES_MAX // max(1, len(self._queues)):
            return []
        return await queue.tail.read(
            self._client.reads, end, pulls_max=PULLS_MAX, count_max=queue.room, sql=sql
        )

    async def _passed_ms(self, broker: str) -> int:
        """The time up to which a broker has delivered its timers."""
        now_ms = self._catalog.now_ms()
        read_ms = await self._client.schedules.timer_time_ms(broker)
        return now_ms if read_ms is None or now_ms - read_ms < BEHIND_MS else read_ms

    def _item(self, record: ClusterMessage, level: int, wait_ms: int) -> Scheduled:
        properties = record.properties
        topic = properties.get(REAL_TOPIC, "")
        text = properties.get(REAL_QID, "")
        queue = -1
        if text.isdecimal():
            queue = self._numbers.number(record.place._replace(topic=topic, queue=int(text)))
        due_ms = record.stored_ms + wait_ms
        if not level:
            out_ms, at_ms = out_ms_of(record), _number(properties.get(DELIVER_AT_MS, ""))
            due_ms = at_ms if 0 <= at_ms - out_ms <= STEP_MS else out_ms
        return Scheduled(due_ms, topic, queue, self._stored(record), level)


def is_own(record: ClusterMessage) -> bool:
    """Whether it is a note of the brokers to themselves, as POP makes them."""
    topic = record.properties.get(REAL_TOPIC, "")
    return not topic or (is_system_topic(topic) and not topic.startswith(RETRY_PREFIX))


def out_ms_of(record: ClusterMessage) -> int:
    """The time of a timer's record."""
    return _number(record.properties.get(TIMER_OUT_MS, ""))


def _out_ms(item: Scheduled) -> int:
    return _number(item.message.properties.get(TIMER_OUT_MS, ""))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _keys(topic: str, message_id: str) -> tuple[str, str]:
    """By which a recall names a message, as the broker is set."""
    return message_id, f"{topic}+{message_id}"
