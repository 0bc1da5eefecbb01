"""Topics of a cluster: lists, figures, and their making, change and deletion."""

import asyncio
from collections.abc import Sequence
from typing import Any

from app.capabilities import require
from app.cluster.catalog import ClusterCatalog, NamedCache
from app.cluster.census import ClusterCensus
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterUnreachable, away
from app.cluster.routes import ClusterQueue
from app.cluster.topics import QueueOffsets
from app.cluster.verbs.part import ClusterPart, whole
from engine.broker import (
    QueueStats,
    TopicConfig,
    TopicStats,
    changed_topic,
    check_deletable,
    check_topic,
    topic_exists,
)
from engine.errors import TopicNotFound

STATS_S = 1.0
# What a topic of a cluster has none of.
OWN_SETTINGS = ("durability", "trace_sample", "retention_ms")


class ClusterTopicLists(ClusterPart):
    """The verbs of `Administration` for topics."""

    def __init__(self, catalog: ClusterCatalog, census: ClusterCensus) -> None:
        ClusterPart.__init__(self, catalog)
        self._census = census
        self._stats = NamedCache(self._read_stats, STATS_S)

    async def topics(self, *, system: bool = False) -> list[TopicConfig]:
        """All topics by name; those of the brokers' own only when asked for."""
        return [each for each in await self._census.topics() if system or not each.is_system]

    async def topic(self, name: str) -> TopicConfig:
        """The configuration of a topic, also of one whose brokers are away; TopicNotFound."""
        try:
            return await self._catalog.topic(name)
        except TopicNotFound:
            for each in await self._census.topics():
                if each.name == name:
                    return each
            raise

    async def topic_stats(self, name: str) -> TopicStats:
        """Offsets and last times of its queues; TopicNotFound, Busy while a broker is away."""
        return whole(await self._stats.get(name))

    async def present_stats(self, name: str) -> TopicStats:
        """The same of the brokers that are there; TopicNotFound."""
        return await self._stats.get(name)

    async def current_stats(self, name: str) -> TopicStats:
        """The same, as its brokers have them now."""
        self._stats.forget(name)
        return await self.topic_stats(name)

    async def groups_of(self, topic: str) -> Sequence[str]:
        """Names of the groups that have consumed from a topic."""
        return await self._census.readers(topic)

    async def check_topic(self, config: TopicConfig) -> None:
        """Raise Invalid, Forbidden or Refused for what no topic can be; changes nothing."""
        check_topic(config)
        self._check_topic_settings(config)

    async def create_topic(self, config: TopicConfig) -> TopicConfig:
        """Add a topic, of as many queues on each broker as give at least those asked for.

        Raises Invalid, Refused, Conflict when the name is taken, Forbidden.
        """
        await self.check_topic(config)
        with engine_errors("name"):
            if await self._client.topics.exists(config.name):
                raise topic_exists(config.name)
        return await self._set_topic(config)

    async def change_topic(self, name: str, /, **changes: Any) -> TopicConfig:
        """Change a topic's queues or permission on all brokers.

        Raises TopicNotFound, Invalid, Refused, and Forbidden for the brokers' own topics.
        """
        config = await self._catalog.topic(name)
        changed = changed_topic(config, changes)
        self._check_topic_settings(changed)
        return config if changed == config else await self._set_topic(changed)

    async def delete_topic(self, name: str) -> None:
        """Take a topic away with its queues, on all brokers."""
        await self._catalog.route(name)
        check_deletable(name)
        with engine_errors("topic"):
            await self._client.topics.delete(name)
        self._forget_topic(name)

    def _check_topic_settings(self, config: TopicConfig) -> None:
        for field in OWN_SETTINGS:
            if getattr(config, field) is not None:
                require(self._catalog.capabilities, "topic_overrides", field=field)

    async def _set_topic(self, config: TopicConfig) -> TopicConfig:
        with engine_errors("name"):
            await self._client.topics.create(
                config.name,
                self._numbers.share(config.write_queues),
                read_queues=self._numbers.share(config.read_queues),
                permission=config.permission,
                kind=config.type.value,
            )
        self._forget_topic(config.name)
        return await self._catalog.topic(config.name)

    def _forget_topic(self, name: str) -> None:
        self._catalog.forget_topic(name)
        self._census.topic_tables.forget()
        self._census.offset_tables.forget()
        self._stats.forget(name)

    async def _read_stats(self, name: str) -> TopicStats:
        try:
            brokers = set((await self._catalog.route(name)).brokers)
        except TopicNotFound:
            brokers = set()
        brokers |= set(await self._census.holders(name))
        missing = self._census.topic_tables.away(brokers)  # does not wait for them once more
        there = sorted(brokers.difference(missing))
        with engine_errors("topic"):
            answers = await asyncio.gather(*(self._queues_on(each, name) for each in there))
        missing += [each for each, answer in zip(there, answers, strict=True) if answer is None]
        queues = [
            self._queue_stats(self._numbers.number(place), each)
            for answer in answers
            for place, each in (answer or {}).items()
        ]
        if not queues and not missing:
            await self._catalog.topic(name)  # TopicNotFound
        queues.sort(key=lambda each: each.queue)
        count = sum(each.max_offset - each.min_offset for each in queues)
        return TopicStats(queues, count, away(missing[0]) if missing else "")

    async def _queues_on(self, broker: str, topic: str) -> dict[ClusterQueue, QueueOffsets] | None:
        """The queues of a broker; None while it is away."""
        try:
            return await self._client.topics.queues_on(broker, topic)
        except ClusterUnreachable:
            return None

    def _queue_stats(self, queue: int, each: QueueOffsets) -> QueueStats:
        end = max(each.min_offset, each.max_offset)
        return QueueStats(queue, each.min_offset, end, each.last_update_timestamp or None)
