"""Topics, their queues, and what these hold."""

from collections.abc import Sequence
from typing import Any

import msgspec

from engine.errors import QueueNotFound
from engine.topic.catalog import TopicConfig, check_topic
from engine.verbs.verbs import Verbs


class QueueStats(msgspec.Struct, frozen=True):
    """One queue: offsets `min_offset` up to `max_offset` - 1 can be read."""

    queue: int
    min_offset: int
    max_offset: int
    last_stored_ms: int | None


class QueueContent(msgspec.Struct, frozen=True):
    """Content of a queue: the time of its oldest message, and the bytes of some records.

    `bytes` are those of the newest `measured` messages.
    """

    first_stored_ms: int | None
    measured: int
    bytes: int


class TopicStats(msgspec.Struct, frozen=True):
    """All queues of a topic; `messages` is how many can be read.

    `unknown` says why others are missing; "" where these are all.
    """

    queues: list[QueueStats]
    messages: int
    unknown: str = ""


class TopicVerbs(Verbs):
    """Creates, changes, deletes and measures topics."""

    def create_topic(self, config: TopicConfig) -> TopicConfig:
        """Add a topic. Raises Invalid, Conflict when the name is taken, Forbidden."""
        return self._catalog.create(config)

    def check_topic(self, config: TopicConfig) -> None:
        """Raise Invalid or Forbidden for what no topic of the users' can be; changes nothing."""
        check_topic(config)

    def change_topic(self, name: str, /, **changes: Any) -> TopicConfig:
        """Change settings of a topic; None is the broker's default where TopicConfig allows it.

        Raises TopicNotFound, Invalid, and Forbidden for the engine's own topics.
        """
        return self._catalog.change(name, **changes)

    def delete_topic(self, name: str) -> None:
        """Take a topic away with its queues and all groups' progress in it."""
        self.traces.settle(writes_max=1)  # no trace of it may pass for one of its successor's
        self._catalog.delete(name, also=self._delivery.topic_deletion_entries(name))
        self._store.delete_topic(name)
        self._parts.router.forget(name)
        self._delivery.forget_topic(name)
        self.statistics.forget_topic(name)

    def topic(self, name: str) -> TopicConfig:
        """The configuration of a topic; TopicNotFound."""
        return self._catalog.get(name)

    def plan_topic(self, name: str) -> TopicConfig:
        """The topic as the next message to it would find it; nothing is created.

        Raises TopicNotFound where none would be created, Invalid for what is no name.
        """
        return self._catalog.plan(name)

    def topics(self, *, system: bool = False) -> list[TopicConfig]:
        """All topics by name; the engine's own only when asked for."""
        return self._catalog.all(system=system)

    def topic_stats(self, name: str) -> TopicStats:
        """Offsets and last times of a topic's queues; TopicNotFound."""
        config = self._catalog.get(name)
        queues = [
            self._queue_stats(name, queue)
            for queue in range(max(config.read_queues, config.write_queues))
        ]
        return TopicStats(queues, sum(queue.max_offset - queue.min_offset for queue in queues))

    def queue_bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The first offset of a topic's queue that is kept, and the next one to be stored."""
        return self._store.bounds(topic, queue)

    def queue_content(self, topic: str, queue: int, *, count_max: int) -> QueueContent:
        """The age of a queue's oldest message and the size of its newest, at most `count_max`.

        Reads their places in the log and one record's head; nothing of a queue that there is not.
        """
        first, end = self._store.bounds(topic, queue)
        oldest = self._store.entries(topic, queue, first, 1)
        newest = self._store.entries(topic, queue, max(first, end - count_max), count_max)
        sizes = [entry.size_bytes for entry in newest if entry.has_record]
        first_ms = self._store.stored_ms_at(oldest[0]) if oldest else None
        return QueueContent(first_ms, len(sizes), sum(sizes))

    def offset_at_time(self, topic: str, queue: int, at_ms: int) -> int:
        """The first offset of a queue stored at or after `at_ms`; its end where all are older.

        TopicNotFound, QueueNotFound.
        """
        count = self._catalog.get(topic).read_queues
        if not 0 <= queue < count:
            raise QueueNotFound(
                f"topic {topic!r} has no queue {queue}",
                field="queue",
                remedy=f"choose 0 to {count - 1}",
            )
        return self._store.offset_at_time(topic, queue, at_ms)

    def groups_of(self, topic: str) -> Sequence[str]:
        """Names of the groups that have consumed from a topic."""
        return self._delivery.groups_of(topic)

    def _queue_stats(self, topic: str, queue: int) -> QueueStats:
        first, end = self._store.bounds(topic, queue)
        return QueueStats(queue, first, end, self._store.last_stored_ms(topic, queue))
