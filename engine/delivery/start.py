"""Where a group begins in a queue that it has no progress in.

RocketMQ's own rule is odd enough to be a choice of its own: a new group on a young topic gets all
of it, whatever it asked for; on an old one only what is new, or, for a receive, the last
message besides. Official clients expect it. Everything else does what it says.
Source: docs/rocketmq-rules.md#where-a-group-begins.
"""

from enum import StrEnum

from engine.store.store import Store


class StartAt(StrEnum):
    """First position of a group in a topic that it has not consumed yet."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"  # at the first message stored at or after the group's `start_at_ms`
    ROCKETMQ = "rocketmq"  # see above


class Starts:
    """`recent_bytes` of the log's end count as recent: RocketMQ takes 40 % of the memory for it."""

    def __init__(self, store: Store, *, recent_bytes: int) -> None:
        self._store = store
        self._recent_bytes = recent_bytes

    def received(self, start: StartAt, at_ms: int, topic: str, queue: int) -> int:
        """The first offset to deliver to a group that receives."""
        first, end = self._store.bounds(topic, queue)
        if start is StartAt.ROCKETMQ:
            return 0 if self.is_young(topic, queue) else max(first, end - 1)
        return self._plain(start, at_ms, topic, queue)

    def pulled(self, start: StartAt, at_ms: int, topic: str, queue: int) -> int:
        """The first offset to pull for a group that asks for the last one."""
        if start is StartAt.ROCKETMQ:
            return 0 if self.is_young(topic, queue) else self._store.bounds(topic, queue)[1]
        return self._plain(start, at_ms, topic, queue)

    def is_young(self, topic: str, queue: int) -> bool:
        """Whether the queue still has its very first message, among the log's recent ones."""
        first, end = self._store.bounds(topic, queue)
        if first > 0:
            return False
        entries = self._store.entries(topic, queue, 0, 1) if end else []
        return not entries or self._store.written - entries[0].position <= self._recent_bytes

    def _plain(self, start: StartAt, at_ms: int, topic: str, queue: int) -> int:
        first, end = self._store.bounds(topic, queue)
        if start is StartAt.LATEST:
            return end
        if start is StartAt.TIME:
            return max(first, self._store.offset_at_time(topic, queue, at_ms))
        return first
