"""The verbs of `app.messaging`, answered by a RocketMQ cluster.

Everything lives in the cluster: several processes may stand before one, and settle, decide and read
what another sent or delivered. What is in memory here is said by the parts in `verbs/`: receipts
that were extended, decisions of transactions, leases of locks.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.client import ClusterClient
from app.cluster.numbering import NAME
from app.cluster.verbs.locks import ClusterLockVerbs
from app.cluster.verbs.members import ClusterMemberVerbs
from app.cluster.verbs.reading import ClusterReadVerbs
from app.cluster.verbs.receiving import ClusterReceiveVerbs
from app.cluster.verbs.requests import ClusterRequests
from app.cluster.verbs.scheduled import ClusterScheduleVerbs
from app.cluster.verbs.sending import ClusterSendVerbs
from app.cluster.verbs.transactions import ClusterTransactions
from app.cluster.verbs.waits import ClusterWaits
from app.messaging import Messaging
from engine.broker import Broker
from engine.clock import Clock, SystemClock


class ClusterMessaging(
    ClusterSendVerbs, ClusterReceiveVerbs, ClusterReadVerbs, ClusterScheduleVerbs, Messaging
):
    """`Messaging` of a cluster, between `start` and `close` (or `async with`)."""

    transactions: ClusterTransactions
    requests: ClusterRequests

    def __init__(
        self,
        client: ClusterClient,
        *,
        order: str = NAME,
        auto_create: bool = True,
        default_queues: int = 4,
        clock: Clock | None = None,
        folder: Path | None = None,
        requests_waiting_max: int = 10_000,
    ) -> None:
        """`order` names the order of the brokers, which a move has made if there was one.

        With `auto_create` topics and groups are created at their first use. In `folder` the server
        keeps what brokers do not.
        """
        catalog = ClusterCatalog(
            client,
            order=order,
            auto_create=auto_create,
            default_queues=default_queues,
            clock=clock or SystemClock(),
        )
        self.catalog = catalog
        self.capabilities = catalog.capabilities
        self._waits = ClusterWaits()
        self.transactions = ClusterTransactions(catalog, folder)
        self.locks = ClusterLockVerbs(catalog)
        self.members = ClusterMemberVerbs(catalog)
        self.requests = ClusterRequests(catalog, self, self.transactions, requests_waiting_max)
        ClusterSendVerbs.__init__(self, catalog, self.transactions)
        ClusterReceiveVerbs.__init__(self, catalog, self._waits)
        ClusterScheduleVerbs.__init__(self, catalog)

    @property
    def _engine(self) -> Broker:
        raise not_supported("has no such verb", field="engine", remedy="use the cluster's tools")

    async def load(self) -> None:
        """Read what the server keeps itself, whether the cluster is there or not."""
        await self.transactions.callbacks.load()

    async def start(self) -> None:
        """Learn what the cluster is; Busy while it cannot be reached."""
        await self.catalog.start()
        self.capabilities = self.catalog.capabilities
        await self.transactions.start()
        self.requests.start()

    @property
    def waiting_count(self) -> int:
        """Receives, pulls and requests that wait right now."""
        return len(self._waits) + self.requests.counts.waiting

    def drain(self) -> None:
        """End what waits with what it has; for the way out."""
        self.requests.drain()
        self._waits.drain()

    async def close(self) -> None:
        """End all waits and the client."""
        self.requests.close()
        await self._waits.close()
        await self.transactions.close()
        await self.catalog.client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
