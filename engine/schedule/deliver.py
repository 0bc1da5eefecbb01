"""Releases delayed messages: each level is a queue in order of time, so only its head matters.

A released record keeps DELAY, REAL_TOPIC and REAL_QID, as RocketMQ's do, and names the waiting
record it comes from (SOURCE). Progress is journalled after the write; a crash in between is healed
by `replayed`. What fell due while the broker was down is released at once. What leaves a level
before its turn is marked in `level_taken.py`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from engine.context import EngineContext
from engine.errors import Busy, Corrupt, EngineError, Invalid, TopicNotFound
from engine.events import Released, SendRefused
from engine.legality import check_number
from engine.message import (
    BATCH_BYTES_MAX,
    DELAY,
    REAL_QID,
    REAL_TOPIC,
    SOURCE,
    Message,
    PutResult,
    StoredMessage,
    copy_of,
)
from engine.schedule.level_taken import TakenOffsets
from engine.schedule.levels import DelayLevels
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.store.consume_queue import QueueEntry
from engine.store.entry_reading import find_entries, fit
from engine.store.journal import JournalEntry
from engine.topic.names import CLOSED_TOPICS, SCHEDULE_TOPIC, is_group_topic

log = logging.getLogger("kitemq.schedule")

TICK_MESSAGES_MAX = 500
BATCH_MESSAGES_MAX = 100
SOURCE_PREFIX = f"@{SCHEDULE_TOPIC}@"


class LevelPassed(JournalEntry, frozen=True, tag="level_passed"):
    """Everything before `offset` of a level's queue was released.

    `record_end` is where the log ended after the last record written for them, 0 for none.
    """

    queue: int
    offset: int
    record_end: int = 0

    @property
    def follows(self) -> int:
        return self.record_end


class LevelWaiting(msgspec.Struct, frozen=True):
    """A delay level, how long it waits, and how many messages wait in it."""

    level: int
    delay_ms: int
    count: int


class LevelPlace(NamedTuple):
    """A message that waits in a level: when it is due, its level's queue, and its offset there."""

    due_ms: int
    queue: int
    offset: int


class LevelHead(msgspec.Struct):
    """The next message of a level, and when it is due by the steady clock."""

    offset: int
    due_s: float


