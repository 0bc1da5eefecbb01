"""Queue locks of orderly consumers: leases of the brokers, which tell nobody who has them."""

import time
from collections.abc import Sequence
from typing import NoReturn

from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.locks import LEASE_S
from app.cluster.routes import ClusterQueue
from app.cluster.verbs.part import ClusterPart
from app.messaging import LockVerbs
from engine.broker import LockedQueue, LockResult, QueueLocks
from engine.errors import Invalid, QueueNotFound

BATCH_MAX = 1024
KEPT_MAX = 100_000
CLIENT_SHARE = 0.5  # of the lease, in which the client may go on reading


class ClusterLockVerbs(ClusterPart, LockVerbs):
    """Locks for KiteMQ's clients; what they gave up is known of the leases that began here."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        super().__init__(catalog)
        self._until_s: dict[tuple[str, str, LockedQueue], float] = {}

    @property
    def _engine(self) -> QueueLocks:
        raise not_supported("has no such verb", field="queues", remedy="lock and unlock")

    async def lock(self, group: str, client: str, queues: Sequence[LockedQueue]) -> LockResult:
        """Lock queues for a client, or keep them; the answer leaves out those that others have."""
        places = await self._places(client, queues)
        await self._catalog.ensure_group(group)
        begun_s, begun_ms = time.monotonic(), self._catalog.now_ms()
        with engine_errors():
            locked = set(await self._client.locks.lock(group, client, places))
        got = [queue for place, queue in places.items() if place in locked]
        if len(self._until_s) >= KEPT_MAX:
            self._until_s = {key: at for key, at in self._until_s.items() if at > begun_s}
        if len(self._until_s) < KEPT_MAX:
            self._until_s |= {(group, client, each): begun_s + LEASE_S for each in got}
        return LockResult(got, LEASE_S, begun_ms + round(LEASE_S * CLIENT_SHARE * 1000))

    async def unlock(
        self, group: str, client: str, queues: Sequence[LockedQueue]
    ) -> list[LockedQueue]:
        """Give up queues; those of them that the client had by this process."""
        places = await self._places(client, queues)
        await self._catalog.group(group)
        with engine_errors():
            await self._client.locks.unlock(group, client, places)
        now_s = time.monotonic()
        return [
            each
            for each in places.values()
            if self._until_s.pop((group, client, each), 0.0) > now_s
        ]

    async def of(self, group: str) -> NoReturn:
        """Refused: brokers do not say who has locked what."""
        raise not_supported(
            "does not list locks", field="group", remedy="ask the members of the group"
        )

    async def _places(
        self, client: str, queues: Sequence[LockedQueue]
    ) -> dict[ClusterQueue, LockedQueue]:
        if not client:
            raise Invalid("no client is named", field="client", remedy="name the consumer")
        if not 1 <= len(queues) <= BATCH_MAX:
            raise Invalid(
                f"{len(queues)} queues", field="queues", remedy=f"name 1 to {BATCH_MAX} queues"
            )
        places = {}
        for index, (topic, queue) in enumerate(queues):
            count = (await self._catalog.topic(topic)).read_queues
            if not 0 <= queue < count:
                raise QueueNotFound(
                    f"topic {topic!r} has no queue {queue} to read",
                    field=f"queues[{index}].queue",
                    remedy=f"choose 0 to {count - 1}",
                )
            places[self._numbers.place(topic, queue)] = LockedQueue(topic, queue)
        return places
