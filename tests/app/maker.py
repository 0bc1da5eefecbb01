"""A maker of the verbs, as the contract drives it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import uuid4

from app.administration import Administration
from app.cluster.administration import ClusterAdministration
from app.cluster.messaging import ClusterMessaging
from app.db.worker import DatabaseWorker
from app.messaging import Messaging
from engine.broker import Delivery, TransactionCheck
from engine.clock import SystemClock
from engine.message import Message

LIMIT_S = 90.0
STEP_S = 0.05


def cluster_administration(messaging: ClusterMessaging) -> ClusterAdministration:
    """The other verbs of a cluster, over a database in memory."""
    return ClusterAdministration(messaging.catalog, DatabaseWorker("sqlite://"), SystemClock())


@dataclass
class Maker:
    """What answers the verbs, and what a test needs besides; `advance` lets time pass."""

    messaging: Messaging
    advance: Callable[[float], Awaitable[None]]
    create_topic: Callable[[str, int, str], Awaitable[None]]  # name, queues, type
    create_group: Callable[[str, int, bool], Awaitable[None]]  # name, retries, ordered
    askers: list[Callable[[TransactionCheck], bool]]
    check_s: float  # after which an undecided transaction is asked about
    administration: Administration = field(init=False)  # where a test needs it

    async def topic(self, queues: int = 4, kind: str = "NORMAL") -> str:
        """A new topic."""
        name = f"topic-{uuid4().hex[:12]}"
        await self.create_topic(name, queues, kind)
        return name

    async def group(self, *, retry_max: int = 16, ordered: bool = False) -> str:
        """A new group."""
        name = f"group-{uuid4().hex[:12]}"
        await self.create_group(name, retry_max, ordered)
        return name

    async def send(self, topic: str, *bodies: str, **fields: object) -> list[Message]:
        """Send messages that differ in their body only."""
        new = [Message(topic, body.encode(), **fields) for body in bodies]  # type: ignore[arg-type]
        sent = await self.messaging.send(new)
        if not fields.keys() & {"delay_level", "deliver_at_ms", "transaction_group"}:
            async with asyncio.timeout(LIMIT_S):
                for message, offset in zip(sent.messages, sent.offsets, strict=True):
                    await self._until_readable(topic, message.queue, offset)
        return list(sent.messages)

    async def _until_readable(self, topic: str, queue: int, offset: int) -> None:
        """Brokers of a cluster show a message a little after they accepted it."""
        while (await self.messaging.queue_bounds(topic, queue))[1] <= offset:
            await asyncio.sleep(STEP_S)

    async def receive(
        self, group: str, topic: str, count: int, *, invisible_s: float = 60.0, filter: str = "*"
    ) -> list[Delivery]:
        """Deliveries, once there are so many."""
        deliveries: list[Delivery] = []
        async with asyncio.timeout(LIMIT_S):
            while len(deliveries) < count:
                deliveries += await self.messaging.receive(
                    group,
                    {topic: filter},
                    count_max=count - len(deliveries),
                    invisible_s=invisible_s,
                )
                if len(deliveries) < count:
                    await self.advance(0.2)
        return deliveries

    async def is_quiet(self, group: str, topic: str) -> bool:
        """Whether nothing can be received just now."""
        return not await self.messaging.receive(group, {topic: "*"}, count_max=10)


def bodies(deliveries: list[Delivery]) -> list[str]:
    """What was delivered."""
    return [each.message.plain.body.decode() for each in deliveries]
