"""Moves a running KiteMQ into a cluster: topics, groups, the messages that are kept, and offsets.

A round brings the cluster in step with the source as it is then. Rounds may follow each other while
clients are turned over; a later process takes up where one ended. Queues are dealt out over the
brokers that were there when the move began, in an order that the name servers keep: queue `q` lies
on broker `q % n` as queue `q // n`.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Protocol

import msgspec

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from app.cluster.groups import ClusterGroup
from app.cluster.numbering import QueueNumbers, queue_numbers
from app.cluster.queue_copy import RETRY_PREFIX, SETTLE_S, QueueCopy, SourceQueues
from app.tasks import end_tasks
from kitemq.model.groups import Group, Mode
from kitemq.model.progress import Lag, QueueLag
from kitemq.model.topics import Topic, TopicDetail

DEAD_PREFIX = "%DLQ%"
QUEUES_AT_ONCE = 8
FAILURES_MAX = 20  # that a round tells of


class MoveSource(SourceQueues, Protocol):
    """What is moved."""

    async def topics(self) -> Sequence[Topic]:
        """All topics, those of the system included."""

    async def topic(self, name: str) -> TopicDetail:
        """One with its queues."""

    async def groups(self) -> Sequence[Group]:
        """All groups."""

    async def lag(self, group: str) -> Lag:
        """How far one is in each queue."""


class MoveRound(msgspec.Struct):
    """What a round found and did; `failures` say what is not in step, and why."""

    topics: int = 0
    groups: int = 0
    copied: int = 0
    offsets: int = 0
    failures: list[str] = []


class Move:
    """The moving of one server, by its name, into one cluster."""

    def __init__(self, source: MoveSource, cluster: ClusterClient, name: str) -> None:
        """`name` tells several servers apart that move into one cluster."""
        self.remaining = 0  # messages to copy, as the round began
        self._source = source
        self._cluster = cluster
        self._name = name
        self._numbers = QueueNumbers([])
        self._copies: dict[tuple[str, int], QueueCopy] = {}
        self._groups: dict[str, ClusterGroup] = {}
        self._offsets: dict[tuple[str, str, int], int] = {}  # committed here, by group and queue
        self._ready: set[str] = set()  # topics that have their queues on all brokers
        self._was_whole = False  # whether the last round had no failure
        self._slots = asyncio.Semaphore(QUEUES_AT_ONCE)

    @property
    def copied(self) -> int:
        """Messages that this process has copied."""
        return sum(each.copied for each in self._copies.values())

    async def prepare(self) -> None:
        """Fix the order of the brokers, or learn it."""
        self._numbers, is_known = await queue_numbers(self._cluster, self._name)
        if is_known:
            # A request that a killed process left behind is stored or dropped by then.
            await asyncio.sleep(SETTLE_S)

    async def round(self) -> MoveRound:
        """Bring the cluster in step; what fails is named, and tried again in the next round.

        Errors of the source are raised.
        """
        done = MoveRound()
        before = self.copied
        if not self._was_whole:  # a broker may have come back without them
            self._groups.clear()
            self._ready.clear()
            own = self._cluster.groups.create(ClusterGroup(self._name))
            await self._tried(own, f"group {self._name}", done)
        groups = await self._source.groups()
        for group in groups:  # before their retries
            await self._tried(self._match_group(group), f"group {group.name}", done)
        names = await self._match_topics(done)
        tasks = [
            asyncio.create_task(self._copy(copy, done))
            for (topic, _), copy in self._copies.items()
            if topic in names
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end_tasks(*tasks)
        for group in groups:
            await self._tried(self._match_offsets(group, done), f"group {group.name}", done)
        done.copied = self.copied - before
        self._was_whole = not done.failures
        return done

    async def _tried(self, work: Awaitable[None], what: str, done: MoveRound) -> None:
        """Do it, or note why the cluster did not."""
        try:
            await work
        except ClusterError as error:
            if len(done.failures) < FAILURES_MAX:
                done.failures.append(f"{what}: {error}")

    async def _match_topics(self, done: MoveRound) -> set[str]:
        """The topics that are moved."""
        self.remaining, names = 0, set[str]()
        for topic in await self._source.topics():
            if topic.system and not topic.name.startswith((RETRY_PREFIX, DEAD_PREFIX)):
                continue
            await self._tried(self._match_topic(topic), f"topic {topic.name}", done)
            names.add(topic.name)
        done.topics = len(names)
        return names

    async def _match_topic(self, topic: Topic) -> None:
        """Its queues in the cluster, as many as it has here at least, with a copy for each."""
        name, count = topic.name, topic.read_queues
        if name not in self._ready or (name, count - 1) not in self._copies:
            await self._ensure_topic(topic)
            for queue in range(count):
                target = self._numbers.place(name, queue)
                if (name, queue) not in self._copies:
                    self._copies[name, queue] = QueueCopy(
                        self._source, self._cluster, self._name, queue, target
                    )
        for stats in (await self._source.topic(name)).queues:
            if copy := self._copies.get((name, stats.queue)):
                copy.first_offset = int(stats.min_offset)
                self.remaining += max(0, int(stats.max_offset) - copy.reached)

    async def _ensure_topic(self, topic: Topic) -> None:
        name, topics = topic.name, self._cluster.topics
        share = self._numbers.share(topic.read_queues)
        counts: dict[str, int] = {}
        if await topics.exists(name):
            datas = (await topics.route(name)).queue_datas
            counts = {each.broker_name: each.write_queue_nums for each in datas}
        if min(counts.get(each, 0) for each in self._numbers.brokers) < share:
            await topics.create(name, max(share, *counts.values(), 1), kind=topic.type)
        else:
            self._ready.add(name)

    async def _copy(self, copy: QueueCopy, done: MoveRound) -> None:
        topic = copy.target.topic
        async with self._slots:
            await self._tried(copy.catch_up(), f"queue {copy.queue} of {topic}", done)

    # -- groups ---------------------------------------------------------------------------------

    async def _match_group(self, group: Group) -> None:
        """Its settings."""
        settings = ClusterGroup(
            group.name,
            consume_enable=group.consume_enabled,
            consume_message_orderly=group.ordered,
            retry_max_times=group.retry_max,
        )
        if self._groups.get(group.name) != settings:
            await self._cluster.groups.create(settings)
            self._groups[group.name] = settings

    async def _match_offsets(self, group: Group, done: MoveRound) -> None:
        """Its offsets, while no consumer of it is connected to the cluster.

        They only move on; clients of broadcast groups keep theirs themselves.
        """
        done.groups += 1
        if group.mode is Mode.BROADCAST or await self._cluster.groups.consumers(group.name):
            return
        for each in (await self._source.lag(group.name)).queues:
            done.offsets += await self._match_offset(group.name, each)

    async def _match_offset(self, group: str, here: QueueLag) -> bool:
        """Whether the group was moved on in a queue."""
        copy = self._copies.get((here.topic, here.queue))
        key = group, here.topic, here.queue
        committed = int(here.committed)
        if copy is None or self._offsets.get(key) == committed:
            return False
        place = await copy.place_of(committed)
        there = await self._cluster.groups.committed(group, copy.target)
        if there is not None and place > there:
            # Sent to the cluster by others, and consumed by nobody yet: not passed over.
            place = await copy.first_foreign(there, place)
        is_moved = there is None or place > there
        if is_moved:
            await self._cluster.groups.commit(group, copy.target, place)
        if committed <= copy.reached:
            self._offsets[key] = committed
        return is_moved
