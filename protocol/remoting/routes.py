"""Routes of topics: which brokers have queues, where they are, and how the queues are numbered.

The brokers have a fixed order, which the name servers keep: queue `q` of `n` brokers is queue
`q // n` of broker `q % n`.
"""

from typing import NamedTuple

import msgspec

READ, WRITE = 4, 2  # bits of a permission
MASTER = 0
ORDER_NAMESPACE, ORDER_NAME = "KITEMQ_MOVE", "kitemq_move"  # of the value that is the order
ORDER_SEPARATOR = ";"


class ClusterQueue(NamedTuple):
    """A queue of a topic on one broker."""

    topic: str
    broker: str
    queue: int


class ClusterBroker(msgspec.Struct, frozen=True, rename="camel"):
    """A master and its slaves under one name; addresses by broker id, 0 is the master."""

    broker_name: str
    cluster: str = ""
    broker_addrs: dict[int, str] = {}


class BrokerQueues(msgspec.Struct, frozen=True, rename="camel"):
    """What one broker has of a topic."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0


class TopicRoute(msgspec.Struct, frozen=True, rename="camel"):
    """The brokers of a topic."""

    queue_datas: list[BrokerQueues] = []
    broker_datas: list[ClusterBroker] = []

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers that have queues of it."""
        return sorted(each.broker_name for each in self.queue_datas)

    def readable(self, topic: str) -> list[ClusterQueue]:
        """Queues that can be read, in the order of brokers and numbers."""
        return [
            ClusterQueue(topic, each.broker_name, queue)
            for each in sorted(self.queue_datas, key=lambda each: each.broker_name)
            if each.perm & READ
            for queue in range(each.read_queue_nums)
        ]

    def writable(self, topic: str) -> list[ClusterQueue]:
        """Queues that take messages: of brokers that have a master just now."""
        masters = {each.broker_name for each in self.broker_datas if MASTER in each.broker_addrs}
        return [
            ClusterQueue(topic, each.broker_name, queue)
            for each in sorted(self.queue_datas, key=lambda each: each.broker_name)
            if each.perm & WRITE and each.broker_name in masters
            for queue in range(each.write_queue_nums)
        ]


class ClusterInfo(msgspec.Struct, frozen=True, rename="camel"):
    """All brokers that are registered, by name."""

    broker_addr_table: dict[str, ClusterBroker] = {}
