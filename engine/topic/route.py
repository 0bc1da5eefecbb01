"""Which queue a message goes to.

A message group always goes to the same queue while the number of queues stays; a named queue is
taken as it is; everything else goes round, a whole batch to one queue as RocketMQ's batches do.
"""

from engine.errors import Invalid
from engine.store.hashing import java_hash
from engine.topic.catalog import TopicConfig


class Router:
    """Remembers, per topic, where the round goes on."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def next_queue(self, topic: TopicConfig) -> int:
        """The next queue in the round."""
        turn = self._turns.get(topic.name, -1) + 1
        if turn >= topic.write_queues:
            turn = 0
        self._turns[topic.name] = turn
        return turn

    def group_queue(self, topic: TopicConfig, message_group: str) -> int:
        """The queue of a message group: abs(hash) mod queues, as RocketMQ's hash selector."""
        value = java_hash(message_group)
        return (0 if value == -(1 << 31) else abs(value)) % topic.write_queues

    def forget(self, topic: str) -> None:
        self._turns.pop(topic, None)


def check_queue(topic: TopicConfig, queue: int) -> None:
    """Invalid when the sender names a queue that the topic does not have."""
    queues = max(topic.read_queues, topic.write_queues)
    if queue >= queues:
        raise Invalid(
            f"topic {topic.name!r} has queues 0 to {queues - 1}, not {queue}",
            field="queue",
            remedy="name one of them, or none",
        )
