"""Which brokers a topic has queues on, and where these brokers are.

Routes are asked of the name servers, one after the other until one answers, and kept for REFRESH_S.
While no name server answers, those that are known stay in use.
"""

import asyncio
import time
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from app.cluster.connections import ConnectionPool
from app.cluster.errors import ClusterError, ClusterRefused, ClusterUnreachable, broker_away
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command
from protocol.remoting.loose_json import standard_json
from protocol.remoting.routes import (
    MASTER,
    BrokerQueues,
    ClusterBroker,
    ClusterInfo,
    ClusterQueue,
    TopicRoute,
)

__all__ = ["MASTER", "BrokerQueues", "ClusterBroker", "ClusterQueue", "RouteTable", "TopicRoute"]

Shape = TypeVar("Shape", bound=msgspec.Struct)

REFRESH_S = 30.0
ROUTES_MAX = 100_000
CHECK_S = 3.0  # of one that only asks whether a name server is there
TIMEOUT_S = 10.0  # of any request; who listens no more is told by the connection
ASIDE_BYTES = 256 * 1024


class _QueueKey(msgspec.Struct, rename="camel"):
    broker_name: str
    queue_id: int
    topic: str


class RouteTable:
    """Routes by topic, and all brokers that were heard of."""

    def __init__(self, pool: ConnectionPool, name_servers: str) -> None:
        """`name_servers` are addresses between semicolons."""
        self._pool = pool
        self._addresses = [each.strip() for each in name_servers.split(";") if each.strip()]
        self._routes: dict[str, tuple[TopicRoute, float]] = {}
        self._brokers: dict[str, ClusterBroker] = {}
        self._doubtful: set[str] = set()  # brokers that did not answer
        if not self._addresses:
            raise ClusterError(
                "no name server is named", remedy="give addresses, as in 127.0.0.1:9876"
            )

    async def ask(self, command: Command) -> Command:
        """The answer of the first name server that gives one; the next call begins with it."""
        errors = []
        for address in list(self._addresses):
            try:
                answer = await self._pool.ask(address, command, TIMEOUT_S)
            except ClusterUnreachable as error:
                errors.append(error.detail)
                continue
            if address in self._addresses:
                self._addresses.remove(address)
                self._addresses.insert(0, address)
            return answer
        raise ClusterUnreachable(
            f"no name server answers: {'; '.join(errors)}",
            remedy="check the addresses, and that the name servers run",
        )

    async def failures(self) -> dict[str, str]:
        """All name servers, and why one does not answer just now; "" where it does."""

        async def failure(address: str) -> str:
            try:
                command = Command(RequestCode.GET_BROKER_CLUSTER_INFO, fields={})
                await self._pool.ask(address, command, CHECK_S)
            except ClusterUnreachable as error:
                return error.detail
            return ""

        addresses = sorted(self._addresses)
        answers = await asyncio.gather(*map(failure, addresses))
        return dict(zip(addresses, answers, strict=True))

    async def ask_all(self, command: Command) -> list[Command]:
        """The answers of all name servers that give one; ClusterUnreachable if none does."""
        tasks = [
            self._pool.ask(address, replace(command, fields=dict(command.fields)), TIMEOUT_S)
            for address in self._addresses
        ]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        for failure in answers:
            if isinstance(failure, BaseException) and not isinstance(failure, ClusterUnreachable):
                raise failure
        commands = [each for each in answers if isinstance(each, Command)]
        if not commands:
            raise ClusterUnreachable("no name server answers")
        return commands

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic; ClusterRefused with TOPIC_NOT_EXIST where there is none."""
        known, until_s = self._routes.get(topic, (None, 0.0))
        if known is not None and time.monotonic() < until_s:
            return known
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        try:
            answer = await self.ask(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields=fields))
        except ClusterUnreachable:
            if known is None:
                raise
            return known
        if answer.code != ResponseCode.SUCCESS:
            self.forget(topic)
            raise ClusterRefused(answer.remark or f"no route of {topic}", answer.code)
        route = decoded(answer.body, TopicRoute)
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        self._routes[topic] = route, time.monotonic() + REFRESH_S
        self._brokers |= {each.broker_name: each for each in route.broker_datas}
        return route

    def forget(self, topic: str) -> None:
        """Ask again for the route of a topic when it is needed next."""
        self._routes.pop(topic, None)

    async def brokers(self) -> dict[str, ClusterBroker]:
        """All brokers that are registered just now, by name."""
        answer = await self.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO, fields={}))
        if answer.code != ResponseCode.SUCCESS:
            raise ClusterRefused(answer.remark, answer.code)
        table = decoded(standard_json(answer.body), ClusterInfo).broker_addr_table
        self._brokers |= table
        return table

    async def address(self, broker: str, broker_id: int = MASTER) -> str:
        """Where the master of a broker listens, or the slave of an id; ClusterUnreachable.

        The slave that was heard of last counts, also while no name server knows it.
        """
        known = self._brokers.get(broker)
        if known is None or broker in self._doubtful or broker_id not in known.broker_addrs:
            fresh = (await self.brokers()).get(broker)
            addresses = fresh.broker_addrs if fresh else {}
            self._doubtful.discard(broker)
            if broker_id == MASTER or known is None or broker_id in addresses:
                known = fresh
        if known is None or broker_id not in known.broker_addrs:
            if broker_id == MASTER:
                raise broker_away(broker)
            raise ClusterUnreachable(f"broker {broker} has no slave {broker_id} just now")
        return known.broker_addrs[broker_id]

    def broker_at(self, address: str, broker_id: int) -> str:
        """The name of the known broker whose member of an id listens there; "" for none."""
        for name, each in self._brokers.items():
            if each.broker_addrs.get(broker_id) == address:
                return name
        return ""

    def slaves(self, broker: str) -> list[int]:
        """The ids of the known slaves of a broker."""
        known = self._brokers.get(broker)
        return sorted(each for each in known.broker_addrs if each != MASTER) if known else []

    def doubt(self, broker: str) -> None:
        """Ask again where a broker is when it is needed next."""
        self._doubtful.add(broker)


def decoded(body: bytes, kind: type[Shape]) -> Shape:
    """The JSON of an answer's body as a struct; ClusterError where it is none."""
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise ClusterError(
            f"an answer that is no {kind.__name__}: {error}",
            remedy="is this a RocketMQ cluster of 4.9.4 or newer?",
        ) from None


async def decoded_aside(body: bytes, kind: type[Shape]) -> Shape:
    """The same of nearly JSON; on another thread where that takes more than milliseconds."""
    if len(body) < ASIDE_BYTES:
        return decoded(standard_json(body), kind)
    return await asyncio.to_thread(lambda: decoded(standard_json(body), kind))


def queue_of(key: str) -> ClusterQueue:
    """The queue that is the key of a map in an answer."""
    name = decoded(key.encode(), _QueueKey)
    return ClusterQueue(name.topic, name.broker_name, name.queue_id)
