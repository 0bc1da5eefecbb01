"""Members of a cluster's groups: the clients whose heartbeats its brokers have.

A broker asks a classic client which queues it reads, and hands its answer on. It keeps one
subscription for a group, that of the last heartbeat, and does not tell since when a client is
there. Who receives by POP without a heartbeat is no member, and so is nobody who
receives through KiteMQ.
"""

from collections.abc import Iterator

from app.administration import MemberLists
from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog, NamedCache
from app.cluster.census import ClusterCensus
from app.cluster.engine_errors import engine_errors
from app.cluster.groups import ClusterConsumer, ClusterConsumers, ClusterSubscription
from app.cluster.routes import ClusterQueue
from app.cluster.verbs.filters import SQL_PREFIX
from app.cluster.verbs.part import ClusterPart, all_of
from app.services.member_queues import member_queues
from engine.broker import RETRY_PREFIX, Member, Members, SubscriptionWarning
from engine.errors import Busy
from kitemq.model.members import MemberQueue
from protocol.remoting.codes import version_text
from protocol.remoting.running_info import ALL_QUEUES, ReadQueue

MEMBERS_S = 2.0
TIMEOUT_S = 120.0  # after which brokers drop a connection that says nothing
GROUPS_MAX = 10_000  # of which everyone is listed


class ClusterMemberLists(ClusterPart, MemberLists):
    """`MemberLists` of a cluster."""

    def __init__(self, catalog: ClusterCatalog, census: ClusterCensus) -> None:
        super().__init__(catalog)
        self._census = census
        self._connected = NamedCache(self._read, MEMBERS_S)

    @property
    def _engine(self) -> Members:
        raise not_supported("has no such verb", field="client", remedy="use the cluster's tools")

    @property
    def timeout_s(self) -> float:
        """As brokers have it."""
        return TIMEOUT_S

    async def of(self, group: str) -> list[Member]:
        """The live members of a group by client; GroupNotFound."""
        await self._catalog.group(group)
        return _members(await self._connected.get(group))

    async def everyone(self) -> Iterator[tuple[str, Member]]:
        """The live members of all groups with their group, of the first GROUPS_MAX groups."""
        names = [each.name for each in await self._census.groups()][:GROUPS_MAX]
        all_connected = await all_of(map(self._connected.get, names))
        return (
            (name, member)
            for name, connected in zip(names, all_connected, strict=True)
            for member in _members(connected)
        )

    async def memberships(self, client: str) -> list[tuple[str, Member]]:
        """The groups that a client is a live member of, by name."""
        return [each for each in await self.everyone() if each[1].client == client]

    async def count(self, group: str) -> int:
        """Number of a group's members."""
        return len((await self._connected.get(group)).connection_set)

    async def subscription(self, group: str) -> dict[str, str]:
        """Subscription of the last heartbeat, which in RocketMQ is all that the group gets."""
        return _topics(await self._connected.get(group))

    async def warning(self, group: str) -> SubscriptionWarning | None:
        """None: brokers do not keep what each member subscribes to."""
        return None

    async def queues(self, group: str, member: Member) -> list[MemberQueue]:
        """What a classic client lists, asked by a broker that it is connected to."""
        connected = await self._connected.get(group)
        clients = {each.client_id: each for each in connected.connection_set}
        if member.client not in clients:
            raise Busy("it is gone", field="client", remedy="ask again when it is back")
        with engine_errors("group"):
            told = await self._client.groups.queues(group, clients[member.client])
        shared = {each.topic for each in told or () if each.queue == ALL_QUEUES}
        routes = {topic: await self._catalog.route(topic) for topic in sorted(shared)}

        def numbers(place: ReadQueue) -> list[int]:
            """Those of all queues of its broker, or of the one."""
            places = (
                routes[place.topic].readable(place.topic)
                if place.queue == ALL_QUEUES
                else [ClusterQueue(place.topic, place.broker, place.queue)]
            )
            return [self._numbers.number(each) for each in places if each.broker == place.broker]

        return member_queues(told, numbers)

    async def _read(self, group: str) -> ClusterConsumers:
        with engine_errors("group"):
            return await self._client.groups.connected(group, is_partial=True)


def _members(connected: ClusterConsumers) -> list[Member]:
    topics = _topics(connected)
    return [_member(each, topics) for each in connected.connection_set]


def _member(client: ClusterConsumer, topics: dict[str, str]) -> Member:
    return Member(
        client=client.client_id,
        version=version_text(client.version),
        language=client.language,
        address=client.client_addr,
        topics=topics,
        is_pulling=True,
        is_connected=True,
        joined_ms=None,
        seen_ms=None,
    )


def _topics(connected: ClusterConsumers) -> dict[str, str]:
    return {
        topic: _filter(each)
        for topic, each in sorted(connected.subscription_table.items())
        if not topic.startswith(RETRY_PREFIX)
    }


def _filter(subscription: ClusterSubscription) -> str:
    is_sql = subscription.expression_type == "SQL92"
    return f"{SQL_PREFIX}{subscription.sub_string}" if is_sql else subscription.sub_string
