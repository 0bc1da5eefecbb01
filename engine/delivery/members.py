"""The live members of each consumer group, known by heartbeats, receives and connections.

A member is alive while it is connected, or gave a sign of life within the timeout. Nothing of it
is kept over a restart: live members report again. Queues are shared out among those that send
heartbeats, as pulling consumers do; one that only receives takes from every queue, unshared.
Source: docs/rocketmq-rules.md#members-and-subscriptions.
"""

from collections.abc import Callable, Iterator, Mapping

from engine.clock import Clock
from engine.delivery.group import GroupCatalog, GroupConfig, Mode
from engine.delivery.member import Assignment, Member, MemberEntry, check_text
from engine.delivery.rebalance import QueueRef, Strategy, allocate
from engine.delivery.receive import check_client
from engine.delivery.receive_targets import readable_topic
from engine.delivery.subscriptions import (
    Subscription,
    SubscriptionWarning,
    find_difference,
    normal,
)
from engine.errors import Invalid, Refused
from engine.events import EngineEvent, EventBus, MemberJoined, MemberLeft, SubscriptionsDiffer
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.topic.catalog import Catalog
from engine.topic.names import retry_topic

TICK_MEMBERS_MAX = 500


class MemberConnection:
    """A subscription on an open connection: its client is alive until `close`."""

    def __init__(self, members: "Members", group: str, client: str) -> None:
        self._members = members
        self._group = group
        self._client = client

    def close(self) -> None:
        """The subscription is over; may be called twice."""
        self._members.disconnect(self, self._group, self._client)


def _nobody(group: str, client: str) -> None:
    """Does nothing, until a callback is set."""


