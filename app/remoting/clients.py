"""The classic clients by name, with their groups and connections.

A client is alive as long as its connection, or its heartbeats over another one. Consumers are
notified when the members of their group change, so that they rebalance at once.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app import eager
from app.host import EngineHost
from app.messaging import Messaging
from app.remoting.errors import RemotingRefusal
from app.remoting.records import record_of
from app.security.access import Principal
from app.security.client_names import ClientNames, owner_of
from app.services.remoting_figures import RemotingFigures
from app.services.transactions import Ask, Transactions
from engine.broker import RETRY_PREFIX, GroupConfig, Mode, TransactionCheck
from engine.events import MemberJoined, MemberLeft
from engine.message import CHECK_TIMES, offset_id
from protocol.remoting.codes import RequestCode, ResponseCode, version_text

if TYPE_CHECKING:
    from app.remoting.connection import RemotingConnection

CLIENTS_MAX = 10_000
GROUPS_MAX = 64  # of producers and of consumers, of one client
TOPICS_MAX = 256  # of one group's subscription
NAME_CHARS_MAX = 255
BROADCASTING = "BROADCASTING"


@dataclass(frozen=True)
class RemotingSubscription:
    """One topic of a client's subscription; `filter` is in the engine's form."""

    topic: str
    text: str
    kind: str  # TAG or SQL92
    version: int
    filter: str


@dataclass(frozen=True)
class RemotingConsumer:
    """One group of a client."""

    group: str
    consume_type: str
    message_model: str
    consume_from: str
    topics: dict[str, RemotingSubscription]


@dataclass(eq=False)
class RemotingClient:
    """One client, with its consumer groups and the producer groups whose checks it answers."""

    name: str
    connection: "RemotingConnection"
    user: str
    language: str
    version: str
    version_number: int
    since_ms: int
    seen_ms: int
    consumers: dict[str, RemotingConsumer] = field(default_factory=dict)
    producers: dict[str, Ask] = field(default_factory=dict)


class RemotingClients:
    """At most CLIENTS_MAX clients; others get SYSTEM_BUSY."""

    def __init__(
        self,
        host: EngineHost,
        messaging: Messaging,
        transactions: Transactions,
        names: ClientNames,
        figures: RemotingFigures,
    ) -> None:
        self._host = host
        self._messaging = messaging
        self._transactions = transactions
        self._names = names
        self._figures = figures
        self._clients: dict[str, RemotingClient] = {}
        self._of: dict[RemotingConnection, dict[str, RemotingClient]] = {}
        self._changed: set[str] = set()  # groups whose members are to be notified

    # -- queries ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._clients)

    def all(self) -> list[RemotingClient]:
        return list(self._clients.values())

    def find(self, name: str) -> RemotingClient | None:
        return self._clients.get(name)

    def name_of(self, connection: "RemotingConnection") -> str:
        """The first client on a connection; "" before its first heartbeat."""
        return next(iter(self._of.get(connection, ())), "")

    def consumers_of(self, group: str) -> list[RemotingClient]:
        """The clients that are members of a group."""
        return [client for client in self._clients.values() if group in client.consumers]

    def producers_of(self, group: str) -> list[RemotingClient]:
        """The clients of a producer group."""
        return [client for client in self._clients.values() if group in client.producers]

    def filter_of(self, connection: "RemotingConnection", group: str, topic: str) -> str | None:
        """The filter of a pull that names none: that of its client's last heartbeat."""
        own = self._of.get(connection, {}).values()
        others = () if any(group in each.consumers for each in own) else self.consumers_of(group)
        for client in (*own, *others):
            consumer = client.consumers.get(group)
            if consumer is not None and topic in consumer.topics:
                return str(consumer.topics[topic].filter)
        return None

    def subscription_of(self, group: str, topic: str) -> RemotingSubscription | None:
        """The subscription of a group's consumers to a topic; None if none has told it."""
        subscriptions = (each.consumers[group].topics for each in self.consumers_of(group))
        return next((each[topic] for each in subscriptions if topic in each), None)

    def member_name(self, connection: "RemotingConnection", group: str) -> str:
        """The client of a connection that is a member of the group; "" if there is none."""
        own = self._of.get(connection, {}).values()
        return next((each.name for each in own if group in each.consumers), "")

    # -- signs of life ---------------------------------------------------------------------------

    def touch(
        self,
        connection: "RemotingConnection",
        name: str,
        principal: Principal,
        language: str,
        version: int,
    ) -> RemotingClient:
        """The client, created if new and marked as alive; may raise RemotingRefusal."""
        if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
            raise RemotingRefusal(
                ResponseCode.INVALID_PARAMETER,
                f"clientID has 1 to {NAME_CHARS_MAX} printable characters",
            )
        now_ms = self._host.clock.now_ms()
        client = self._clients.get(name)
        if client is None:
            if len(self._clients) >= CLIENTS_MAX:
                raise RemotingRefusal(
                    ResponseCode.SYSTEM_BUSY, f"{CLIENTS_MAX} clients are the most"
                )
            text = version_text(version)
            client = RemotingClient(
                name=name,
                connection=connection,
                user=principal.name,
                language=language,
                version=text,
                version_number=version,
                since_ms=now_ms,
                seen_ms=now_ms,
            )
            self._clients[name] = client
        elif client.user and principal.name and client.user != principal.name:
            raise RemotingRefusal(
                ResponseCode.NO_PERMISSION, f"the client id {name!r} is in use by another user"
            )
        if client.connection is not connection:
            self._of.get(client.connection, {}).pop(name, None)
            client.connection = connection
        self._of.setdefault(connection, {})[name] = client
        client.seen_ms, client.user = now_ms, principal.name or client.user
        self._figures.clients = len(self._clients)
        return client

    async def join_group(
        self, client: RemotingClient, consumer: RemotingConsumer, principal: Principal
    ) -> None:
        """Make a client a member of a group with this subscription."""
        group = consumer.group
        if group not in client.consumers and len(client.consumers) >= GROUPS_MAX:
            raise RemotingRefusal(ResponseCode.SYSTEM_BUSY, f"{GROUPS_MAX} groups of one client")
        if len(consumer.topics) > TOPICS_MAX:
            raise RemotingRefusal(
                ResponseCode.INVALID_PARAMETER, f"over {TOPICS_MAX} topics of one group"
            )
        self._names.claim(group, client.name, owner_of(principal))
        self._ensure_group(consumer)
        topics = {
            each.topic: each.filter
            for each in consumer.topics.values()
            if not each.topic.startswith(RETRY_PREFIX)
        }
        await self._messaging.members.heartbeat(
            group,
            client.name,
            topics=topics,
            version=client.version,
            language=client.language,
            address=client.connection.client,
        )
        known_consumer = client.consumers.get(group)
        client.consumers[group] = consumer
        if known_consumer is None or known_consumer.topics.keys() != consumer.topics.keys():
            self.changed(group)

    def register_producer(self, client: RemotingClient, group: str) -> None:
        """Register a client for transaction checks of a producer group, while it is alive."""
        if group in client.producers or len(client.producers) >= GROUPS_MAX:
            return

        def ask(check: TransactionCheck) -> bool:
            return _ask(client, check)

        client.producers[group] = ask
        self._transactions.producers.enter(group, ask)
        self._transactions.ask_pending(group, ask)

    def retain_groups(self, client: RemotingClient, groups: Iterable[str]) -> None:
        """Remove a client from groups that its heartbeat does not name."""
        names = set(groups)
        for group in [each for each in client.consumers if each not in names]:
            self.leave_group(client, group)

    def leave_group(self, client: RemotingClient, group: str) -> None:
        """Remove a client from a consumer group."""
        if client.consumers.pop(group, None) is None:
            return
        # An error says that the group is gone.
        eager.run(self._messaging.members.leave(group, client.name), eager.ignore)

    def unregister_producer(self, client: RemotingClient, group: str) -> None:
        ask = client.producers.pop(group, None)
        if ask is not None:
            self._transactions.producers.leave(group, ask)

    def remove(self, client: RemotingClient) -> None:
        """Remove a client."""
        for group in tuple(client.consumers):
            self.leave_group(client, group)
        for group in tuple(client.producers):
            self.unregister_producer(client, group)
        if self._clients.get(client.name) is client:
            del self._clients[client.name]
        self._of.get(client.connection, {}).pop(client.name, None)
        self._figures.clients = len(self._clients)

    def connection_lost(self, connection: "RemotingConnection") -> None:
        """Remove the clients of a connection that has ended."""
        for client in tuple(self._of.get(connection, {}).values()):
            self.remove(client)
        self._of.pop(connection, None)

    # -- telling ---------------------------------------------------------------------------------

    def on_event(self, event: MemberJoined | MemberLeft) -> None:
        """Handle the engine's events about group members."""
        self.changed(event.group)

    def changed(self, group: str) -> None:
        """Notify the group's members at the end of this turn of the event loop to rebalance."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._notify)
        self._changed.add(group)

    def _notify(self) -> None:
        changed, self._changed = self._changed, set()
        for client in self._clients.values():
            for group in changed & client.consumers.keys():
                client.connection.tell(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}
                )

    def _ensure_group(self, consumer: RemotingConsumer) -> None:
        """Create a broadcasting group at the first heartbeat of its first consumer."""
        broker, config = self._host.broker, self._host.config
        if consumer.message_model != BROADCASTING or not config.auto_create_groups:
            return
        if all(each.name != consumer.group for each in broker.groups()):
            broker.create_group(
                GroupConfig(consumer.group, retry_max=config.retry_max, mode=Mode.BROADCAST)
            )


def _ask(client: RemotingClient, check: TransactionCheck) -> bool:
    """Send a transaction check to a producer, which answers by END_TRANSACTION."""
    message, connection = check.message, client.connection
    address = connection.backend.address(connection)
    position = str(message.position)
    return connection.tell(
        RequestCode.CHECK_TRANSACTION_STATE,
        {
            "tranStateTableOffset": str(check.half_offset),
            "commitLogOffset": position,
            "msgId": message.message_id,
            "transactionId": check.transaction_id,
            "offsetMsgId": offset_id(address, message.position),
            "topic": message.topic,
            "bname": connection.backend.settings.broker_name,
        },
        record_of(message, address, more={CHECK_TIMES: str(check.number)}),
    )
