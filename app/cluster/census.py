"""All topics, groups and offsets of a cluster: one table of each broker, asked for as a whole.

A list of ten thousand topics takes one request of each broker. Tables are kept for TABLE_S. While a
broker is away its last table of topics and of groups still counts, as nobody can change it; its
offsets may be behind those of its slave: who gives them looks at `away` first.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Generic, TypeVar

from app.cluster.catalog import ClusterCatalog, group_config
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterUnreachable, broker_away
from app.cluster.groups import ClusterGroup, GroupOffsets
from app.cluster.routes import BrokerQueues, TopicRoute
from app.cluster.topics import BrokerTopic
from engine.broker import GroupConfig, TopicConfig, is_system_topic

TABLE_S = 2.0
OWN_S = 30.0
T = TypeVar("T")


class BrokerTables(Generic[T]):
    """A table of each broker that has queue numbers."""

    def __init__(
        self,
        brokers: Callable[[], tuple[str, ...]],
        masters: Callable[[], Coroutine[Any, Any, list[str]]],
        ask: Callable[[str], Coroutine[Any, Any, T]],
        kept_s: float,
    ) -> None:
        self._brokers, self._masters, self._ask = brokers, masters, ask
        self._kept_s = kept_s
        self._tables: dict[str, T] = {}
        self._away: list[str] = []
        self._until_s = 0.0
        self._turn = asyncio.Lock()  # who comes meanwhile takes what the first one was answered
        self.version = 0  # changes with any answer

    async def all(self) -> dict[str, T]:
        """Tables by broker, of one that is away its last; ClusterUnreachable if none answers."""
        async with self._turn:
            if time.monotonic() >= self._until_s:
                await self._read()
        return self._tables

    async def whole(self) -> dict[str, T]:
        """The same; ClusterUnreachable while a broker is away."""
        tables = await self.all()
        if self._away:
            raise broker_away(self._away[0])
        return tables

    def away(self, brokers: Collection[str]) -> list[str]:
        """Those of these that were away when the tables were read."""
        return [each for each in self._away if each in brokers]

    def forget(self) -> None:
        """Ask again when they are needed next."""
        self._until_s = 0.0

    async def _read(self) -> None:
        masters = set(await self._masters())
        present = [each for each in self._brokers() if each in masters]
        answers = await asyncio.gather(*map(self._ask, present), return_exceptions=True)
        fresh: dict[str, T] = {}
        for broker, answer in zip(present, answers, strict=True):
            if isinstance(answer, ClusterUnreachable):
                continue
            if isinstance(answer, BaseException):
                raise answer
            fresh[broker] = answer
        if not fresh:
            raise ClusterUnreachable("no broker answers", remedy="look whether the brokers run")
        self._tables = {**self._tables, **fresh}
        self._away = [each for each in self._brokers() if each not in fresh]
        self._until_s = time.monotonic() + self._kept_s
        self.version += 1


class ClusterCensus:
    """Lists of what is in a cluster, in the engine's own types."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        client = catalog.client
        self._catalog = catalog

        def tables(
            ask: Callable[[str], Coroutine[Any, Any, T]], kept_s: float = TABLE_S
        ) -> BrokerTables[T]:
            return BrokerTables(lambda: catalog.numbers.brokers, client.masters, ask, kept_s)

        self.topic_tables: BrokerTables[dict[str, BrokerTopic]] = tables(client.topics.table)
        self.group_tables: BrokerTables[dict[str, ClusterGroup]] = tables(client.groups.table)
        self.offset_tables: BrokerTables[dict[str, GroupOffsets]] = tables(client.groups.offsets)
        self._topics: tuple[int, list[TopicConfig]] = (0, [])
        self._groups: tuple[int, list[GroupConfig]] = (0, [])
        self._own_tables = tables(client.topics.system_names, OWN_S)

    async def topics(self) -> list[TopicConfig]:
        """All topics by name, without what only brokers know to be their own."""
        with engine_errors():
            tables = await self.topic_tables.all()
            own_tables = await self._own_tables.all()
        if self._topics[0] != self.topic_tables.version:
            own = {name for names in own_tables.values() for name in names}
            self._topics = self.topic_tables.version, self._list(tables, own)
        return self._topics[1]

    async def groups(self) -> list[GroupConfig]:
        """All groups by name, without those of the brokers' own."""
        with engine_errors():
            tables = await self.group_tables.all()
        if self._groups[0] != self.group_tables.version:
            groups = {name: each for table in tables.values() for name, each in table.items()}
            named = (groups[name] for name in sorted(groups))
            configs = [group_config(each) for each in named if not each.is_system]
            self._groups = self.group_tables.version, configs
        return self._groups[1]

    async def offsets(self, group: str) -> dict[str, GroupOffsets]:
        """How far a group is, by broker; of one that is away, how far it last was."""
        with engine_errors():
            tables = await self.offset_tables.all()
        return {broker: table.get(group, {}) for broker, table in tables.items()}

    async def readers(self, topic: str) -> list[str]:
        """The groups that have an offset in a topic, by name."""
        with engine_errors():
            tables = await self.offset_tables.all()
        names = {
            name for table in tables.values() for name, topics in table.items() if topic in topics
        }
        return sorted(names)

    async def holders(self, topic: str) -> list[str]:
        """The brokers that have a topic, or are away and may have it."""
        with engine_errors():
            tables = await self.topic_tables.all()
        return [
            each
            for each in self._catalog.numbers.brokers
            if each not in tables or topic in tables[each]
        ]

    def _list(self, tables: dict[str, dict[str, BrokerTopic]], own: set[str]) -> list[TopicConfig]:
        parts: dict[str, list[BrokerQueues]] = {}
        kinds: dict[str, str] = {}
        for broker, table in tables.items():
            for name, each in table.items():
                parts.setdefault(name, []).append(each.on(broker))
                kinds[name] = kinds.get(name) or each.kind
        return [
            self._catalog.topic_of(name, kinds[name], TopicRoute(parts[name]))
            for name in sorted(parts)
            if name not in own or is_system_topic(name)
        ]
