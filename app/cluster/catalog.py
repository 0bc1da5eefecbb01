"""What the verbs must know of a cluster: its topics, groups, queue numbers and what brokers can do.

Answers are kept for KEPT_S, at most ENTRIES_MAX of a kind; topics and groups are created at their
first use where that is allowed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any, Generic, TypeVar

import msgspec

from app.cluster.client import ClusterClient
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterUnreachable
from app.cluster.groups import ClusterGroup
from app.cluster.numbering import NAME, QueueNumbers, queue_numbers
from app.cluster.routes import ClusterQueue, TopicRoute
from engine.broker import GroupConfig, TopicConfig, TopicType, group_missing
from engine.clock import Clock
from engine.errors import GroupNotFound, TopicNotFound
from engine.message import Durability
from kitemq.model.server import Capabilities

KEPT_S = 30.0
ENTRIES_MAX = 100_000
RETRY_MAX = 16
K = TypeVar("K")
T = TypeVar("T")

# What only an engine of our own keeps beside its messages.
OF_THE_ENGINE = (
    "purges", "delivery_figures", "log_figures", "delivery_records", "delay_reports",
    "transaction_reports",
)  # fmt: skip
# What all brokers have to be set up for.
BY_SETTING = {
    "exact_timers": "timerWheelEnable",
    "timer_recalls": "recallMessageEnable",
    "sql_filters": "enablePropertyFilter",
}
# Of a cluster whose brokers are set up for exact times, recalls and filters by property.
CLUSTER = Capabilities(
    exact_timers=True,
    scheduled_list=True,
    timer_recalls=True,
    timer_changes=False,
    message_acks=True,
    sql_filters=True,
    transaction_queries=True,
    transaction_callbacks=True,
    dead_letter_replays=True,
    dismissals=True,
    journeys=True,
    content_search=True,
    lag_history=True,
    traffic_figures=True,
    reset_history=True,
    reports=True,
    trace_reports=True,
    brokers=True,
    uncounted_releases=False,
    member_shares=False,
    member_queues=True,
    topic_overrides=False,
    group_policies=False,
    offset_resets=True,
    request_replies=True,
    inflight_figures=False,
    **dict.fromkeys(OF_THE_ENGINE, False),
)


class NamedCache(Generic[K, T]):
    """Values by key, each asked for again after `kept_s`."""

    def __init__(self, ask: Callable[[K], Coroutine[Any, Any, T]], kept_s: float = KEPT_S) -> None:
        self._ask = ask
        self._kept_s = kept_s
        self._values: dict[K, tuple[T, float]] = {}

    async def get(self, name: K) -> T:
        """The value; what `ask` raises is not kept."""
        value, until_s = self._values.get(name, (None, 0.0))
        if value is not None and time.monotonic() < until_s:
            return value
        fresh = await self._ask(name)
        if len(self._values) >= ENTRIES_MAX:
            self._values.clear()
        self._values[name] = fresh, time.monotonic() + self._kept_s
        return fresh

    def forget(self, name: K) -> None:
        """Ask again when it is needed next."""
        self._values.pop(name, None)


class ClusterCatalog:
    """Topics and groups of a cluster as the engine describes its own; `start` comes first."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        order: str = NAME,
        auto_create: bool,
        default_queues: int,
        clock: Clock,
    ) -> None:
        """`order` is the name under which the name servers keep the order of the brokers."""
        self.client = client
        self.now_ms = clock.now_ms
        self.numbers = QueueNumbers([])
        self.capabilities = CLUSTER  # until the brokers say what they can do
        self._order = order
        self._auto_create = auto_create
        self._default_queues = default_queues
        self._topics = NamedCache(self._read_topic)
        self._groups = NamedCache(self._read_group)
        self._settings = NamedCache(client.settings)
        self._creating: dict[tuple[str, str], asyncio.Lock] = {}
        self._homes: dict[str, dict[str, int]] = {}  # queues for writing, by topic and broker

    async def start(self) -> None:
        """Number the queues, and learn what the brokers can do; Busy while none can be reached."""
        with engine_errors():
            self.numbers, _ = await queue_numbers(self.client, self._order)
            brokers = await self.client.masters()
            settings = [await self._settings.get(each) for each in brokers]
        self.capabilities = msgspec.structs.replace(
            CLUSTER,
            **{
                name: all(each.get(setting) == "true" for each in settings)
                for name, setting in BY_SETTING.items()
            },
        )

    # -- topics ---------------------------------------------------------------------------------

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic, all of whose brokers have numbers; TopicNotFound, Refused, Busy."""
        with engine_errors():
            route = await self.client.topics.route(topic)
        self.numbers.check(route.brokers)
        return route

    async def topic(self, name: str) -> TopicConfig:
        """A topic as it is in the cluster; TopicNotFound."""
        route = await self.route(name)  # its queues as they are now
        kind = await self._topics.get(name)
        return self.topic_of(name, kind, route)

    def topic_of(self, name: str, kind: str, route: TopicRoute) -> TopicConfig:
        """A topic by what each broker has of it; one without a message type takes any message."""
        reads, writes = self.numbers.counts(route)
        permission = reduce(or_, (each.perm for each in route.queue_datas), 0)
        return TopicConfig(
            name, topic_type(kind), reads, writes, permission & 6, is_automatic=not kind
        )

    def write_numbers(self, topic: str, route: TopicRoute) -> list[int]:
        """The numbers of the queues that a message group may go to.

        Those of a broker that is away are among them where this process has seen it with the topic.
        """
        if topic not in self._homes and len(self._homes) >= ENTRIES_MAX:
            self._homes.clear()
        homes = self._homes.setdefault(topic, {})
        homes |= {each.broker_name: each.write_queue_nums for each in route.queue_datas}
        return sorted(
            self.numbers.number(ClusterQueue(topic, broker, queue))
            for broker, count in homes.items()
            for queue in range(count)
        )

    async def plan_topic(self, name: str) -> TopicConfig:
        """The same, or the topic that a first message would create; TopicNotFound."""
        try:
            return await self.topic(name)
        except TopicNotFound:
            if not self._auto_create:
                raise
        queues = self.numbers.share(self._default_queues) * len(self.numbers.brokers)
        return TopicConfig(name, TopicType.NORMAL, queues, queues, is_automatic=True)

    def forget_topic(self, name: str) -> None:
        """Ask again for what was changed."""
        self._topics.forget(name)

    async def ensure_topic(self, name: str, *, queues: int = 0) -> TopicConfig:
        """The same, created where it is not there, with `queues` on each broker if given."""
        try:
            return await self.topic(name)
        except TopicNotFound:
            if not self._auto_create:
                raise
        share = queues or self.numbers.share(self._default_queues)
        create = partial(self.client.topics.create, name, share, kind="")
        return await self._created("topic", name, self.topic, create)

    # -- groups ---------------------------------------------------------------------------------

    async def group(self, name: str) -> GroupConfig:
        """The settings of a group; GroupNotFound."""
        return await self._groups.get(name)

    def forget_group(self, name: str) -> None:
        """Ask again for what was changed."""
        self._groups.forget(name)

    async def ensure_group(self, name: str) -> GroupConfig:
        """The same, created where it is not there."""
        try:
            return await self.group(name)
        except GroupNotFound:
            if not self._auto_create:
                raise
        create = partial(self.client.groups.create, ClusterGroup(name, retry_max_times=RETRY_MAX))
        return await self._created("group", name, self.group, create)

    async def spread_group(self, name: str) -> None:
        """Make a group anew on brokers that were away when it was made."""
        with engine_errors("group"):
            group = await self.client.groups.find(name)
            if group is not None:
                await self.client.groups.create(group)

    # -- brokers --------------------------------------------------------------------------------

    async def settings(self, broker: str) -> dict[str, str]:
        """The settings of a broker by RocketMQ's names; ClusterUnreachable."""
        return await self._settings.get(broker)

    async def durability(self, brokers: Sequence[str]) -> Durability:
        """What all of these that answer promise for an accepted message."""
        levels = []
        for broker in brokers:
            try:
                settings = await self._settings.get(broker)
            except ClusterUnreachable:
                continue  # nothing is sent there either
            is_flushed = settings.get("flushDiskType") == "SYNC_FLUSH"
            is_copied = is_flushed and settings.get("brokerRole") == "SYNC_MASTER"
            levels.append(
                Durability.REPLICATED
                if is_copied
                else Durability.FLUSHED
                if is_flushed
                else Durability.STORED
            )
        order = list(Durability)
        return min(levels, key=order.index, default=Durability.STORED)

    async def _created(
        self,
        kind: str,
        name: str,
        find: Callable[[str], Awaitable[T]],
        create: Callable[[], Awaitable[None]],
    ) -> T:
        """What the first of those who ask at once creates."""
        key = (kind, name)
        async with self._creating.setdefault(key, asyncio.Lock()):
            try:
                return await find(name)
            except (TopicNotFound, GroupNotFound):
                pass
            try:
                with engine_errors(kind):
                    await create()
            finally:
                self._creating.pop(key, None)
        return await find(name)

    async def _read_topic(self, name: str) -> str:
        with engine_errors("topic"):
            return await self.client.topics.kind(name)

    async def _read_group(self, name: str) -> GroupConfig:
        with engine_errors("group"):
            group = await self.client.groups.find(name)
        if group is None:
            raise group_missing(name)
        return group_config(group)


def topic_type(kind: str) -> TopicType:
    """A topic's type by its message type; NORMAL for one that KiteMQ does not have."""
    return TopicType(kind) if kind in TopicType.__members__ else TopicType.NORMAL


def group_config(group: ClusterGroup) -> GroupConfig:
    """A group of a cluster as the engine describes its own."""
    return GroupConfig(
        group.group_name,
        retry_max=group.retry_max_times,
        consume_enabled=group.consume_enable,
        ordered=group.consume_message_orderly,
    )
