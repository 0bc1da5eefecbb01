"""Groups of a cluster: lists, lag, and their making, change and deletion.

A broker knows the next message that a group gets of a queue, and no more: what POP has handed out,
what waits for a retry and what went before it was read are not told. A queue in which a group has
no offset, of a topic that it consumes, counts from its first message.
"""

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from app.capabilities import require
from app.cluster.catalog import ClusterCatalog, NamedCache
from app.cluster.census import ClusterCensus
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterError, away
from app.cluster.groups import ClusterGroup, GroupOffsets
from app.cluster.routes import ClusterQueue
from app.cluster.verbs.part import ClusterPart, all_of, whole
from app.cluster.verbs.topic_lists import ClusterTopicLists
from app.pause import Pause
from engine.broker import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    GroupConfig,
    GroupLag,
    QueueLag,
    QueueStats,
    TopicStats,
    changed_group,
    check_group,
    group_exists,
    group_missing,
)
from engine.errors import TopicNotFound

AGES_S = 1.0
AGED_TOPICS_MAX = 64  # of one group, in which the age of its oldest message is asked for
# What a group of a cluster has; the rest are settings of KiteMQ's engine.
CLUSTER_SETTINGS = frozenset({"name", "retry_max", "consume_enabled", "ordered"})
AgeKey = tuple[str, str, str]  # group, broker, topic


