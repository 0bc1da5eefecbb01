"""Releases messages at their exact time, in order of time, each of them once.

A released record names the waiting one it comes from (SOURCE), which is the proof that that is
finished: progress is journalled after the write, and a crash in between is healed by `replayed`.
What fell due while the broker was down is released at once, in order of time. What is pending
is known from the timer queue's entries alone; records are read when they are released.

A message that waits long would hold back everything behind it: how much progress has to remember,
and what retention may take. So old ones are moved to the queue's end (RocketMQ's roll).
"""

import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from engine.context import EngineContext
from engine.errors import Busy, Corrupt, EngineError, TopicNotFound
from engine.events import Released, SendRefused
from engine.message import (
    BATCH_BYTES_MAX,
    REAL_QID,
    REAL_TOPIC,
    SOURCE,
    Durability,
    Message,
    PutResult,
    StoredMessage,
    copy_of,
)
from engine.run_length import iter_runs, to_runs
from engine.schedule.timer import (
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_QUEUE,
    TIMER_ROLL_TIMES,
    due_ms_of,
)
from engine.schedule.timer_agenda import Pending, TimerAgenda
from engine.schedule.timer_calendar import MonotonicCalendar
from engine.schedule.timer_progress import TimerProgress, source_text
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.store.consume_queue import QueueEntry
from engine.topic.names import CLOSED_TOPICS, TIMER_TOPIC

log = logging.getLogger("kitemq.schedule")

TICK_MESSAGES_MAX = 300
BATCH_MESSAGES_MAX = 100
LOAD_ENTRIES = 4096
# The stretch of the queue that progress covers: so many, and so many for each that is pending.
SPAN_MIN = 200_000
SPAN_PER_PENDING = 4


class WaitingTimer(NamedTuple):
    """A pending message, with its record where it can be read."""

    pending: Pending
    stored: StoredMessage | None


class TimerPlace(NamedTuple):
    """Place of a record."""

    topic: str
    queue: int
    offset: int


