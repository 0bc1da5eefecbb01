"""Queue locks of a cluster: leases that a broker keeps of its own queues."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from app.cluster.link import ClusterLink
from app.cluster.routes import ClusterQueue, decoded
from protocol.remoting.codes import RequestCode
from protocol.remoting.loose_json import standard_json

LEASE_S = 60.0  # of Apache's brokers


class _LockQueue(msgspec.Struct, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int


class _LockRequest(msgspec.Struct, rename="camel"):
    consumer_group: str
    client_id: str
    mq_set: list[_LockQueue]


class _Locked(msgspec.Struct, rename={"queues": "lockOKMQSet"}):
    queues: list[_LockQueue] = []


class ClusterLocks:
    """The verbs for locks."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link

    async def lock(
        self, group: str, client: str, queues: Iterable[ClusterQueue]
    ) -> list[ClusterQueue]:
        """Lock queues for a client, or keep them; those that it has now."""
        answers = await self._ask(RequestCode.LOCK_BATCH_MQ, group, client, queues)
        return [
            ClusterQueue(each.topic, each.broker_name, each.queue_id)
            for body in answers
            for each in decoded(standard_json(body), _Locked).queues
        ]

    async def unlock(self, group: str, client: str, queues: Iterable[ClusterQueue]) -> None:
        """Give up those of the queues that the client has."""
        await self._ask(RequestCode.UNLOCK_BATCH_MQ, group, client, queues)

    async def _ask(
        self, code: RequestCode, group: str, client: str, queues: Iterable[ClusterQueue]
    ) -> list[bytes]:
        by_broker = defaultdict[str, list[_LockQueue]](list)
        for queue in queues:
            by_broker[queue.broker].append(_LockQueue(queue.topic, queue.broker, queue.queue))
        requests = [
            self._link.ask(
                broker, code, {}, body=msgspec.json.encode(_LockRequest(group, client, mine))
            )
            for broker, mine in by_broker.items()
        ]
        return [answer.body for answer in await asyncio.gather(*requests)]
