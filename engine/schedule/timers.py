"""Operations on messages with an exact time: list, recall, deliver now, reschedule.

A message is found by its id without looking at the others: an id made by the broker says where the
record lies, other ids and those of moved records are in the key index. Delay levels are not here:
what waits for one cannot be recalled (as in RocketMQ).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from engine.clock import Clock
from engine.errors import Busy, Invalid, MessageNotFound
from engine.events import EventBus, Recalled, Rescheduled
from engine.message import REAL_QID, REAL_TOPIC, StoredMessage
from engine.schedule.timer import TIMER_QUEUE, check_due
from engine.schedule.timer_agenda import START, Pending
from engine.schedule.timer_deliver import TimerDeliverer, WaitingTimer
from engine.store.encode import position_of_id
from engine.store.store import Store
from engine.topic.names import RETRY_PREFIX, TIMER_TOPIC

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
    """A message that waits; `message` is its record in the timer topic.

    `queue` is -1 where the record does not say which.
    """

    due_ms: int
    topic: str
    queue: int
    message: StoredMessage


class ScheduledPage(msgspec.Struct, frozen=True):
    """Waiting messages in order of time; `next` asks for those after them, None at the end.

    `count` is how many wait in all topics together.
    """

    items: list[Scheduled]
    next: str | None
    count: int


class TimerRecords(NamedTuple):
    """Records of one message: those that wait, and those that did, newest last."""

    waiting: list[WaitingTimer]
    finished: list[StoredMessage]


class Timers:
    """The verbs; each is durable when it returns (in the page cache, as a send is)."""

    def __init__(
        self, store: Store, deliverer: TimerDeliverer, clock: Clock, events: EventBus
    ) -> None:
        self._store = store
        self._deliverer = deliverer
        self._clock = clock
        self._events = events

    @property
    def count(self) -> int:
        """Number of waiting messages."""
        return self._deliverer.count

    def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> ScheduledPage:
        """Messages that wait, by due time from `from_ms` on, at most 200.

        `topic` keeps those bound for it: at most 1,000 messages are looked at, so a page may be
        short or empty although `next` says that there is more. Invalid for a wrong `after`.
        """
        place = parse_place(after) if after else Pending(from_ms, -1) if from_ms else START
        count_max = max(1, min(count_max, PAGE_COUNT_MAX))
        items: list[Scheduled] = []
        examined = size_bytes = 0
        while (
            len(items) < count_max and examined < EXAMINED_MAX and size_bytes < EXAMINED_BYTES_MAX
        ):
            timers = self._deliverer.after(place, count_max)
            if not timers:
                return ScheduledPage(items, None, self.count)
            for each in self._deliverer.read(timers):
                place = each.pending
                examined += 1
                size_bytes += 0 if each.stored is None else each.stored.size_bytes
                item = self._as_scheduled(each)
                if item is not None and topic in ("", item.topic):
                    items.append(item)
                    if len(items) == count_max:
                        break
        has_more = bool(self._deliverer.after(place, 1))
        return ScheduledPage(items, _place_text(place) if has_more else None, self.count)

    def find(self, message_id: str) -> Scheduled | None:
        """A message that waits, by its message id or offset id; None where it does not.

        Of several with one id the oldest. Raises Busy where it is not readable yet.
        """
        waiting = self._find(message_id).waiting
        return self._as_scheduled(waiting[0]) if waiting else None

    def recall(self, message_id: str) -> TimerAnswer:
        """See to it that a waiting message is never delivered; RECALLED is a promise.

        Takes a message id or an offset id. Raises DiskFull, and nothing has changed.
        """
        records = self._find(message_id)
        if not records.waiting:
            return self._settled(records)
        self._deliverer.drop([each.pending for each in records.waiting])
        if self._events.has_subscribers:
            now_ms = self._clock.now_ms()
            for each in records.waiting:
                place = (TIMER_TOPIC, TIMER_QUEUE, each.pending.offset)
                self._events.emit(Recalled(now_ms, *place))
        return TimerAnswer.RECALLED

    def deliver_now(self, message_id: str) -> TimerAnswer:
        """Deliver a waiting message at once. Raises DiskFull, and it still waits."""
        records = self._find(message_id)
        if not records.waiting:
            return self._settled(records)
        is_delivered = False
        for each in records.waiting:
            is_delivered |= self._deliverer.has_destination(each)
            self._deliverer.release([each.pending])
        return TimerAnswer.DELIVERED if is_delivered else TimerAnswer.NOT_FOUND

    def reschedule(self, message_id: str, deliver_at_ms: int) -> TimerAnswer:
        """Let a waiting message wait for another time; DELIVERED where that is not in the future.

        Raises Invalid for a time over a year ahead; DiskFull, and it waits as before.
        """
        now_ms = self._clock.now_ms()
        check_due(deliver_at_ms, now_ms)
        if deliver_at_ms <= now_ms:
            return self.deliver_now(message_id)
        records = self._find(message_id)
        if not records.waiting:
            return self._settled(records)
        is_moved = False
        for each in records.waiting:
            if self._deliverer.has_destination(each):
                self._deliverer.move(each, deliver_at_ms)
                is_moved = True
                if self._events.has_subscribers:
                    place = (TIMER_TOPIC, TIMER_QUEUE, each.pending.offset)
                    self._events.emit(Rescheduled(now_ms, *place, deliver_at_ms))
            else:
                self._deliverer.drop([each.pending])
        return TimerAnswer.RESCHEDULED if is_moved else TimerAnswer.NOT_FOUND

    # -- finding ---------------------------------------------------------------------------------

    def _find(self, message_id: str) -> TimerRecords:
        """The message's records; several wait only where a sender used an id twice.

        Raises Busy while one of them is stored but, for want of its flush or of room, not readable.
        """
        home = position_of_id(message_id)
        first = None if home is None else self._read(home)
        if first is not None and message_id.upper() == first.offset_id:
            message_id = first.message_id
        places = self._places(TIMER_TOPIC, message_id)
        records = TimerRecords([], [])
        for position in places:
            stored = self._read(position)
            if stored is None or (stored.topic, stored.message_id) != (TIMER_TOPIC, message_id):
                continue
            if stored.properties.get(REAL_TOPIC, "").startswith(RETRY_PREFIX):
                continue  # a retry: the message was delivered already, and is its group's affair
            pending = self._deliverer.find(stored)
            if pending is None and stored.offset >= self._store.bounds(TIMER_TOPIC, TIMER_QUEUE)[1]:
                raise Busy("the message is not readable yet", retry_after_s=FLUSH_WAIT_S)
            if pending is None:
                records.finished.append(stored)
            else:
                records.waiting.append(WaitingTimer(pending, stored))
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
        for position in self._places(topic, last.message_id):
            copy = self._read(position)
            if copy is not None and (copy.topic, copy.message_id) == (topic, last.message_id):
                return TimerAnswer.ALREADY_DELIVERED
        return TimerAnswer.RECALLED

    def _places(self, topic: str, message_id: str) -> Sequence[int]:
        """Where records of a message may lie, ascending."""
        places = set(self._store.positions_of_key(topic, message_id, count_max=RECORDS_MAX))
        home = position_of_id(message_id)
        if home is not None:
            places.add(home)
        return sorted(places)

    def _read(self, position: int) -> StoredMessage | None:
        try:
            return self._store.read_at(position)
        except MessageNotFound:
            return None

    def _as_scheduled(self, waiting: WaitingTimer) -> Scheduled | None:
        stored = waiting.stored
        if stored is None:
            return None
        properties = stored.properties
        topic, queue = properties.get(REAL_TOPIC, ""), int(properties.get(REAL_QID, "-1"))
        return Scheduled(self._deliverer.due_ms(waiting.pending), topic, queue, stored)


def parse_place(text: str) -> Pending:
    """The place that a page's `next` names; Invalid for anything else."""
    due_ms, _, offset = text.partition("-")
    if not (due_ms.isdecimal() and offset.isdecimal()):
        raise Invalid(
            f"{text!r} is no place in the list", field="after", remedy="give a page's `next`"
        )
    return Pending(int(due_ms), int(offset))


def _place_text(place: Pending) -> str:
    return f"{max(0, place.due_ms)}-{place.offset}"
