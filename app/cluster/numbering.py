"""One number for each queue of a topic that lies on several brokers.

The brokers have a fixed order, which the name servers keep: queue `q` of `n` brokers is queue
`q // n` of broker `q % n`. So a broker that is away keeps its numbers, and a topic that gets more
queues keeps those that it has. A broker that joins later has none until it is put into the order,
which numbers every queue anew: that is for a person to decide.
"""

from collections.abc import Iterable, Sequence

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterRefused, ClusterUnreachable
from app.cluster.routes import ClusterQueue, TopicRoute
from engine.errors import QueueNotFound, Refused
from protocol.remoting.routes import ORDER_NAME as NAME
from protocol.remoting.routes import ORDER_NAMESPACE as NAMESPACE
from protocol.remoting.routes import ORDER_SEPARATOR as SEPARATOR

__all__ = ["NAME", "NAMESPACE", "QueueNumbers", "queue_numbers"]

PLACES_MAX = 1 << 20  # of a number: more queues no topic has


class QueueNumbers:
    """Numbers and places of queues, by the order of the brokers."""

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = tuple(brokers)
        self._index = {name: index for index, name in enumerate(self.brokers)}

    def number(self, queue: ClusterQueue) -> int:
        """The number of a queue; Refused where its broker has no place in the order."""
        self.check((queue.broker,))
        return queue.queue * len(self.brokers) + self._index[queue.broker]

    def place(self, topic: str, number: int) -> ClusterQueue:
        """The queue that has a number, whether there is one or not; QueueNotFound for no number."""
        if not 0 <= number < PLACES_MAX:
            raise QueueNotFound(f"{number} is no queue", field="queue", remedy="name one of them")
        queue, index = divmod(number, len(self.brokers))
        return ClusterQueue(topic, self.brokers[index], queue)

    def share(self, count: int) -> int:
        """How many queues each broker needs for so many in all."""
        return -(-count // len(self.brokers))

    def counts(self, route: TopicRoute) -> tuple[int, int]:
        """How many numbers a topic has for reading and for writing."""
        reads = max((each.read_queue_nums for each in route.queue_datas), default=0)
        writes = max((each.write_queue_nums for each in route.queue_datas), default=0)
        return reads * len(self.brokers), writes * len(self.brokers)

    def check(self, brokers: Iterable[str]) -> None:
        """Refused where one of them has no place in the order: its queues have no number."""
        strange = [each for each in brokers if each not in self._index]
        if strange:
            order = SEPARATOR.join((*self.brokers, *strange))
            raise Refused(
                f"broker {strange[0]!r} joined the cluster after its queues were numbered",
                field="topic",
                remedy=f"take the topic off it, or number all queues anew: mqadmin "
                f"updateKvConfig -s {NAMESPACE} -k {NAME} -v '{order}', and start again",
                code="broker_not_numbered",
            )


async def queue_numbers(client: ClusterClient, name: str = NAME) -> tuple[QueueNumbers, bool]:
    """The numbering that the name servers keep under `name`, and whether they had one already.

    Without one, the brokers that have a master just now make it; ClusterUnreachable if none has.
    """
    text = await client.values.get(NAMESPACE, name)
    is_known = bool(text)
    if not is_known:
        text = SEPARATOR.join(await client.masters())
        if not text:
            raise ClusterUnreachable("no broker has a master", remedy="start one")
        try:
            await client.values.put(NAMESPACE, name, text)
        except ClusterRefused:
            if SEPARATOR in text:
                raise
            # One broker that is its own name server, as KiteMQ is, and will be the only one.
    return QueueNumbers(text.split(SEPARATOR)), is_known