class LevelDeliverer(Service):
    """At most 500 messages in a tick, over all levels; woken by what begins to wait."""

    name = "delay levels"

    def __init__(
        self,
        context: EngineContext,
        levels: DelayLevels,
        *,
        put: Callable[[Sequence[Message]], PutResult],
    ) -> None:
        """`put` writes what leaves a level, see `TimerDeliverer.put`."""
        super().__init__()
        self._store = context.store
        self._put_records = put
        self._catalog = context.catalog
        self._levels = levels
        self._clock = context.clock
        self._events = context.events
        self._offsets: dict[int, int] = {}
        self._ends: dict[int, int] = {}  # where the log ended after the last that was released
        self._heads: dict[int, LevelHead] = {}
        self._recovered_releases: dict[
            int, dict[int, int]
        ] = {}  # by level: released, as recovery found
        self._taken = TakenOffsets(context.store.journal, levels.count)
        context.store.journal.register((LevelPassed,), self._apply, self._snapshot, self._check)

    def start(self) -> None:
        """After recovery: correct progress that a power loss left past the log's end; listen."""
        for queue, offset in sorted(self._offsets.items()):
            end = self._store.bounds(SCHEDULE_TOPIC, queue)[1]
            if offset > end:
                self._ends.pop(queue, None)
                self._pass(queue, end)
        self._taken.settle(lambda queue: self._store.bounds(SCHEDULE_TOPIC, queue)[1])
        for queue, releases in sorted(self._recovered_releases.items()):
            self._pass_recovered(queue, releases)
        self._store.on_visible_in[SCHEDULE_TOPIC] = self._arrived

    def adopt(self, passed: Mapping[int, int], left: Callable[[StoredMessage], int]) -> int:
        """Before `start`: what another broker released of each level; how many messages.

        `passed` has offsets by level. `left` says of a waiting message where the record ends that
        it became, if it was the last of its level to be released, else 0.
        """
        count = 0
        for queue in range(self._levels.count):
            offset, end = self._span(queue)
            floor, record_end = min(max(offset, passed.get(queue + 1, 0)), end), 0
            at = floor
            while entries := self._store.entries(SCHEDULE_TOPIC, queue, at, BATCH_MESSAGES_MAX):
                at = entries[-1].offset + 1
                for stored in self._store.read_entries(entries, (SCHEDULE_TOPIC, queue)):
                    record_position = 0 if stored is None else left(stored)
                    if stored is not None and record_position:
                        floor, record_end = stored.offset + 1, record_position
            if floor > offset:
                self._pass(queue, floor, record_end)
                count += floor - offset
        return count

    def replayed(self, message: StoredMessage) -> None:
        """Recovery found this record: if it came from a level, it was released there."""
        source = message.properties.get(SOURCE, "")
        if not source.startswith(SOURCE_PREFIX):
            return
        queue, offset = map(int, source.removeprefix(SOURCE_PREFIX).split("@"))
        record_end = message.position + message.size_bytes
        self._recovered_releases.setdefault(queue, {})[offset] = record_end

    def _pass_recovered(self, queue: int, releases: dict[int, int]) -> None:
        """Pass what recovery found released, up to the first that waits; mark those behind it."""
        offset, end = self._span(queue)
        record_end = 0
        # What a power loss left of a release whose own message it took proves nothing about the
        # one that got its offset later: that one lies behind it.
        places = [at for at in sorted(releases) if offset <= at < end]
        releases = {
            entry.offset: releases[entry.offset]
            for entry in find_entries(self._store, SCHEDULE_TOPIC, queue, places)
            if entry.position < releases[entry.offset]
        }
        while offset < end:
            if offset in releases:
                record_end = max(record_end, releases.pop(offset))
            elif not releases or offset > max(releases) or self._waits(queue, offset):
                break
            offset += 1
        if offset > self._offsets.get(queue, 0):
            self._pass(queue, offset, record_end)
        ahead = [at for at in releases if not self._taken.is_taken(queue, at)]
        if ahead:
            self._taken.take(queue, ahead, record_end=max(releases.values()))
        self._recovered_releases[queue] = {}

    def _waits(self, queue: int, offset: int) -> bool:
        if self._taken.is_taken(queue, offset):
            return False
        stored = self._record(queue, offset)
        return stored is not None and self.has_destination(stored)

    def passed(self) -> dict[str, int]:
        """By level, as in RocketMQ's `delayOffset.json`: the offset of the first that waits."""
        spans = enumerate(map(self._span, range(self._levels.count)), 1)
        return {str(level): offset for level, (offset, end) in spans if end}

    def waiting(self) -> list[int]:
        """Number of waiting messages by level, from the first on."""
        spans = enumerate(map(self._span, range(self._levels.count)))
        return [max(0, end - offset - self._taken.count(queue)) for queue, (offset, end) in spans]

    def levels(self) -> list[LevelWaiting]:
        """The same with the levels' numbers and waits."""
        return [
            LevelWaiting(level, self._levels.delay_ms(level), count)
            for level, count in enumerate(self.waiting(), 1)
        ]

    def counts_before(self, times_ms: Sequence[int]) -> list[int]:
        """How many of all levels are due before each of some ascending times."""
        counts = [0] * len(times_ms)
        for queue in range(self._levels.count):
            begin, end = self._span(queue)
            offset = begin
            for index, time_ms in enumerate(times_ms):
                offset = self._offset_after(LevelPlace(time_ms, -1, -1), queue, offset, end)
                counts[index] += offset - begin - self._taken.count(queue, before=offset)
        return counts

    def oldest_position(self) -> int | None:
        """Where the oldest message that waits in any level lies; None when none does."""
        heads = [
            self._store.entries(SCHEDULE_TOPIC, queue, offset, 1)
            for queue, (offset, end) in enumerate(map(self._span, range(self._levels.count)))
            if offset < end
        ]
        return min((entries[0].position for entries in heads if entries), default=None)

    def tick(self) -> float:
        """Release what is due; seconds until the next is.

        Raises DiskFull while the log refuses writes: nothing is passed over then.
        """
        budget = TICK_MESSAGES_MAX
        wait_s = IDLE_WAIT_MAX_S
        for queue in range(self._levels.count):
            offset, end = self._span(queue)
            while offset < end:
                head_s = self._head_wait_s(queue, offset)
                if head_s > 0:
                    wait_s = min(wait_s, head_s)
                    break
                if budget <= 0:
                    return 0.0
                passed = self._release(queue, offset, min(budget, BATCH_MESSAGES_MAX))
                budget -= passed - offset
                offset = passed
        return wait_s

    # -- before its turn -------------------------------------------------------------------------

    def after(self, place: LevelPlace, count_max: int) -> list[LevelPlace]:
        """What waits after a place in order of due time, then of level, at most `count_max`.

        A level that a calendar set back has out of order may repeat some of it, or leave it out.
        """
        places: list[LevelPlace] = []
        for queue in range(self._levels.count):
            offset, end = self._span(queue)
            offset = self._offset_after(place, queue, offset, end)
            count = 0
            while count < count_max and offset < end:
                entries = self._store.entries(SCHEDULE_TOPIC, queue, offset, count_max)
                if not entries:
                    break
                waiting = [each for each in entries if not self._is_gone(queue, each.offset)]
                places += [LevelPlace(each.tag_code, queue, each.offset) for each in waiting]
                count += len(waiting)
                offset = entries[-1].offset + 1
        return sorted(places)[:count_max]

    def _offset_after(self, place: LevelPlace, queue: int, low: int, high: int) -> int:
        """The first offset of a level whose message is due after `place`, by bisection."""
        while low < high:
            middle = (low + high) // 2
            entries = self._store.entries(SCHEDULE_TOPIC, queue, middle, 1)
            if entries and (entries[0].tag_code, queue, entries[0].offset) <= place:
                low = middle + 1
            else:
                high = middle
        return low

    def read(self, queue: int, offsets: Sequence[int]) -> list[StoredMessage | None]:
        """Records of a level, as many from the start on as fit one write, at least one.

        None for one that is gone.
        """
        known = find_entries(self._store, SCHEDULE_TOPIC, queue, offsets)
        entries = fit(known, BATCH_BYTES_MAX, is_first=True)
        if [entry.offset for entry in entries] != list(offsets[: len(entries)]) or not entries:
            return [self._record(queue, offset) for offset in offsets[:1]]
        return list(self._store.read_entries(entries, (SCHEDULE_TOPIC, queue)))

    def _record(self, queue: int, offset: int) -> StoredMessage | None:
        entries = self._store.entries(SCHEDULE_TOPIC, queue, offset, 1)
        read = self._store.read_entries(entries, (SCHEDULE_TOPIC, queue))
        return read[0] if read and entries[0].offset == offset else None

    def find(self, stored: StoredMessage) -> LevelPlace | None:
        """The place of a record that waits in a level; None where it does not."""
        queue, offset = stored.queue, stored.offset
        if stored.topic != SCHEDULE_TOPIC or queue >= self._levels.count:
            return None
        begin, end = self._span(queue)
        entries = self._store.entries(SCHEDULE_TOPIC, queue, offset, 1)
        if not begin <= offset < end or self._is_gone(queue, offset) or not entries:
            return None
        is_there = entries[0].position == stored.position
        return LevelPlace(entries[0].tag_code, queue, offset) if is_there else None

    def drop(self, stored: StoredMessage) -> None:
        """It is never released. Raises DiskFull, Corrupt or Busy, and nothing has changed."""
        self._taken.check_room()
        self._taken.take(stored.queue, [stored.offset])

    def release(self, stored: StoredMessage) -> None:
        """Put it where it belongs now. Raises what intake does, and it still waits."""
        self._replace(stored, self._real(stored))

    def move(self, stored: StoredMessage, topic: str, queue: int, own: Mapping[str, str]) -> None:
        """Let it wait in another topic, with properties of its own; as `release`."""
        message = self._real(stored)
        message.topic, message.queue = topic, queue
        message.properties.pop(DELAY, "")
        message.properties.update(own)
        self._replace(stored, message)

    def _replace(self, stored: StoredMessage, message: Message) -> None:
        self._taken.check_room()
        self._put_records([message])
        self._taken.take(stored.queue, [stored.offset], record_end=self._store.written)

    def _is_gone(self, queue: int, offset: int) -> bool:
        released = self._recovered_releases.get(queue, {})
        return offset in released or self._taken.is_taken(queue, offset)

    # -- when ------------------------------------------------------------------------------------

    def _head_wait_s(self, queue: int, offset: int) -> float:
        """Seconds until the first message of a level is due, 0 when it is.

        It is due at the time in its entry, yet no later than a whole delay after it came to the
        head: so a calendar that was set back does not keep it.
        """
        if self._taken.is_taken(queue, offset):
            return 0.0
        entries = self._store.entries(SCHEDULE_TOPIC, queue, offset, 1)
        if not entries:
            return IDLE_WAIT_MAX_S
        left_ms = entries[0].tag_code - self._clock.now_ms()
        now_s = self._clock.monotonic_s()
        head = self._heads.get(queue)
        if head is None or head.offset != offset:
            wait_ms = min(left_ms, self._levels.delay_ms(queue + 1))
            head = self._heads[queue] = LevelHead(offset, now_s + wait_ms / 1000)
        return max(0.0, min(left_ms / 1000, head.due_s - now_s))

    def _span(self, queue: int) -> tuple[int, int]:
        """The next offset of a level, after what retention took, and its end."""
        first, end = self._store.bounds(SCHEDULE_TOPIC, queue)
        return max(first, self._offsets.get(queue, 0)), end

    def _arrived(self, _: str, queue: int, first_offset: int, tag_codes: list[int]) -> None:
        """For the store's `on_visible_in`; an arrival behind another changes nothing."""
        if first_offset <= self._span(queue)[0]:
            self.wake()

    # -- releasing -------------------------------------------------------------------------------

    def _release(self, queue: int, offset: int, count_max: int) -> int:
        """Put what is due from `offset` on where it belongs; returns the offset after it."""
        now_ms = self._clock.now_ms()
        entries = self._due_entries(queue, offset, count_max, now_ms)
        due: list[tuple[Message, QueueEntry]] = []
        place = (SCHEDULE_TOPIC, queue)
        read = self._store.read_entries(entries, place)
        if self._store.entries(SCHEDULE_TOPIC, queue, offset, len(entries)) != entries:
            # Reading mended damaged entries: when they are due is asked anew.
            self._heads.pop(queue, None)
            if self._head_wait_s(queue, offset) > 0:
                return offset
            entries = self._due_entries(queue, offset, len(entries), now_ms)
            read = self._store.read_entries(entries, place)
        for entry, stored in zip(entries, read, strict=True):
            is_gone = self._is_gone(queue, entry.offset)
            if not is_gone and stored is not None and self.has_destination(stored):
                due.append((self._real(stored), entry))
        if due:
            self._put(queue, due)
        passed = entries[-1].offset + 1
        self._pass(queue, passed, self._store.written if due else 0)
        if self._events.has_subscribers:
            for message, entry in due:
                late_ms = max(0, now_ms - entry.tag_code)
                self._events.emit(Released(now_ms, message.topic, message.queue, late_ms))
        return passed

    def _due_entries(
        self, queue: int, offset: int, count_max: int, now_ms: int
    ) -> Sequence[QueueEntry]:
        """The first one, and what is due behind it, as far as it fits one write."""
        entries = self._store.entries(SCHEDULE_TOPIC, queue, offset, count_max)
        due = [entries[0], *_due_by(entries[1:], now_ms)]
        return fit(due, BATCH_BYTES_MAX, is_first=True)

    def _put(self, queue: int, due: list[tuple[Message, QueueEntry]]) -> None:
        """Put them all, or what can be put; raises what may be over when tried again."""
        try:
            self._put_records([message for message, _ in due])
        except (Busy, Corrupt):
            raise
        except EngineError as error:
            message = due[0][0]
            if len(due) > 1:
                for each in due:
                    self._put(queue, [each])
            elif isinstance(error, Invalid) and message.properties.pop(SOURCE, ""):
                self._put(queue, due)  # no room for the source: it can do without
            else:
                self._refused(message.topic, error)
        else:
            if len(due) == 1:  # should a later one have to be tried again, this one is not
                self._recovered_releases.setdefault(queue, {})[due[0][1].offset] = (
                    self._store.written
                )

    def has_destination(self, stored: StoredMessage) -> bool:
        """Whether its topic is still there: one that was deleted takes what waits along."""
        topic = stored.properties.get(REAL_TOPIC, "")
        is_known = is_group_topic(topic) or self._catalog.find(topic) is not None
        if is_known and topic not in CLOSED_TOPICS:
            return True
        self._refused(topic, TopicNotFound(f"there is no topic {topic!r} any more"))
        return False

    def _refused(self, topic: str, error: EngineError) -> None:
        log.warning("a delayed message for %s is dropped: %s", topic, error.detail)
        if self._events.has_subscribers:
            self._events.emit(SendRefused(self._clock.now_ms(), topic, error.code))

    def _real(self, stored: StoredMessage) -> Message:
        message = copy_of(stored)
        properties = message.properties
        message.topic = properties[REAL_TOPIC]
        message.queue = int(properties.get(REAL_QID, "-1"))
        properties[SOURCE] = f"{SOURCE_PREFIX}{stored.queue}@{stored.offset}"
        return message

    # -- progress --------------------------------------------------------------------------------

    def _pass(self, queue: int, offset: int, record_end: int = 0) -> None:
        # Passing one is passing all before it: in doubt as long as any of their records is.
        entry = LevelPassed(queue, offset, max(record_end, self._ends.get(queue, 0)))
        self._store.journal.append(entry, is_owed=record_end > 0)
        self._apply(entry)

    def _check(self, entry: LevelPassed) -> None:
        """Raises Illegal for a level that there is not, and for no offset."""
        check_number("queue", entry.queue, self._levels.count - 1)
        check_number("offset", entry.offset)
        check_number("record_end", entry.record_end)

    def _apply(self, entry: LevelPassed) -> None:
        self._offsets[entry.queue] = entry.offset
        self._taken.passed(entry.queue, entry.offset)
        self._ends[entry.queue] = entry.record_end

    def _snapshot(self) -> Iterable[JournalEntry]:
        return [LevelPassed(queue, offset) for queue, offset in self._offsets.items()]


def _due_by(entries: Sequence[QueueEntry], now_ms: int) -> list[QueueEntry]:
    """Those from the start on that are due by the calendar."""
    for index, entry in enumerate(entries):
        if entry.tag_code > now_ms:
            return list(entries[:index])
    return list(entries)
