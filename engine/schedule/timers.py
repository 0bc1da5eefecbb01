"""Operations on messages that wait: list, recall, deliver now, reschedule.

A message is found by its id without looking at the others: an id made by the broker says where the
record lies, other ids and those of moved records are in the key index. Retries are listed, yet not
found: their message was delivered already, and is its group's affair.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from engine.clock import Clock
from engine.errors import Busy, MessageNotFound
from engine.events import EventBus, Recalled, Rescheduled
from engine.message import REAL_QID, REAL_TOPIC, StoredMessage
from engine.schedule.deliver import LevelDeliverer
from engine.schedule.timer import TIMER_OUT_MS, TIMER_QUEUE, check_due
from engine.schedule.timer_deliver import TimerDeliverer, WaitingTimer
from engine.schedule.waiting import (
    EXACT,
    FIRST,
    WaitingList,
    WaitingPlace,
    parse_place,
    place_text,
)
from engine.store.encode import position_of_id
from engine.store.store import Store
from engine.topic.names import RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

PAGE_COUNT_MAX = 200
EXAMINED_MAX = 1000  # pending messages looked at for one page ...
EXAMINED_BYTES_MAX = 16 * 1024 * 1024  # ... and their records' size
FLUSH_WAIT_S = 0.5
RECORDS_MAX = 64  # of one message: each move writes another


class TimerAnswer(StrEnum):
    """Outcome for a waiting message. Asking again gets the same answer."""

    RECALLED = "recalled"  # it will never be delivered
    DELIVERED = "delivered"  # just now, because it was asked for
    RESCHEDULED = "rescheduled"
    ALREADY_DELIVERED = "already_delivered"
    NOT_FOUND = "not_found"  # no message with this id waited, or its topic is gone


class Scheduled(msgspec.Struct, frozen=True):
    """A message that waits; `message` is its record in the topic where it does.

    `queue` is -1 where the record does not say which. `delay_level` is 0 for a message
    with an exact time.
    """

    due_ms: int
    topic: str
    queue: int
    message: StoredMessage
    delay_level: int = EXACT

    @property
    def is_retry(self) -> bool:
        """Whether a group waits for another delivery; such a message cannot be changed."""
        return self.topic.startswith(RETRY_PREFIX)


class ScheduledPage(msgspec.Struct, frozen=True):
    """Waiting messages in order of time; `next` asks for those after them, None at the end.

    `count` is how many wait in all topics together; at least so many where `unknown` says why.
    """

    items: list[Scheduled]
    next: str | None
    count: int
    unknown: str = ""


class TimerRecords(NamedTuple):
    """Records of one message: those that wait, by time or in a level, and those that did.

    The newest is the last.
    """

    waiting: list[WaitingTimer]
    levels: list[StoredMessage]
    finished: list[StoredMessage]

    @property
    def is_settled(self) -> bool:
        return not (self.waiting or self.levels)


class Timers:
    """The verbs; each is durable when it returns (in the page cache, as a send is)."""

    def __init__(
        self,
        store: Store,
        deliverer: TimerDeliverer,
        levels: LevelDeliverer,
        clock: Clock,
        events: EventBus,
    ) -> None:
        self._store = store
        self._deliverer = deliverer
        self._levels = levels
        self._waiting = WaitingList(deliverer, levels)
        self._clock = clock
        self._events = events

    def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> ScheduledPage:
        """Messages that wait, by due time from `from_ms` on, at most 200.

        `topic` keeps those bound for it: at most 1,000 messages are looked at, so a page may be
        short or empty although `next` says that there is more. Invalid for a wrong `after`.
        """
        place = parse_place(after) if after else FIRST
        if from_ms and not after:
            place = WaitingPlace(from_ms, EXACT, -1)
        count_max = max(1, min(count_max, PAGE_COUNT_MAX))
        items: list[Scheduled] = []
        examined = size_bytes = 0
        while (
            len(items) < count_max and examined < EXAMINED_MAX and size_bytes < EXAMINED_BYTES_MAX
        ):
            places = self._waiting.after(place, count_max)
            if not places:
                return ScheduledPage(items, None, self._waiting.count)
            for each, stored in self._waiting.read(places):
                place = each
                examined += 1
                size_bytes += 0 if stored is None else stored.size_bytes
                item = None if stored is None else self._as_scheduled(each, stored)
                if item is not None and topic in ("", item.topic):
                    items.append(item)
                if len(items) == count_max or size_bytes >= EXAMINED_BYTES_MAX:
                    break
        has_more = bool(self._waiting.after(place, 1))
        return ScheduledPage(items, place_text(place) if has_more else None, self._waiting.count)

    def find(self, message_id: str) -> Scheduled | None:
        """A message that waits, by its message id or offset id; None where it does not.

        Of several with one id the oldest. Raises Busy where it is not readable yet.
        """
        records = self._find(message_id)
        for pending, stored in records.waiting:
            if stored is not None:
                return self._as_scheduled(self._waiting.timer_place(pending), stored)
        for stored in records.levels:
            if level := self._levels.find(stored):
                return self._as_scheduled(self._waiting.level_place(level), stored)
        return None

    def recall(self, message_id: str) -> TimerAnswer:
        """See to it that a waiting message is never delivered; RECALLED is a promise.

        Takes a message id or an offset id. Raises DiskFull, and nothing has changed.
        """
        records = self._find(message_id)
        if records.is_settled:
            return self._settled(records)
        self._deliverer.drop([each.pending for each in records.waiting])
        for each in records.waiting:
            self._tell_recalled(TIMER_TOPIC, TIMER_QUEUE, each.pending.offset)
        for stored in records.levels:
            self._levels.drop(stored)
            self._tell_recalled(SCHEDULE_TOPIC, stored.queue, stored.offset)
        return TimerAnswer.RECALLED

    def deliver_now(self, message_id: str) -> TimerAnswer:
        """Deliver a waiting message at once. Raises DiskFull, and it still waits."""
        records = self._find(message_id)
        if records.is_settled:
            return self._settled(records)
        is_delivered = False
        for each in records.waiting:
            is_delivered |= self._deliverer.has_destination(each)
            self._deliverer.release([each.pending])
        for stored in records.levels:
            if self._levels.has_destination(stored):
                self._levels.release(stored)
                is_delivered = True
            else:
                self._levels.drop(stored)
        return TimerAnswer.DELIVERED if is_delivered else TimerAnswer.NOT_FOUND

    def reschedule(self, message_id: str, deliver_at_ms: int) -> TimerAnswer:
        """Let a waiting message wait for another time; DELIVERED where that is not in the future.

        One that waited in a delay level has an exact time then. Raises Invalid for a time over a
        year ahead; DiskFull, and it waits as before.
        """
        now_ms = self._clock.now_ms()
        check_due(deliver_at_ms, now_ms)
        if deliver_at_ms <= now_ms:
            return self.deliver_now(message_id)
        records = self._find(message_id)
        if records.is_settled:
            return self._settled(records)
        is_moved = False
        for each in records.waiting:
            if self._deliverer.has_destination(each):
                self._deliverer.move(each, deliver_at_ms)
                self._tell_rescheduled(TIMER_TOPIC, TIMER_QUEUE, each.pending.offset, deliver_at_ms)
                is_moved = True
            else:
                self._deliverer.drop([each.pending])
        for stored in records.levels:
            if self._levels.has_destination(stored):
                own = {TIMER_OUT_MS: str(deliver_at_ms)}
                self._levels.move(stored, TIMER_TOPIC, TIMER_QUEUE, own)
                self._tell_rescheduled(SCHEDULE_TOPIC, stored.queue, stored.offset, deliver_at_ms)
                is_moved = True
            else:
                self._levels.drop(stored)
        return TimerAnswer.RESCHEDULED if is_moved else TimerAnswer.NOT_FOUND

    def _tell_recalled(self, topic: str, queue: int, offset: int) -> None:
        if self._events.has_subscribers:
            self._events.emit(Recalled(self._clock.now_ms(), topic, queue, offset))

    def _tell_rescheduled(self, topic: str, queue: int, offset: int, due_ms: int) -> None:
        if self._events.has_subscribers:
            self._events.emit(Rescheduled(self._clock.now_ms(), topic, queue, offset, due_ms))

    # -- finding ---------------------------------------------------------------------------------

    def _find(self, message_id: str) -> TimerRecords:
        """The message's records; several wait only where a sender used an id twice.

        Raises Busy while one of them is stored but, for want of its flush or of room, not readable.
        """
        home = position_of_id(message_id)
        first = None if home is None else self._read(home)
        if first is not None and message_id.upper() == first.offset_id:
            message_id = first.message_id
        records = TimerRecords([], [], [])
        for position in self._places((TIMER_TOPIC, SCHEDULE_TOPIC), message_id):
            stored = self._read(position)
            if stored is None or stored.message_id != message_id:
                continue
            if stored.topic not in (TIMER_TOPIC, SCHEDULE_TOPIC):
                continue
            if stored.properties.get(REAL_TOPIC, "").startswith(RETRY_PREFIX):
                continue  # a retry: the message was delivered already, and is its group's affair
            pending = self._deliverer.find(stored)
            if pending is not None:
                records.waiting.append(WaitingTimer(pending, stored))
            elif self._levels.find(stored) is not None:
                records.levels.append(stored)
            elif stored.offset >= self._store.bounds(stored.topic, stored.queue)[1]:
                raise Busy("the message is not readable yet", retry_after_s=FLUSH_WAIT_S)
            else:
                records.finished.append(stored)
        return records

    def _settled(self, records: TimerRecords) -> TimerAnswer:
        """What became of a message that waits no more; Busy while its last move is flushed."""
        if not records.finished:
            return TimerAnswer.NOT_FOUND
        last = records.finished[-1]
        topic = last.properties.get(REAL_TOPIC, "")
        unseen = self._deliverer.find_unseen(last.message_id)
        if unseen == TIMER_TOPIC:
            raise Busy("the message is being moved to another time", retry_after_s=FLUSH_WAIT_S)
        if unseen:
            return TimerAnswer.ALREADY_DELIVERED
        for position in self._places((topic,), last.message_id):
            copy = self._read(position)
            if copy is not None and (copy.topic, copy.message_id) == (topic, last.message_id):
                return TimerAnswer.ALREADY_DELIVERED
        return TimerAnswer.RECALLED

    def _places(self, topics: Sequence[str], message_id: str) -> Sequence[int]:
        """Where records of a message may lie, ascending."""
        places: set[int] = set()
        for topic in topics:
            places.update(self._store.positions_of_key(topic, message_id, count_max=RECORDS_MAX))
        home = position_of_id(message_id)
        if home is not None:
            places.add(home)
        return sorted(places)

    def _read(self, position: int) -> StoredMessage | None:
        try:
            return self._store.read_at(position)
        except MessageNotFound:
            return None

    def _as_scheduled(self, place: WaitingPlace, stored: StoredMessage) -> Scheduled:
        properties = stored.properties
        topic, queue = properties.get(REAL_TOPIC, ""), int(properties.get(REAL_QID, "-1"))
        return Scheduled(self._waiting.due_ms(place), topic, queue, stored, place.level)
