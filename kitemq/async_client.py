"""The REST interface for asyncio code: administration, pull, and consuming without a connection."""

from types import TracebackType
from typing import Self

from kitemq.async_api.access import AsyncAccessApi
from kitemq.async_api.alerts import AsyncAlertsApi
from kitemq.async_api.clients import AsyncClientsApi
from kitemq.async_api.connection import AsyncRestConnection
from kitemq.async_api.dead_letters import AsyncDeadLettersApi
from kitemq.async_api.deliveries import AsyncDeliveriesApi
from kitemq.async_api.groups import AsyncGroupsApi
from kitemq.async_api.members import AsyncMembersApi
from kitemq.async_api.messages import AsyncMessagesApi
from kitemq.async_api.replays import AsyncReplaysApi
from kitemq.async_api.reports import AsyncReportsApi
from kitemq.async_api.scheduled import AsyncScheduledApi
from kitemq.async_api.server import AsyncServerApi
from kitemq.async_api.statistics import AsyncStatisticsApi
from kitemq.async_api.topics import AsyncTopicsApi
from kitemq.async_api.traces import AsyncTracesApi
from kitemq.async_api.transactions import AsyncTransactionsApi
from kitemq.async_api.views import AsyncViewsApi
from kitemq.rest import TIMEOUT_S


class AsyncClient:
    """Talks REST to one server from asyncio code; close it after use (or `async with`).

    Each attribute has the operations of one resource: `client.topics.create("orders")`. Results are
    structs of `kitemq.model`. Every operation raises Invalid, NotFound, Refused or Busy as the
    server says, Unreachable where there is no server, and TimedOut where no answer came within
    `timeout_s` (plus any wait asked for). `ca` is a PEM file of the authorities to trust, else
    KITEMQ_CA, else the system's.
    """

    def __init__(self, server: str = "", *, timeout_s: float = TIMEOUT_S, ca: str = "") -> None:
        self._rest = rest = AsyncRestConnection(server, timeout_s=timeout_s, ca=ca)
        self.topics = AsyncTopicsApi(rest)
        self.groups = AsyncGroupsApi(rest)
        self.members = AsyncMembersApi(rest)
        self.clients = AsyncClientsApi(rest)
        self.messages = AsyncMessagesApi(rest)
        self.deliveries = AsyncDeliveriesApi(rest)
        self.dead_letters = AsyncDeadLettersApi(rest)
        self.replays = AsyncReplaysApi(rest)
        self.scheduled = AsyncScheduledApi(rest)
        self.transactions = AsyncTransactionsApi(rest)
        self.traces = AsyncTracesApi(rest)
        self.statistics = AsyncStatisticsApi(rest)
        self.reports = AsyncReportsApi(rest)
        self.alerts = AsyncAlertsApi(rest)
        self.access = AsyncAccessApi(rest)
        self.views = AsyncViewsApi(rest)
        self.server = AsyncServerApi(rest)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._rest.url

    async def close(self) -> None:
        """Close the connection."""
        await self._rest.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
