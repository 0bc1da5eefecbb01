"""Purges topics: their queues begin later at once; the bytes go with their segment.

What was read from the topic before is not touched: retries and dead letters are messages of their
own topics, and what waits for its time goes to the topic when that has come.
"""

from collections.abc import Mapping

import msgspec

from engine.clock import Clock
from engine.errors import Forbidden, Invalid, QueueNotFound
from engine.events import EventBus, Expired
from engine.retention.policy import Cause
from engine.retention.trims import Trims
from engine.store.store import Store
from engine.topic.catalog import Catalog, TopicConfig
from engine.topic.names import CLOSED_TOPICS


class QueuePurge(msgspec.Struct, frozen=True):
    """`count` messages from `from_offset` on went; the queue begins at `to_offset`."""

    queue: int
    from_offset: int
    to_offset: int
    count: int


class Purge(msgspec.Struct, frozen=True):
    """Result of a purge, or its preview: the queues that lose messages, and the sum."""

    topic: str
    queues: list[QueuePurge]
    count: int
    dry_run: bool


class Purger:
    """Checks what is asked for, and carries it out as a whole or not at all."""

    def __init__(
        self, store: Store, catalog: Catalog, trims: Trims, clock: Clock, events: EventBus
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._trims = trims
        self._clock = clock
        self._events = events

    def purge(
        self,
        topic: str,
        *,
        before_offset: Mapping[int, int] | None,
        before_ms: int | None,
        everything: bool,
        dry_run: bool,
    ) -> Purge:
        """See `Retention.purge`."""
        config = self._catalog.get(topic)
        if topic in CLOSED_TOPICS:
            raise Forbidden(
                f"{topic!r} is the engine's own: what waits there would be lost",
                field="topic",
                remedy="purge the topic that the messages are bound for",
            )
        _check_one(before_offset is not None, before_ms is not None, everything)
        begins = self._begins(config, before_offset, before_ms)
        queues = [
            QueuePurge(queue, first, begin, begin - first)
            for queue, begin in begins.items()
            if begin > (first := self._store.bounds(topic, queue)[0])
        ]
        count = sum(queue.count for queue in queues)
        trims = self._trims.begins_of(topic)
        # Also what retention has just taken: a crash before its files are gone brings that back.
        later = {queue: begin for queue, begin in begins.items() if begin > trims.get(queue, 0)}
        if later and not dry_run:
            self._trims.trim(topic, later, is_lasting=True)
            if queues and self._events.has_subscribers:
                self._events.emit(Expired(self._clock.now_ms(), Cause.PURGE, topic, count, 0))
        return Purge(topic, queues, count, dry_run)

    def _begins(
        self, config: TopicConfig, before_offset: Mapping[int, int] | None, before_ms: int | None
    ) -> dict[int, int]:
        """By queue: the offset that it is to begin at."""
        queues = range(max(config.read_queues, config.write_queues))
        if before_offset is None:
            return {queue: self._begin(config.name, queue, before_ms) for queue in queues}
        for queue, offset in before_offset.items():
            if queue not in queues:
                raise QueueNotFound(
                    f"topic {config.name!r} has no queue {queue}",
                    field=f"before_offset.{queue}",
                    remedy=f"choose 0 to {queues[-1]}",
                )
            end = self._store.bounds(config.name, queue)[1]
            if not 0 <= offset <= end:
                raise Invalid(
                    f"queue {queue} has no offset {offset}, it ends at {end}",
                    field=f"before_offset.{queue}",
                    remedy=f"choose 0 to {end}",
                )
        return dict(before_offset)

    def _begin(self, topic: str, queue: int, before_ms: int | None) -> int:
        if before_ms is None:
            return self._store.bounds(topic, queue)[1]
        return self._store.offset_at_time(topic, queue, before_ms)


def _check_one(*conditions: bool) -> None:
    if sum(conditions) != 1:
        raise Invalid(
            "it is not said, or said twice, how much is to be purged",
            field="before_offset",
            remedy="give one of before_offset, before_ms and all",
        )