class Members(Service):
    """At most `members_max` over all groups; further ones are served, but not listed.

    `on_goodbye` is called for each member that leaves, `on_sign` for each sign of life.
    """

    name = "members"

    def __init__(
        self,
        groups: GroupCatalog,
        catalog: Catalog,
        clock: Clock,
        events: EventBus,
        *,
        timeout_s: float,
        members_max: int,
    ) -> None:
        super().__init__()
        self._groups = groups
        self._catalog = catalog
        self._clock = clock
        self._events = events
        self.timeout_s = timeout_s
        self._members_max = members_max
        self._entries: dict[str, dict[str, MemberEntry]] = {}
        self._order: dict[tuple[str, str], MemberEntry] = {}  # the longest silent first
        self._current: dict[str, Subscription] = {}  # what RocketMQ calls the group's subscription
        self._warned: dict[str, frozenset[tuple[tuple[str, str], ...]]] = {}
        self.on_goodbye: Callable[[str, str], None] = _nobody
        self.on_sign: Callable[[str, str], None] = _nobody

    # -- signs of life ---------------------------------------------------------------------------

    def heartbeat(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        version: str = "",
        language: str = "",
        address: str = "",
    ) -> Member:
        """A pulling consumer is alive, and subscribes to `topics` (name to filter).

        Its topics become the group's subscription. Creates the group where that is allowed, and
        its retry topic. Raises Invalid, GroupNotFound, and Refused for one member too many.
        """
        _check_client(client)
        subscription = normal(topics or {})
        for field, text in (("version", version), ("language", language), ("address", address)):
            check_text(field, text)
        config = self._groups.ensure(group)
        entry = self._sign(group, client)
        if entry is None:
            raise Refused(
                f"there are {self._members_max} members, the most allowed",
                field="client",
                remedy="raise members_max, or let some consumers leave",
            )
        if config.mode is Mode.CLUSTERING:
            self._catalog.ensure_system(retry_topic(group))
        entry.beat_s = entry.seen_s
        entry.version, entry.language, entry.address = version, language, address
        entry.stated = subscription
        if subscription:
            self._current[group] = subscription
        self._compare(group)
        return self._as_member(client, entry)

    def seen(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        address: str = "",
        version: str = "",
        language: str = "",
        creates: bool = False,
    ) -> None:
        """A client received or settled something: it is alive. Never raises for a good receive.

        With `creates` it may be the first of its group, which is made as at a first receive.
        """
        if creates:
            self._groups.ensure(group)
        if not client or self._groups.find(group) is None:
            return
        entry = self._sign(group, client)
        if entry is None:
            return
        entry.address = address or entry.address
        entry.version, entry.language = version or entry.version, language or entry.language
        if topics is not None and topics != entry.received and entry.beat_s is None:
            entry.received = dict(topics)
            entry.stated = normal(topics)
            self._compare(group)

    def connect(
        self, group: str, client: str, *, topics: Mapping[str, str], address: str = ""
    ) -> MemberConnection:
        """A client subscribed on a connection: it is alive until that is closed."""
        connection = MemberConnection(self, group, client)
        entry = self._sign(group, client)
        if entry is not None:
            entry.address = address or entry.address
            entry.connected[connection] = normal(topics)
            self._compare(group)
        return connection

    def disconnect(self, connection: MemberConnection, group: str, client: str) -> None:
        """A connection's subscription is over; see `MemberConnection.close`."""
        entry = self._entries.get(group, {}).get(client)
        if entry is None or entry.connected.pop(connection, None) is None:
            return
        if entry.connected or self._is_pulling(entry):
            self._touch(group, client, entry)
            self._compare(group)
        else:
            self._remove(group, client, is_expired=False)

    def leave(self, group: str, client: str) -> bool:
        """A member says goodbye; whether it was one. Its open connections keep it."""
        self._groups.get(group)
        entry = self._entries.get(group, {}).get(client)
        if entry is None:
            return False
        if entry.connected:
            entry.beat_s, entry.stated, entry.received = None, {}, {}
            self._compare(group)
        else:
            self._remove(group, client, is_expired=False)
        self.on_goodbye(group, client)
        return True

    def tick(self) -> float:
        """Let go of members without a sign of life, at most 500; seconds until the next can be."""
        now_s = self._clock.monotonic_s()
        for group, client in list(self._order)[:TICK_MEMBERS_MAX]:
            entry = self._order[group, client]
            left_s = entry.seen_s + self.timeout_s - now_s
            if left_s > 0:
                return min(left_s, IDLE_WAIT_MAX_S)
            if entry.connected:
                self._touch(group, client, entry)
            else:
                self._remove(group, client, is_expired=True)
        return 0.0 if self._order else IDLE_WAIT_MAX_S

    # -- asking ----------------------------------------------------------------------------------

    def of(self, group: str) -> list[Member]:
        """The live members of a group by client; GroupNotFound."""
        self._groups.get(group)
        entries = self._entries.get(group, {})
        return [
            self._as_member(client, entries[client])
            for client in sorted(entries)
            if self._is_alive(entries[client])
        ]

    def everyone(self) -> Iterator[tuple[str, Member]]:
        """The live members of all groups with their group, each read when it is asked for.

        Members that join during the iteration are left out.
        """
        for (group, client), entry in list(self._order.items()):
            if self._is_alive(entry):
                yield group, self._as_member(client, entry)

    def memberships(self, client: str) -> list[tuple[str, Member]]:
        """The groups that a client is a live member of, by name."""
        return sorted(
            (group, self._as_member(client, entry))
            for (group, name), entry in self._order.items()
            if name == client and self._is_alive(entry)
        )

    def count(self, group: str) -> int:
        """Number of a group's members."""
        return len(self._entries.get(group, ()))

    def subscription(self, group: str) -> Subscription:
        """Subscription of the last heartbeat, which in RocketMQ is all that the group gets."""
        return dict(self._current.get(group, {}))

    def warning(self, group: str) -> SubscriptionWarning | None:
        """Where members of a group subscribe to different things; None where they agree."""
        return find_difference(group, self._subscriptions(group))

    def is_connected(self, group: str, client: str) -> bool:
        """Whether the client has a subscription on an open connection."""
        entry = self._entries.get(group, {}).get(client)
        return entry is not None and bool(entry.connected)

    def is_alive(self, group: str, client: str) -> bool:
        """Whether the client is a live member of the group; False where there is no such group."""
        entry = self._entries.get(group, {}).get(client)
        return entry is not None and self._is_alive(entry)

    def assignment(
        self,
        group: str,
        topic: str,
        client: str,
        *,
        strategy: Strategy | None = None,
        broker_name: str = "kitemq",
    ) -> Assignment:
        """The queues of a topic that a pulling client has, by the group's strategy unless given.

        Shared out among the members that send heartbeats and subscribe to the topic, or to
        nothing in particular. In a broadcast group every client has all queues. Raises
        GroupNotFound, TopicNotFound, Forbidden.
        """
        config = self._groups.get(group)
        queues = range(readable_topic(self._catalog, topic).read_queues)
        pulling = [
            name
            for name, entry in sorted(self._entries.get(group, {}).items())
            if self._is_pulling(entry) and (not entry.stated or topic in entry.stated)
        ]
        algorithm = strategy or config.strategy
        shared = self._share(
            config,
            algorithm,
            [QueueRef(topic, broker_name, queue) for queue in queues],
            clients=pulling,
            client=client,
        )
        is_member = client in pulling
        return Assignment(
            group=group,
            topic=topic,
            client=client,
            strategy=algorithm,
            mode=config.mode,
            is_member=is_member,
            queues=shared,
            clients=pulling,
        )

    def forget(self, group: str) -> None:
        """A group was deleted."""
        for client in self._entries.pop(group, {}):
            self._order.pop((group, client), None)
        self._current.pop(group, None)
        self._warned.pop(group, None)

    # -- inside ----------------------------------------------------------------------------------

    def _share(
        self,
        config: GroupConfig,
        strategy: Strategy,
        queues: list[QueueRef],
        *,
        clients: list[str],
        client: str,
    ) -> list[int]:
        if config.mode is Mode.BROADCAST:
            return [ref.queue for ref in queues] if client in clients else []
        shared = allocate(strategy, queues, clients, client, rooms=config.rooms)
        return [ref.queue for ref in shared]

    def _sign(self, group: str, client: str) -> MemberEntry | None:
        """The member's entry, alive from now on; None where there is no room for another."""
        members = self._entries.setdefault(group, {})
        entry = members.get(client)
        if entry is None:
            if len(self._order) >= self._members_max:
                return None
            now_ms = self._clock.now_ms()
            entry = members[client] = MemberEntry(now_ms, self._clock.monotonic_s())
            self._emit(MemberJoined(now_ms, group, client))
        self._touch(group, client, entry)
        self.on_sign(group, client)
        return entry

    def _touch(self, group: str, client: str, entry: MemberEntry) -> None:
        entry.seen_ms, entry.seen_s = self._clock.now_ms(), self._clock.monotonic_s()
        self._order.pop((group, client), None)
        self._order[group, client] = entry

    def _remove(self, group: str, client: str, *, is_expired: bool) -> None:
        members = self._entries[group]
        del members[client]
        self._order.pop((group, client), None)
        if not members:
            del self._entries[group]
            self._current.pop(group, None)
        self._emit(MemberLeft(self._clock.now_ms(), group, client, is_expired))
        self._compare(group)

    def _compare(self, group: str) -> None:
        """Tell once that members began to disagree, or disagree on something else."""
        subscriptions = self._subscriptions(group)
        variants = frozenset(tuple(each.items()) for each in subscriptions.values() if each)
        if len(variants) < 2:
            self._warned.pop(group, None)
        elif self._warned.get(group) != variants:
            self._warned[group] = variants
            now_ms = self._clock.now_ms()
            self._emit(SubscriptionsDiffer(now_ms, group, tuple(sorted(subscriptions))))

    def _subscriptions(self, group: str) -> dict[str, Subscription]:
        members = self._entries.get(group, {})
        return {client: entry.topics for client, entry in members.items() if self._is_alive(entry)}

    def _is_alive(self, entry: MemberEntry) -> bool:
        age_s = self._clock.monotonic_s() - entry.seen_s
        return bool(entry.connected) or age_s < self.timeout_s

    def _is_pulling(self, entry: MemberEntry) -> bool:
        beat_s = entry.beat_s
        return beat_s is not None and self._clock.monotonic_s() - beat_s < self.timeout_s

    def _as_member(self, client: str, entry: MemberEntry) -> Member:
        return Member(
            client=client,
            version=entry.version,
            language=entry.language,
            address=entry.address,
            topics=entry.topics,
            is_pulling=self._is_pulling(entry),
            is_connected=bool(entry.connected),
            joined_ms=entry.joined_ms,
            seen_ms=entry.seen_ms,
        )

    def _emit(self, event: EngineEvent) -> None:
        if self._events.has_subscribers:
            self._events.emit(event)


def _check_client(client: str) -> None:
    if not client:
        raise Invalid("no client is named", field="client", remedy="name the consumer")
    check_client(client)