class ClusterGroupLists(ClusterPart):
    """The verbs of `Administration` for groups."""

    def __init__(
        self, catalog: ClusterCatalog, census: ClusterCensus, topics: ClusterTopicLists
    ) -> None:
        ClusterPart.__init__(self, catalog)
        self._census, self._topic_lists = census, topics
        self._ages = NamedCache(self._read_ages, AGES_S)

    async def groups(self) -> list[GroupConfig]:
        """All groups by name."""
        return list(await self._census.groups())

    async def group(self, name: str) -> GroupConfig:
        """Settings of a group; GroupNotFound."""
        return await self._catalog.group(name)

    async def lag(self, group: str) -> GroupLag:
        """The lag of a group; GroupNotFound, Busy while a broker is away."""
        return whole(await self.present_lag(group))

    async def present_lag(self, group: str) -> GroupLag:
        """The same of the brokers that are there; GroupNotFound."""
        await self._catalog.group(group)
        offsets = await self._census.offsets(group)
        names = sorted({topic for topics in offsets.values() for topic in topics})
        missing = self._census.offset_tables.away(self._numbers.brokers)
        there = {broker: each for broker, each in offsets.items() if broker not in missing}
        results = await all_of(self._topic_lag(group, each, there) for each in names)
        dead = await self._dead(group)
        reasons = [*map(away, missing), *(why for _, why in results), dead.unknown]
        queues = await self._with_ages(group, [each for lags, _ in results for each in lags])
        oldest = [each.oldest_ms for each in queues if each.oldest_ms is not None]
        return GroupLag(
            queues=queues,
            count=sum(each.count for each in queues),
            inflight=None,
            retry_waiting=None,
            dead=dead.messages,
            oldest_age_ms=max(0, self._catalog.now_ms() - min(oldest)) if oldest else None,
            unknown=next(filter(None, reasons), ""),
        )

    async def current_offsets(self) -> dict[str, dict[tuple[str, int], int]]:
        """How far all groups are, by group and queue, as brokers have it now; Busy as above."""
        self._census.offset_tables.forget()
        names = [each.name for each in await self._census.groups()]
        with engine_errors():
            tables = await self._census.offset_tables.whole()
        pause = Pause()
        offsets: dict[str, dict[tuple[str, int], int]] = {}
        for name in names:
            offsets[name] = {
                (topic, self._numbers.number(ClusterQueue(topic, broker, queue))): offset
                for broker, table in tables.items()
                for topic, queues in table.get(name, {}).items()
                for queue, offset in queues.items()
            }
            await pause.when_due()
        return offsets

    async def create_group(self, config: GroupConfig) -> GroupConfig:
        """Add a group on all brokers. Raises Invalid, Refused, Conflict when the name is taken."""
        check_group(config)
        self._check_group_settings(config)
        with engine_errors("name"):
            if await self._client.groups.find(config.name) is not None:
                raise group_exists(config.name)
        return await self._set_group(ClusterGroup(config.name), config)

    async def change_group(self, name: str, /, **changes: Any) -> GroupConfig:
        """Change a group's retries, pause or order. Raises GroupNotFound, Invalid, Refused."""
        with engine_errors("group"):
            there = await self._client.groups.find(name)
        if there is None:
            raise group_missing(name)
        self._catalog.forget_group(name)
        config = await self._catalog.group(name)
        changed = changed_group(config, changes)
        self._check_group_settings(changed)
        return config if changed == config else await self._set_group(there, changed)

    async def pause_group(self, name: str, topic: str = "") -> GroupConfig:
        """Deliver nothing more to a group; Refused for one topic, GroupNotFound."""
        return await self._pause(name, topic, consume_enabled=False)

    async def resume_group(self, name: str, topic: str = "") -> GroupConfig:
        """End a pause; GroupNotFound."""
        return await self._pause(name, topic, consume_enabled=True)

    async def delete_group(self, name: str) -> None:
        """Delete a group, its offsets and its retries; its dead letters stay."""
        with engine_errors("group"):
            if await self._client.groups.find(name) is None:
                raise group_missing(name)
            await self._client.groups.delete(name)
            for topic in await self.retry_topics(name):
                with suppress(TopicNotFound):
                    await self._topic_lists.delete_topic(topic)
        self._forget_group(name)

    async def _pause(self, name: str, topic: str, *, consume_enabled: bool) -> GroupConfig:
        await self._catalog.group(name)
        if topic:
            require(self._catalog.capabilities, "group_policies", field="topic")
        return await self.change_group(name, consume_enabled=consume_enabled)

    def _check_group_settings(self, config: GroupConfig) -> None:
        usual = GroupConfig(config.name)
        for field in set(config.__struct_fields__) - CLUSTER_SETTINGS:
            if getattr(config, field) != getattr(usual, field):
                require(self._catalog.capabilities, "group_policies", field=field)

    async def _set_group(self, group: ClusterGroup, config: GroupConfig) -> GroupConfig:
        with engine_errors("name"):
            await self._client.groups.create(
                replace(
                    group,
                    retry_max_times=config.retry_max,
                    consume_enable=config.consume_enabled,
                    consume_message_orderly=config.ordered,
                )
            )
        self._forget_group(config.name)
        return await self._catalog.group(config.name)

    def forget_offsets(self) -> None:
        """Ask again for what was moved."""
        self._census.offset_tables.forget()

    def _forget_group(self, name: str) -> None:
        self._catalog.forget_group(name)
        self._census.group_tables.forget()
        self._census.offset_tables.forget()

    async def retry_topics(self, group: str) -> list[str]:
        """Those of a group's retries: for classic clients, and for POP one beside each topic."""
        names = {each.name for each in await self._census.topics()}
        groups = {each.name for each in await self._census.groups()}
        beside = (name.removeprefix(f"{RETRY_PREFIX}{group}") for name in names)
        own = {
            f"{RETRY_PREFIX}{group}{rest}"
            for rest in beside
            if (rest[:1] == "+" or (rest[:1] == "_" and f"{group}{rest}" not in groups))
            and rest[1:] in names
        }
        return sorted(own | ({f"{RETRY_PREFIX}{group}"} & names))

    # -- lag ------------------------------------------------------------------------------------

    async def _topic_lag(
        self, group: str, topic: str, offsets: dict[str, GroupOffsets]
    ) -> tuple[list[QueueLag], str]:
        """The lag in a topic's queues on brokers that tell offsets, and why others are missing."""
        try:
            stats = await self._topic_lists.present_stats(topic)
        except TopicNotFound:
            return [], ""  # deleted; brokers forget its offsets later
        lags = []
        for each in stats.queues:
            place = self._numbers.place(topic, each.queue)
            if place.broker in offsets:
                committed = offsets[place.broker].get(topic, {}).get(place.queue, each.min_offset)
                lags.append(_queue_lag(topic, each, committed))
        return lags, stats.unknown

    async def _with_ages(self, group: str, lags: list[QueueLag]) -> list[QueueLag]:
        """The same with the time of the oldest message that is not consumed, where it is known."""
        places = [self._numbers.place(each.topic, each.queue) for each in lags]
        behind = {
            (group, place.broker, place.topic): None
            for place, each in zip(places, lags, strict=True)
            if each.count
        }
        keys = list(behind)[: AGED_TOPICS_MAX * len(self._numbers.brokers)]
        ages = dict(zip(keys, await all_of(map(self._ages.get, keys)), strict=True))
        return [
            replace(each, oldest_ms=ages[group, place.broker, place.topic].get(place.queue))
            if each.count and (group, place.broker, place.topic) in ages
            else each
            for place, each in zip(places, lags, strict=True)
        ]

    async def _read_ages(self, key: AgeKey) -> dict[int, int]:
        """By queue, when the next message that a group gets was stored, where that is known."""
        group, broker, topic = key
        now_ms = self._catalog.now_ms()
        try:
            spans = await self._client.groups.ages(group, broker, topic)
        except ClusterError:
            return {}
        ages = {}
        for queue, (age_ms, first_ms) in spans.items():
            if 0 < age_ms < now_ms - first_ms + 1000:
                ages[queue] = now_ms - age_ms
            elif age_ms > 0 and first_ms > 0:
                ages[queue] = first_ms
        return ages

    async def _dead(self, group: str) -> TopicStats:
        try:
            return await self._topic_lists.present_stats(f"{DEAD_LETTER_PREFIX}{group}")
        except TopicNotFound:
            return TopicStats([], 0)


def _queue_lag(topic: str, stats: QueueStats, committed: int) -> QueueLag:
    start = min(max(committed, stats.min_offset), stats.max_offset)
    return QueueLag(
        topic=topic,
        queue=stats.queue,
        min_offset=stats.min_offset,
        max_offset=stats.max_offset,
        committed=committed,
        cursor=committed,
        count=stats.max_offset - start,
        inflight=None,
        oldest_ms=None,
        expired=None,
    )
