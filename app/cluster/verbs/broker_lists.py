"""The brokers of a cluster, with what each says of itself, and since when one is away.

A look asks each member once, waits ANSWER_S for it, and counts for KEPT_S. Since when a member is
away is known of looks of this process. A member that is not registered any more is forgotten after
FORGOTTEN_MS, unless it is the master of a broker that has queue numbers.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping

from app.cluster.catalog import ClusterCatalog, NamedCache
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterError, ClusterUnreachable
from app.cluster.routes import MASTER, ClusterBroker
from app.cluster.runtime import BrokerRuntime
from app.cluster.topics import BrokerTopic
from app.cluster.verbs.part import ClusterPart, all_of
from engine.broker import is_system_topic
from engine.errors import EngineError, Refused
from kitemq.model.brokers import BrokerItem, BrokerMember, BrokerRole
from kitemq.model.conversion import convert

KEPT_S = 2.0
ANSWER_S = 3.0
TOPICS_KEPT_S = 5.0
FORGOTTEN_MS = 24 * 3_600_000
MEMBERS_MAX = 1_000
NAMES_MAX = 20
NO_RUNTIME = BrokerRuntime("", *(None,) * 9)
Member = tuple[str, int]  # broker and id
Runtimes = Mapping[Member, BrokerRuntime | None]  # None of one that did not answer


class ClusterBrokerLists(ClusterPart):
    """The verb of `Administration` for brokers."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        ClusterPart.__init__(self, catalog)
        self._addresses: dict[Member, str] = {}  # of all that were heard of
        self._clusters: dict[str, str] = {}
        self._away_ms: dict[Member, int | None] = {}  # None: since before the first look
        self._items: list[BrokerItem] = []
        self._failure: EngineError | None = None
        self._until_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._own_topics = NamedCache(self._read_topics, TOPICS_KEPT_S)

    async def brokers(self) -> list[BrokerItem]:
        """All brokers by name, also those that are away; Busy if no name server answers."""
        items = await self._brokers_within(None)
        if self._failure is not None:
            raise self._failure
        return items

    async def _brokers_within(self, wait_s: float | None) -> list[BrokerItem]:
        """The same, by the look before if a new one takes longer or fails."""
        if time.monotonic() >= self._until_s:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            await asyncio.wait({self._looking}, timeout=wait_s)
        return self._items

    async def _look(self) -> None:
        try:
            with engine_errors():
                registered = await self._client.brokers()
        except EngineError as error:
            self._failure = error
            return
        self._learn(registered)
        members = sorted(self._addresses)
        answers = await all_of(self._ask(each, registered) for each in members)
        runtimes = dict(zip(members, answers, strict=True))
        self._note(runtimes, registered)
        names = sorted(self._clusters.keys() | set(self._numbers.brokers))
        self._items = await all_of(self._item(name, runtimes) for name in names)
        self._failure = None
        self._until_s = time.monotonic() + KEPT_S

    def _learn(self, registered: Mapping[str, ClusterBroker]) -> None:
        for name, broker in registered.items():
            self._clusters[name] = broker.cluster
            for number, address in broker.broker_addrs.items():
                member = name, number
                if member in self._addresses or len(self._addresses) < MEMBERS_MAX:
                    self._addresses[member] = address

    async def _ask(
        self, member: Member, registered: Mapping[str, ClusterBroker]
    ) -> BrokerRuntime | None:
        name, number = member
        if not _is_registered(member, registered):
            return None
        try:
            return await self._client.runtime(name, number, timeout_s=ANSWER_S)
        except ClusterUnreachable:
            return None
        except ClusterError:  # it is there, and does not tell us
            return NO_RUNTIME

    def _note(self, runtimes: Runtimes, registered: Mapping[str, ClusterBroker]) -> None:
        """Note who is away since when, and forget who does not come back."""
        now_ms, is_first = self._catalog.now_ms(), not self._items
        for member, runtime in runtimes.items():
            if runtime is not None:
                self._away_ms.pop(member, None)
                continue
            since_ms = self._away_ms.setdefault(member, None if is_first else now_ms)
            name, number = member
            is_numbered = number == MASTER and name in self._numbers.brokers
            is_gone = not is_numbered and not _is_registered(member, registered)
            if is_gone and since_ms is not None and now_ms - since_ms > FORGOTTEN_MS:
                del self._away_ms[member], self._addresses[member]
                if not any(name == each for each, _ in self._addresses):
                    del self._clusters[name]

    async def _item(self, name: str, runtimes: Runtimes) -> BrokerItem:
        runtime = runtimes.get((name, MASTER))
        topics = None if runtime is None else await self._topics_on(name)
        place, remedy = self._place_of(name)
        names = sorted(topics) if topics and place is None else []
        return convert(
            runtime or NO_RUNTIME,
            BrokerItem,
            name=name,
            cluster=self._clusters.get(name, ""),
            place=place,
            reachable=runtime is not None,
            members=list(self._members(name, runtimes)),
            topics=None if topics is None else len(topics),
            queues=None if topics is None else sum(topics.values()),
            unnumbered_topics=names[:NAMES_MAX],
            remedy=remedy,
        )

    def _members(self, name: str, runtimes: Runtimes) -> Iterator[BrokerMember]:
        master = runtimes.get((name, MASTER))
        for member, address in sorted(self._addresses.items()):
            if member[0] != name:
                continue
            runtime = runtimes.get(member)
            is_slave = member[1] != MASTER
            ends = (master and master.log_end, runtime and runtime.log_end)
            is_known = is_slave and None not in ends
            yield BrokerMember(
                id=member[1],
                role=BrokerRole.SLAVE if is_slave else BrokerRole.MASTER,
                address=address,
                version=runtime.version if runtime else "",
                reachable=runtime is not None,
                away_since_ms=self._away_ms.get(member),
                behind_bytes=max(0, (ends[0] or 0) - (ends[1] or 0)) if is_known else None,
            )

    def _place_of(self, name: str) -> tuple[int | None, str]:
        """A broker's place in the order of queue numbers, or how it gets one."""
        try:
            self._numbers.check((name,))
        except Refused as error:
            return None, error.remedy
        return self._numbers.brokers.index(name), ""

    async def _topics_on(self, broker: str) -> dict[str, int] | None:
        try:
            return await self._own_topics.get(broker)
        except ClusterError:
            return None

    async def _read_topics(self, broker: str) -> dict[str, int]:
        """The topics of users on a broker, and how many queues for writing it has of each."""
        table: dict[str, BrokerTopic] = await self._client.topics.table(broker)
        own = await self._client.topics.system_names(broker)
        return {
            name: each.write_queue_nums
            for name, each in table.items()
            if name not in own and not is_system_topic(name)
        }


def _is_registered(member: Member, registered: Mapping[str, ClusterBroker]) -> bool:
    return member[0] in registered and member[1] in registered[member[0]].broker_addrs


def broker_warnings(items: list[BrokerItem]) -> dict[str, str]:
    """What somebody should see to, by broker: who is away, and topics that are not reached."""
    warnings: dict[str, str] = {}
    for item in items:
        for member in reversed(item.members):
            if not member.reachable:
                slave = f"its slave {member.id} at {member.address} does not answer"
                warnings[f"broker {item.name}"] = slave
        if item.unnumbered_topics:
            names = ", ".join(item.unnumbered_topics)
            text = f"it has queues that have no number and are not reached, of {names[:200]}"
            warnings[f"broker {item.name}"] = text
        if not item.reachable:
            warnings[f"broker {item.name}"] = "it does not answer"
    return warnings
