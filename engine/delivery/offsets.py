"""Commits and reads the offsets of groups, and computes their lag."""

from collections.abc import Iterable

from engine.context import EngineContext
from engine.delivery.broadcast import Broadcasts, progress_name
from engine.delivery.changes import CursorAdvanced, DeliverySettled, OffsetCommitted
from engine.delivery.group import GroupCatalog, Mode
from engine.delivery.message_state import Transition
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import QueueProgress
from engine.delivery.start import Starts
from engine.delivery.subscription_filters import SubscriptionFilters
from engine.delivery.values import GroupLag, LagBasis, QueueLag, total
from engine.errors import Invalid, QueueNotFound
from engine.legality import NUMBER_MAX
from engine.run_length import to_runs
from engine.topic.names import GROUP_QUEUE, dead_letter_topic, retry_topic


class ConsumerOffsets:
    """An offset is that of the next message to be consumed."""

    def __init__(
        self,
        context: EngineContext,
        groups: GroupCatalog,
        progress_store: ProgressStore,
        broadcasts: Broadcasts,
        starts: Starts,
        filters: SubscriptionFilters,
    ) -> None:
        self._filters = filters
        self._broadcasts = broadcasts
        self._starts = starts
        self._store = context.store
        self._catalog = context.catalog
        self._groups = groups
        self._progress_store = progress_store
        self._clock = context.clock

    def commit(self, group: str, topic: str, queue: int, offset: int, client: str = "") -> bool:
        """Set a group's progress in a queue to any offset, also backwards; whether that counts.

        It does not after a reset of the queue, until a client of the group pulled from there and
        has learned of it. What was delivered from the queue is forgotten; its receipts are stale.
        Creates the group if allowed. `client` is the owner of the progress in a broadcast group.
        Raises GroupNotFound, TopicNotFound, QueueNotFound, Invalid.
        """
        place, progress = self._place(group, topic, queue, offset, client)
        if progress is not None and progress.is_reset_unseen:
            return False
        self._progress_store.write(OffsetCommitted(*place, offset))
        return True

    def advance(self, group: str, topic: str, queue: int, offset: int, client: str = "") -> bool:
        """A pulling client is done with everything before `offset`; whether that counts.

        What was delivered from before `offset` is done, what was delivered from there on stays
        with its client. An offset before the group's own place sets the group back, as `commit`
        does. One that changes nothing writes nothing. Raises as `commit`.
        """
        place, progress = self._place(group, topic, queue, offset, client)
        if progress is not None and progress.is_reset_unseen:
            return False
        if progress is None or offset < progress.floor:
            self._progress_store.write(OffsetCommitted(*place, offset))
            return True
        passed = sorted(each for each in progress.slots if each < offset)
        if passed:
            self._progress_store.write(DeliverySettled(*place, to_runs(passed), Transition.DROP))
        if offset > progress.cursor:
            self._progress_store.write(CursorAdvanced(*place, offset))
        return True

    def committed(self, group: str, topic: str, queue: int, client: str = "") -> int | None:
        """The offset before which everything is done; None where the group never consumed.

        In a broadcast group that of `client`, else of the one that is the furthest behind.
        """
        names = [progress_name(group, client)] if client else self._names(group)
        queues = [self._progress_store.find(name, topic, queue) for name in names]
        return min((each.floor for each in queues if each is not None), default=None)

    def start(self, group: str, topic: str, queue: int) -> int:
        """Where a pulling client begins in a queue without a committed offset: as the group says.

        In the group's own retry topic, and in a queue that was added to a topic under consumption,
        that is the beginning. Raises GroupNotFound, TopicNotFound, QueueNotFound.
        """
        config = self._groups.get(group)
        self._check_queue(topic, queue)
        has_begun = any(self._progress_store.has_topic(name, topic) for name in self._names(group))
        if has_begun or topic == retry_topic(group):
            return self._store.bounds(topic, queue)[0]
        return self._starts.pulled(config.start, config.start_at_ms, topic, queue)

    def is_young(self, topic: str, queue: int) -> bool:
        """Whether the queue still has its very first message, among the log's recent ones.

        RocketMQ starts a new group at the beginning of such a queue, whatever the group asks for.
        """
        self._check_queue(topic, queue)
        return self._starts.is_young(topic, queue)

    def _names(self, group: str) -> list[str]:
        """Under which names there is progress of a group: its own, or that of its clients."""
        config = self._groups.find(group)
        if config is None or config.mode is Mode.CLUSTERING:
            return [group]
        return self._broadcasts.names(group)[1:]

    def _place(
        self, group: str, topic: str, queue: int, offset: int, client: str
    ) -> tuple[tuple[str, str, int], QueueProgress | None]:
        """Whose progress an offset is set for, and that progress; creates the group if need be."""
        _check_offset(offset)
        self._check_queue(topic, queue)
        name = self._broadcasts.name_of(self._groups.ensure(group), client)
        return (name, topic, queue), self._progress_store.find(name, topic, queue)

    def _check_queue(self, topic: str, queue: int) -> None:
        config = self._catalog.get(topic)
        if not 0 <= queue < config.read_queues:
            raise QueueNotFound(
                f"topic {topic!r} has no queue {queue}",
                field="queue",
                remedy=f"choose 0 to {config.read_queues - 1}",
            )

    def lag(self, group: str) -> GroupLag:
        """The lag of the group, in messages and in time. Raises GroupNotFound.

        Of a broadcast group, in each queue, how far the client is that is the furthest behind.
        """
        self._groups.get(group)
        names = self._names(group)
        places = [each for name in names for each in self._progress_store.of_group(name)]
        if names != [group]:
            places = _furthest(places)
        queues = [self._queue_lag(each) for each in places]
        oldest = [queue.oldest_ms for queue in queues if queue.oldest_ms is not None]
        first, end = self._store.bounds(dead_letter_topic(group), GROUP_QUEUE)
        return GroupLag(
            queues=queues,
            count=sum(queue.count for queue in queues),
            inflight=total(queue.inflight for queue in queues),
            retry_waiting=self.retry_waiting(group),
            dead=end - first,
            oldest_age_ms=max(0, self._clock.now_ms() - min(oldest)) if oldest else None,
            counts=LagBasis.ALL
            if any(each.counts is LagBasis.ALL for each in queues)
            else (LagBasis.MATCHING),
        )

    def _queue_lag(self, progress: QueueProgress) -> QueueLag:
        topic, queue = progress.topic, progress.queue
        first, end = self._store.bounds(topic, queue)
        outstanding = sum(offset >= first for offset in progress.slots)
        coming, counts = self._filters.count(progress, max(progress.cursor, first), end)
        count = coming + outstanding
        oldest_ms = None
        if count:
            entries = self._store.entries(topic, queue, progress.floor, 1)
            oldest_ms = self._store.stored_ms_at(entries[0]) if entries else None
        return QueueLag(
            topic=topic,
            queue=queue,
            min_offset=first,
            max_offset=end,
            committed=progress.floor,
            cursor=progress.cursor,
            count=count,
            inflight=sum(1 for slot in progress.slots.values() if slot.serial),
            oldest_ms=oldest_ms,
            expired=progress.expired,
            counts=counts,
        )

    def retry_waiting(self, group: str) -> int:
        """Retries sent through the delay levels, less those that came out of them.

        What came out is what arrived in the retry topic without having been put there directly.
        """
        count = self._progress_store.retries(group)
        arrived = self._store.bounds(retry_topic(group), GROUP_QUEUE)[1] - count.direct
        return max(0, count.delayed - max(0, arrived))


def _check_offset(offset: int) -> None:
    if not 0 <= offset <= NUMBER_MAX:
        raise Invalid(
            f"offset is {str(offset)[:40]}", field="offset", remedy=f"choose 0 to {NUMBER_MAX}"
        )


def _furthest(places: Iterable[QueueProgress]) -> list[QueueProgress]:
    """Of each queue the progress of the client that has done the least."""
    worst: dict[tuple[str, int], QueueProgress] = {}
    for each in places:
        known = worst.get((each.topic, each.queue))
        if known is None or each.done_count < known.done_count:
            worst[each.topic, each.queue] = each
    return [worst[place] for place in sorted(worst)]
