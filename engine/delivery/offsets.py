"""Offsets that are set and asked for, and how far a group is behind."""

from engine.clock import Clock
from engine.delivery.changes import Committed
from engine.delivery.group import GroupCatalog
from engine.delivery.ledger import Ledger
from engine.delivery.progress import Progress
from engine.delivery.values import GroupLag, QueueLag
from engine.errors import Invalid, QueueNotFound
from engine.store.store import Store
from engine.topic.catalog import Catalog
from engine.topic.names import dead_letter_topic, retry_topic

GROUP_QUEUE = 0


class Offsets:
    """An offset is that of the next message to be consumed."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        groups: GroupCatalog,
        ledger: Ledger,
        clock: Clock,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._groups = groups
        self._ledger = ledger
        self._clock = clock

    def commit(self, group: str, topic: str, queue: int, offset: int) -> None:
        """Set a group's progress in a queue to any offset, also backwards.

        What was handed out from the queue is forgotten; its receipts are stale. Creates the
        group if that is allowed. Raises GroupNotFound, TopicNotFound, QueueNotFound, Invalid.
        """
        if offset < 0:
            raise Invalid(f"offset is {offset}", field="offset", remedy="choose 0 or more")
        config = self._catalog.get(topic)
        if not 0 <= queue < config.read_queues:
            raise QueueNotFound(
                f"topic {topic!r} has no queue {queue}",
                field="queue",
                remedy=f"choose 0 to {config.read_queues - 1}",
            )
        self._groups.ensure(group)
        self._ledger.write(Committed(group, topic, queue, offset))

    def committed(self, group: str, topic: str, queue: int) -> int | None:
        """The offset before which everything is done; None where the group never consumed."""
        progress = self._ledger.find(group, topic, queue)
        return None if progress is None else progress.floor

    def lag(self, group: str) -> GroupLag:
        """How far the group is behind, in messages and in time. Raises GroupNotFound."""
        self._groups.get(group)
        queues = [self._queue_lag(progress) for progress in self._ledger.of_group(group)]
        oldest = [queue.oldest_ms for queue in queues if queue.oldest_ms is not None]
        first, end = self._store.bounds(dead_letter_topic(group), GROUP_QUEUE)
        return GroupLag(
            queues=queues,
            count=sum(queue.count for queue in queues),
            inflight=sum(queue.inflight for queue in queues),
            retry_waiting=self._retry_waiting(group),
            dead=end - first,
            oldest_age_ms=max(0, self._clock.now_ms() - min(oldest)) if oldest else None,
        )

    def _queue_lag(self, progress: Progress) -> QueueLag:
        topic, queue = progress.topic, progress.queue
        first, end = self._store.bounds(topic, queue)
        outstanding = sum(offset >= first for offset in progress.slots)
        count = max(0, end - max(progress.cursor, first)) + outstanding
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
        )

    def _retry_waiting(self, group: str) -> int:
        """Retries sent through the delay levels, less those that came out of them.

        What came out is what arrived in the retry topic without having been put there directly.
        """
        count = self._ledger.retries(group)
        arrived = self._store.bounds(retry_topic(group), GROUP_QUEUE)[1] - count.direct
        return max(0, count.delayed - max(0, arrived))
