"""Pull: read a queue from an offset that the client keeps; nothing becomes in flight.

The statuses are RocketMQ's, and so is the answer that a classic client derives from them.
Source: docs/rocketmq-rules.md#pull-statuses.
"""

from enum import StrEnum

import msgspec

from engine.context import EngineContext
from engine.delivery.changes import ResetSeen
from engine.delivery.filter import Filter, parse_filter
from engine.delivery.group import GroupCatalog
from engine.delivery.progress_store import ProgressStore
from engine.delivery.receive_targets import consuming_group, readable_topic
from engine.delivery.subscription_filters import SubscriptionFilters
from engine.errors import Invalid, QueueNotFound
from engine.events import MessagesPulled
from engine.message import StoredMessage
from engine.store.entry_reading import fit

COUNT_MAX = 160
BYTES_MAX = 4 * 1024 * 1024
SCAN_MAX = 800
CHUNK = 100
EPOCH_PULLS_MAX = 100_000  # queues of groups that are looked after at the begin of an epoch


class PullStatus(StrEnum):
    """Result of a pull."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"  # examined some, none matched: go on at next_offset
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"  # the records are damaged or gone: go on
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"  # at the end: wait for the next message
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"  # past the end
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"  # retention took it
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"  # never held any
    OFFSET_RESET = "OFFSET_RESET"  # the group was moved since its last pull: it goes on from there


class PullAnswer(StrEnum):
    """The client's next step; RocketMQ's response codes 0, 19, 20 and 21."""

    FOUND = "FOUND"
    NOT_FOUND = "PULL_NOT_FOUND"  # wait at this very offset
    RETRY_IMMEDIATELY = "PULL_RETRY_IMMEDIATELY"  # pull again at next_offset
    OFFSET_MOVED = "PULL_OFFSET_MOVED"  # the offset is wrong: continue at next_offset


ANSWERS = {
    PullStatus.FOUND: PullAnswer.FOUND,
    PullStatus.NO_MATCHED_MESSAGE: PullAnswer.RETRY_IMMEDIATELY,
    PullStatus.MESSAGE_WAS_REMOVING: PullAnswer.RETRY_IMMEDIATELY,
    PullStatus.OFFSET_OVERFLOW_ONE: PullAnswer.NOT_FOUND,
    PullStatus.OFFSET_OVERFLOW_BADLY: PullAnswer.OFFSET_MOVED,
    PullStatus.OFFSET_TOO_SMALL: PullAnswer.OFFSET_MOVED,
    PullStatus.OFFSET_RESET: PullAnswer.OFFSET_MOVED,
}


class PullResult(msgspec.Struct, frozen=True):
    """Messages from the offset asked for; `next_offset` is where to pull next."""

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    offset: int = 0  # the one that was asked for

    @property
    def answer(self) -> PullAnswer:
        """An empty queue is only worth waiting at from its very beginning."""
        if self.status is PullStatus.NO_MESSAGE_IN_QUEUE:
            return PullAnswer.OFFSET_MOVED if self.offset else PullAnswer.NOT_FOUND
        return ANSWERS[self.status]


class Pull:
    """Reads; `long_polling.py` waits, `offsets.py` keeps what a client commits."""

    def __init__(
        self,
        context: EngineContext,
        groups: GroupCatalog,
        progress_store: ProgressStore,
        filters: SubscriptionFilters,
    ) -> None:
        self._filters = filters
        self._store = context.store
        self._catalog = context.catalog
        self._groups = groups
        self._progress_store = progress_store
        self._clock = context.clock
        self._events = context.events
        self._epoch_position: int | None = None
        self._epoch_pulls: set[tuple[str, str, int]] = set()  # since then, by group and queue

    def begin_epoch(self, position: int) -> None:
        """Another server led until now, and perhaps had other messages behind `position`.

        A group's first pull of a queue from beyond has seen those, and not what takes their offsets
        now: it is answered OFFSET_RESET, and goes on where the queue ended.
        """
        self._epoch_position = position

    def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        count_max: int = 32,
        bytes_max: int = 256 * 1024,
        filter: str = "*",
        group: str = "",
    ) -> PullResult:
        """Up to `count_max` (1 to 160) messages and `bytes_max`, yet at least one if any matches.

        Never waits. With a `group` its right to consume is checked; it is created if it may be.
        The first pull of a group whose offset was reset is answered OFFSET_RESET and gets the
        new place as `next_offset`; only then do its commits count again.
        Examines at most 800 entries. Raises Invalid, TopicNotFound, QueueNotFound,
        GroupNotFound, Forbidden; an offset outside the queue is a status, not an error.
        """
        match = parse_filter(filter)
        self._check(topic, queue, offset, count_max, bytes_max)
        if group:
            consuming_group(self._groups, group, topic)
            self._filters.note(group, topic, match)
        first, end = self._store.bounds(topic, queue)
        goes_on = self._moved_place(group, topic, queue, offset) if group else None
        if goes_on is not None:
            return PullResult(PullStatus.OFFSET_RESET, [], max(goes_on, first), first, end, offset)
        status, next_offset = _outside(offset, first, end)
        messages: list[StoredMessage] = []
        if status is None:
            status, messages, next_offset = self._read(
                topic, queue, offset, end, count_max, min(bytes_max, BYTES_MAX), match
            )
            if group and next_offset > offset and self._events.has_subscribers:
                now_ms, size_bytes = self._clock.now_ms(), sum(each.size_bytes for each in messages)
                place = (group, topic, queue, offset, next_offset)
                self._events.emit(MessagesPulled(now_ms, *place, len(messages), size_bytes))
        return PullResult(status, messages, next_offset, first, end, offset)

    def _moved_place(self, group: str, topic: str, queue: int, offset: int) -> int | None:
        place = self._reset_place(group, topic, queue)
        if self._epoch_position is None:
            return place
        key = (group, topic, queue)
        if key in self._epoch_pulls or len(self._epoch_pulls) >= EPOCH_PULLS_MAX:
            return place
        self._epoch_pulls.add(key)
        end = self._store.offset_at_position(topic, queue, self._epoch_position)
        return end if place is None and offset > end else place

    def _reset_place(self, group: str, topic: str, queue: int) -> int | None:
        """Where a reset put the group if no client has heard of it; after this, one has."""
        progress = self._progress_store.find(group, topic, queue)
        if progress is None or not progress.is_reset_unseen:
            return None
        # A full disk does not stop reading: the note is written as soon as there is room.
        self._progress_store.write(ResetSeen(group, topic, queue), is_owed=True)
        return progress.cursor

    def _check(self, topic: str, queue: int, offset: int, count_max: int, bytes_max: int) -> None:
        config = readable_topic(self._catalog, topic)
        if not 0 <= queue < config.read_queues:
            raise QueueNotFound(
                f"topic {topic!r} has no queue {queue} to read",
                field="queue",
                remedy=f"choose 0 to {config.read_queues - 1}",
            )
        if not 1 <= count_max <= COUNT_MAX:
            raise Invalid(
                f"{count_max} messages at once",
                field="count_max",
                remedy=f"choose 1 to {COUNT_MAX}",
            )
        for field, value, least in (("offset", offset, 0), ("bytes_max", bytes_max, 1)):
            if value < least:
                raise Invalid(f"{field} is {value}", field=field, remedy=f"choose {least} or more")

    def _read(
        self,
        topic: str,
        queue: int,
        offset: int,
        end: int,
        count_max: int,
        bytes_max: int,
        match: Filter,
    ) -> tuple[PullStatus, list[StoredMessage], int]:
        messages: list[StoredMessage] = []
        stop = min(end, offset + max(SCAN_MAX, count_max))
        examined = lost = misses = 0
        while offset < stop and len(messages) < count_max and bytes_max > 0:
            want = count_max - len(messages)
            count = want if match.is_all else CHUNK
            entries = self._store.entries(topic, queue, offset, min(count, stop - offset))
            if not entries:
                break
            filtered = [each for each in entries if match.may_match(each.tag_code)]
            # What was read in vain shows how many have to be read for one that matches.
            candidates = filtered[: want + misses]
            batch = fit(candidates, bytes_max, is_first=not messages)
            bytes_max -= sum(entry.size_bytes for entry in batch)
            read = self._store.read_entries(batch, (topic, queue))
            matching = [each for each in read if each is not None and match.matches(each)]
            messages += matching[:want]
            examined += len(batch)
            lost += read.count(None)
            misses += len(batch) - len(matching)
            if len(matching) > want:
                offset = matching[want].offset
                break
            is_whole = len(batch) == len(filtered)
            offset = entries[-1].offset + 1 if is_whole else filtered[len(batch)].offset
            if len(batch) < len(candidates):
                break
        if messages:
            return PullStatus.FOUND, messages, offset
        is_lost = examined > 0 and lost == examined
        status = PullStatus.MESSAGE_WAS_REMOVING if is_lost else PullStatus.NO_MATCHED_MESSAGE
        return status, messages, offset


def _outside(offset: int, first: int, end: int) -> tuple[PullStatus | None, int]:
    """The status of an offset at which there is nothing to read, and where to go on."""
    if end == 0:
        return PullStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < first:
        return PullStatus.OFFSET_TOO_SMALL, first
    if offset == end:
        return PullStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > end:
        return PullStatus.OFFSET_OVERFLOW_BADLY, end
    return None, offset
