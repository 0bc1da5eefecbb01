"""The client of a cluster: one link, and the verbs by what they are about."""

from types import TracebackType
from typing import Self

from app.cluster.deliveries import ClusterDeliveries
from app.cluster.groups import ClusterGroups
from app.cluster.half_messages import ClusterHalfMessages
from app.cluster.link import ClusterLink
from app.cluster.locks import ClusterLocks
from app.cluster.reading import ClusterReads
from app.cluster.replies import ClusterReplies
from app.cluster.routes import ClusterBroker
from app.cluster.runtime import BrokerRuntime, broker_runtime, runtime_table
from app.cluster.schedules import ClusterSchedules
from app.cluster.sending import ClusterSends
from app.cluster.topics import ClusterTopics
from app.cluster.values import ClusterValues
from protocol.remoting.codes import RequestCode, ResponseCode


class ClusterClient:
    """Speaks RocketMQ's remoting protocol to a cluster; close it after use (or `async with`).

    Its verbs raise the errors of `app.cluster.errors`. Nothing is sent before the first call.
    """

    def __init__(self, name_servers: str, *, access_key: str = "", secret_key: str = "") -> None:
        """`name_servers` are addresses between semicolons: "10.0.0.1:9876;10.0.0.2:9876"."""
        self._link = link = ClusterLink(name_servers, access_key, secret_key)
        self.topics = ClusterTopics(link)
        self.groups = ClusterGroups(link)
        self.sends = ClusterSends(link)
        self.reads = ClusterReads(link)
        self.deliveries = ClusterDeliveries(link)
        self.values = ClusterValues(link)
        self.half_messages = ClusterHalfMessages(link)
        self.replies = ClusterReplies(link)
        self.locks = ClusterLocks(link)
        self.schedules = ClusterSchedules(link)

    async def name_servers(self) -> dict[str, str]:
        """All name servers, and why one does not answer; "" where it does."""
        return await self._link.routes.failures()

    async def masters(self) -> list[str]:
        """The names of the brokers that take messages just now."""
        return await self._link.masters()

    async def settings(self, broker: str) -> dict[str, str]:
        """The settings of a broker's master by RocketMQ's names; empty where it tells none."""
        answer = await self._link.ask(
            broker,
            RequestCode.GET_BROKER_CONFIG,
            {},
            allowed=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.NO_PERMISSION),
        )
        lines = answer.body.decode("utf-8", "replace").splitlines()
        return {name: value for name, _, value in (each.partition("=") for each in lines) if value}

    async def brokers(self) -> dict[str, ClusterBroker]:
        """All brokers that are registered just now, by name."""
        return await self._link.routes.brokers()

    async def runtime(self, broker: str, member: int, *, timeout_s: float) -> BrokerRuntime:
        """The figures that a member of a broker gives of itself."""
        answer = await self._link.ask(
            broker, RequestCode.GET_BROKER_RUNTIME_INFO, {}, member=member, timeout_s=timeout_s
        )
        return broker_runtime(runtime_table(answer.body))

    async def close(self) -> None:
        """Close all connections."""
        await self._link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