class TimerDeliverer(Service):
    """At most 300 messages released, and 100 moved, in a tick; woken by what is due earlier."""

    name = "timers"

    def __init__(self, context: EngineContext) -> None:
        super().__init__()
        self._store = context.store
        self._intake = context.intake
        self._catalog = context.catalog
        self._clock = context.clock
        self._events = context.events
        self._calendar = MonotonicCalendar(context.clock)
        self._progress = TimerProgress(self._store.journal, lambda: self._store.offset_max)
        self._agenda = TimerAgenda()
        self._move_before = 0  # records before this position are to be moved
        self._unseen: dict[str, TimerPlace] = {}  # written, but waiting for a flush to be readable

    def adopt(self, left: Callable[[StoredMessage], int | None]) -> int:
        """Before `start`: what another broker released or dropped; how many messages.

        `left` says of a waiting message where the record ends that it became, 0 where it became
        none, and None while it waits.
        """
        first, end = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE)
        self._progress.settle(first, end, self._position_of)
        count, offset = 0, self._progress.floor
        while entries := self._store.entries(TIMER_TOPIC, TIMER_QUEUE, offset, LOAD_ENTRIES):
            offset = entries[-1].offset + 1
            waiting = [each for each in entries if not self._progress.is_finished(each.offset)]
            done: dict[int, int] = {}
            for stored in self._store.read_entries(waiting, (TIMER_TOPIC, TIMER_QUEUE)):
                record_position = None if stored is None else left(stored)
                if stored is not None and record_position is not None:
                    done[stored.offset] = record_position
            if done:
                self._progress.finish([*done], record_end=max(done.values()))
                count += len(done)
        return count

    def start(self) -> None:
        """After recovery: find out what is pending, and listen."""
        first, end = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE)
        self._progress.settle(first, end, self._position_of)
        dues, offsets, lost = array("q"), array("q"), []
        for entry in self._entries_before(end):
            if self._progress.is_finished(entry.offset):
                continue
            if entry.has_record:
                dues.append(entry.tag_code)
                offsets.append(entry.offset)
            else:
                lost.append(entry.offset)
        self._agenda.load(dues, offsets)
        if lost:
            self._progress.finish(lost)
        self._store.on_visible_in[TIMER_TOPIC] = self._arrived

    def replayed(self, message: StoredMessage) -> None:
        """Recovery found this record: if it waited here before, that place is finished."""
        self._progress.replayed(message)

    @property
    def count(self) -> int:
        """Number of waiting messages."""
        return len(self._agenda)

    @property
    def floor(self) -> int:
        """The offset of the timer queue before which nothing waits."""
        return self._progress.floor

    @property
    def end(self) -> int:
        """One past the last offset of the timer queue."""
        return self._store.bounds(TIMER_TOPIC, TIMER_QUEUE)[1]

    def entries_with_state(self) -> Iterator[tuple[QueueEntry, bool]]:
        """Each entry of the queue from the floor on that has a record, and whether it waits."""
        for entry in self._entries_before(self.end):
            if entry.has_record:
                yield entry, not self._progress.is_finished(entry.offset)

    def after(self, place: Pending, count_max: int) -> list[Pending]:
        """What is due after `place`, in order of time."""
        return self._agenda.after(place, count_max)

    def counts_before(self, times_ms: Sequence[int]) -> list[int]:
        """How many are due before each of these times of the machine's calendar."""
        ahead_ms = self.ahead_ms
        return self._agenda.counts_before([time_ms + ahead_ms for time_ms in times_ms])

    @property
    def ahead_ms(self) -> int:
        """How far the calendar of pending times is ahead of the machine's."""
        return self._calendar.now_ms() - self._clock.now_ms()

    def due_ms(self, pending: Pending) -> int:
        """When it is due by the calendar that it was sent by."""
        return self._calendar.due_ms(pending)

    def find(self, stored: StoredMessage) -> Pending | None:
        """The pending message that has this record; None when it is finished."""
        if stored.topic != TIMER_TOPIC or self._progress.is_finished(stored.offset):
            return None
        entries = self._store.entries(TIMER_TOPIC, TIMER_QUEUE, stored.offset, 1)
        if not entries or entries[0].position != stored.position:
            return None
        return self._calendar.pending(entries[0].tag_code, stored.offset)

    def find_unseen(self, message_id: str) -> str:
        """The topic of a message's newest record while that cannot be read yet, else empty."""
        while self._unseen:
            oldest = next(iter(self._unseen))
            if not self._is_readable(self._unseen[oldest]):
                break
            del self._unseen[oldest]
        place = self._unseen.get(message_id)
        return "" if place is None or self._is_readable(place) else place.topic

    def oldest_position(self) -> int | None:
        """Where the oldest record lies that is still needed; None when nothing waits."""
        entries = self._entries(self._oldest(1))
        return entries[0].position if entries else None

    def move_before(self, position: int) -> None:
        """Records before `position` are to go: what waits there is written again, in ticks."""
        self._move_before = max(self._move_before, position)
        self.wake()

    def tick(self) -> float:
        """Release what is due; seconds until the next is.

        Raises DiskFull while the log refuses writes: nothing is passed over then.
        """
        budget = TICK_MESSAGES_MAX
        while budget > 0:
            due = self._agenda.due(self._calendar.now_ms(), min(budget, BATCH_MESSAGES_MAX))
            if not due:
                break
            budget -= self._release_due(due)
        is_moving = self._roll()
        first = self._agenda.first()
        if is_moving or budget <= 0:
            return 0.0
        return IDLE_WAIT_MAX_S if first is None else self._wait_s(first)

    def read(self, timers: Sequence[Pending]) -> list[WaitingTimer]:
        """Their records, as many from the start on as fit one write, at least one."""
        by_offset = {entry.offset: entry for entry in self._entries([p.offset for p in timers])}
        timers = _within_bytes(timers, by_offset)
        entries = sorted(by_offset[p.offset] for p in timers if p.offset in by_offset)
        read = self._store.read_entries(entries, (TIMER_TOPIC, TIMER_QUEUE))
        records = dict(zip((e.offset for e in entries), read, strict=True))
        return [WaitingTimer(pending, records.get(pending.offset)) for pending in timers]

    # -- changing --------------------------------------------------------------------------------

    def release(self, timers: Sequence[Pending]) -> int:
        """Put them where they belong, as many as fit one write; returns how many.

        What cannot be put anywhere any more is dropped. Raises Busy or Corrupt, and those left
        can be released again.
        """
        waiting = self.read(timers)
        self._put(self._sift(waiting))
        return len(waiting)

    def drop(self, timers: Sequence[Pending]) -> None:
        """They are never released. Raises DiskFull or Corrupt, and nothing has changed."""
        if timers:
            self._finish(timers, record_end=0)

    def move(self, waiting: WaitingTimer, due_ms: int) -> None:
        """Write a message again at the queue's end, to be released at `due_ms`."""
        assert waiting.stored is not None
        message = self._copy(waiting.stored)
        message.properties[TIMER_OUT_MS] = str(due_ms)
        self._replace([message], [waiting.pending])

    def _release_due(self, timers: Sequence[Pending]) -> int:
        """The same, but for what its record says is due at another time than its entry said."""
        waiting = self.read(timers)
        self._put(self._sift([each for each in waiting if self._is_due(each)]))
        return len(waiting)

    def _is_due(self, waiting: WaitingTimer) -> bool:
        """Whether the record is due when its entry said; else it waits for its own time."""
        pending, stored = waiting
        if stored is None:
            return True
        truly = self._calendar.pending(due_ms_of(stored, stored.stored_ms), pending.offset)
        if truly == pending:
            return True
        self._agenda.remove(pending)
        if not self._progress.is_finished(pending.offset):
            self._agenda.add(truly)
        return False

    def _put(self, waiting: Sequence[WaitingTimer]) -> None:
        if not waiting:
            return
        now_ms = self._calendar.now_ms()
        messages = [self._real(each.stored) for each in waiting if each.stored is not None]
        try:
            self._replace(messages, [each.pending for each in waiting])
        except (Busy, Corrupt):
            raise
        except EngineError as error:
            if len(waiting) > 1:
                for each in waiting:
                    self._put([each])
                return
            self._refused(messages[0].topic, error)
            self.drop([waiting[0].pending])
            return
        if self._events.has_subscribers:
            for message, each in zip(messages, waiting, strict=True):
                late_ms = max(0, now_ms - each.pending.due_ms)
                self._events.emit(Released(now_ms, message.topic, message.queue, late_ms))

    def _replace(self, messages: Sequence[Message], timers: Sequence[Pending]) -> None:
        """Write the records that take the place of these."""
        self._finish(timers, record_end=self.put(messages).flush_position)

    def put(self, messages: Sequence[Message]) -> PutResult:
        """Write what has waited, or waits on; `find_unseen` knows it until it can be read."""
        sent = self._intake.put(messages)
        if (
            sent.durability is not Durability.STORED
        ):  # not readable before, so not to be left for later
            self._store.when_flushed(sent.flush_position, _ignore)
        for message, offset in zip(sent.messages, sent.offsets, strict=True):
            place = TimerPlace(message.topic, message.queue, offset)
            if not self._is_readable(place):
                self._unseen[message.message_id] = place
        return sent

    def _finish(self, timers: Sequence[Pending], record_end: int) -> None:
        self._progress.finish([pending.offset for pending in timers], record_end=record_end)
        for pending in timers:
            self._agenda.remove(pending)

    def _sift(self, waiting: Sequence[WaitingTimer]) -> list[WaitingTimer]:
        """Those that can be put somewhere; the others are dropped."""
        deliverable: list[WaitingTimer] = []
        dropped: list[Pending] = []
        for each in waiting:
            if self.has_destination(each):
                deliverable.append(each)
            else:
                dropped.append(each.pending)
        self.drop(dropped)
        return deliverable

    def has_destination(self, waiting: WaitingTimer) -> bool:
        """A topic that was deleted meanwhile takes its waiting messages along."""
        stored = waiting.stored
        if stored is None:
            log.warning(
                "the waiting message at offset %d is damaged or gone", waiting.pending.offset
            )
            return False
        topic = stored.properties.get(REAL_TOPIC, "")
        if self._catalog.is_current(topic, stored.position) and topic not in CLOSED_TOPICS:
            return True
        self._refused(topic, TopicNotFound(f"there is no topic {topic!r} any more"))
        return False

    def _refused(self, topic: str, error: EngineError) -> None:
        log.warning("a delayed message for %s is dropped: %s", topic, error.detail)
        if self._events.has_subscribers:
            self._events.emit(SendRefused(self._clock.now_ms(), topic, error.code))

    def _real(self, stored: StoredMessage) -> Message:
        """The message as its consumers get it."""
        message = self._copy(stored)
        properties = message.properties
        message.topic = properties.pop(REAL_TOPIC)
        message.queue = int(properties.pop(REAL_QID, "-1"))
        properties[TIMER_ENQUEUE_MS] = str(stored.stored_ms)
        properties[TIMER_DEQUEUE_MS] = str(self._clock.now_ms())
        return message

    def _copy(self, stored: StoredMessage) -> Message:
        """The same message for the timer queue, naming the place that it leaves."""
        message = copy_of(stored)
        message.queue = TIMER_QUEUE
        message.properties[SOURCE] = source_text(stored, self._store.flushed)
        return message

    # -- moving ----------------------------------------------------------------------------------

    def _roll(self) -> bool:
        """Move the oldest ones where they hold up too much; whether there are more to be moved."""
        if not self._is_held_up():
            return False
        oldest = self._oldest(BATCH_MESSAGES_MAX)
        entries = self._entries(oldest)
        if len(entries) < len(oldest):  # retention was faster
            self._progress.finish(sorted({*oldest}.difference(entry.offset for entry in entries)))
        timers = [self._calendar.pending(entry.tag_code, entry.offset) for entry in entries]
        deliverable = self._sift(self.read(timers))
        messages = [self._rolled(each.stored) for each in deliverable if each.stored is not None]
        if messages:
            self._replace(messages, [each.pending for each in deliverable])
        return self._is_held_up()

    def _is_held_up(self) -> bool:
        end = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE)[1]
        if end - self._progress.floor > SPAN_MIN + SPAN_PER_PENDING * len(self._agenda):
            return True
        if not self._move_before:
            return False
        oldest = self.oldest_position()
        if oldest is not None and oldest < self._move_before:
            return True
        self._move_before = 0
        return False

    def _rolled(self, stored: StoredMessage) -> Message:
        message = self._copy(stored)
        times = int(message.properties.get(TIMER_ROLL_TIMES, "0"))
        message.properties[TIMER_ROLL_TIMES] = str(times + 1)
        return message

    # -- what is pending -------------------------------------------------------------------------

    def _oldest(self, count_max: int) -> list[int]:
        """Offsets of the messages that have waited in the queue for longest."""
        end = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE)[1]
        return self._progress.unfinished(count_max, end)

    def _entries_before(self, end: int) -> Iterator[QueueEntry]:
        """Entries from the floor to the end."""
        offset = self._progress.floor
        while offset < end:
            entries = self._store.entries(TIMER_TOPIC, TIMER_QUEUE, offset, LOAD_ENTRIES)
            yield from entries
            offset = entries[-1].offset + 1 if entries else end

    def _position_of(self, offset: int) -> int:
        entries = self._entries([offset])
        return entries[0].position if entries and entries[0].has_record else -1

    def _entries(self, offsets: Sequence[int]) -> list[QueueEntry]:
        """Entries of these offsets, ascending, without those that retention took."""
        matches: list[QueueEntry] = []
        for run in iter_runs(to_runs(sorted(offsets))):
            entries = self._store.entries(TIMER_TOPIC, TIMER_QUEUE, run[0], len(run))
            matches += [entry for entry in entries if entry.offset in run]
        return matches

    def _arrived(self, _: str, queue: int, first_offset: int, tag_codes: list[int]) -> None:
        """For the store's `on_visible_in`."""
        if queue != TIMER_QUEUE:
            return
        before = self._agenda.first()
        self._calendar.arrived(first_offset, self._progress.floor)
        for offset, due_ms in enumerate(tag_codes, first_offset):
            self._agenda.add(self._calendar.pending(due_ms, offset))
        if before != self._agenda.first():
            self.wake()

    def _is_readable(self, place: TimerPlace) -> bool:
        return place.offset < self._store.bounds(place.topic, place.queue)[1]

    def _wait_s(self, pending: Pending) -> float:
        return max(0.0, (pending.due_ms - self._calendar.now_ms()) / 1000)


def _ignore(_: Exception | None) -> None:
    """A disk that cannot flush any more refuses the next write."""


def _within_bytes(timers: Sequence[Pending], entries: dict[int, QueueEntry]) -> list[Pending]:
    """Those from the start on that fit one write, at least one."""
    size_bytes = 0
    for index, pending in enumerate(timers):
        entry = entries.get(pending.offset)
        size_bytes += entry.size_bytes if entry is not None and entry.has_record else 0
        if index and size_bytes > BATCH_BYTES_MAX:
            return list(timers[:index])
    return list(timers)
