"""The live gRPC clients: their settings, memberships and telemetry streams.

A client is alive while its telemetry stream is open, or if it called within the last 30 seconds;
it sends a heartbeat every ten seconds. After a restart of the server, a client may be known by its
calls alone for minutes: sending, receiving and transaction checks need no settings.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from app import eager
from app.grpc import workarounds
from app.grpc.call import GrpcCall
from app.grpc.codes import GrpcRefusal
from app.grpc.leases import Leases
from app.grpc.quotas import AddressQuota
from app.grpc.shapes import to_wire
from app.grpc.stream import OUTBOXES_BYTES_MAX, StreamBytesBudget, TelemetryStream
from app.messaging import Messaging
from app.security.client_names import ClientNames, NameOwner
from app.services.connections import Connected
from app.services.transactions import Ask, Transactions
from engine.broker import TransactionCheck
from engine.clock import Clock
from engine.errors import EngineError
from kitemq.model.conversion import convert
from protocol.rocketmq.messages import (
    ReconnectEndpointsCommand,
    RecoverOrphanedTransactionCommand,
    Settings,
    TelemetryCommand,
)
from protocol.rocketmq.numbers import ClientLanguage, ClientType, Code

CLIENTS_MAX = 10_000
TOPICS_MAX = 256  # of one client, for transaction checks
GROUPS_MAX = 64
QUESTIONS_MAX = 16  # unanswered, to one client
SILENT_S = 30.0
IDENTIFIED_MAX = 500  # streams that are authenticated again in one round
STEP_MAX = 100  # clients in one turn of the event loop
SUBSCRIPTION_BYTES_MAX = 64 * 1024 * 1024  # of the settings and subscriptions of all clients


@dataclass
class GrpcClient:
    """One client; `settings` are the last it sent, None until then.

    `is_whole` is False if only their client type and language are stored, for lack of memory.
    """

    name: str
    address: str
    host: str  # its first address, under which it is counted
    language: str
    version: str
    namespace: str
    since_ms: int
    seen_s: float
    kind: ClientType = ClientType.CLIENT_TYPE_UNSPECIFIED
    settings: Any = None
    user: str = ""  # its owner; "" while there are no users
    settings_answer: str = ""  # a summary of the answer to its settings
    refusal: EngineError | None = None  # of its settings
    stream: TelemetryStream | None = None
    groups: dict[str, dict[str, str]] = field(default_factory=dict)  # to topics with filters
    asks: dict[str, Ask] = field(default_factory=dict)  # by topic
    questions: dict[str, asyncio.Future[Any]] = field(default_factory=dict)
    polls: int = 0
    is_gone: bool = False  # it has ended, was disconnected or timed out
    waits: set[Callable[[], object]] = field(
        default_factory=set
    )  # callbacks that end its polls early
    is_whole: bool = True
    settings_bytes: int = 0
    subscription_bytes: int = 0  # of its groups, topics and filters

    @property
    def is_push(self) -> bool:
        return self.kind in (ClientType.PUSH_CONSUMER, ClientType.LITE_PUSH_CONSUMER)

    @property
    def about(self) -> str:
        """A summary for the console: "PYTHON 5.1.2, push consumer, telemetry; 17 attempts …"."""
        kind = self.kind.name.lower().replace("_", " ") if self.kind else ""
        stream = "telemetry" if self.stream is not None else ""
        language = f"{self.language} {self.version}".strip()
        about = ", ".join(part for part in (language, kind, stream) if part)
        return f"{about}; {self.settings_answer}" if self.settings_answer else about

    @property
    def speaks(self) -> ClientLanguage:
        """Its language, by its settings if it has sent any."""
        if self.settings is not None:
            number = self.settings.user_agent.language
            return (
                ClientLanguage(number)
                if number in set(ClientLanguage)
                else ClientLanguage.LANGUAGE_UNSPECIFIED
            )
        return workarounds.language_of(self.language)


class GrpcClients:
    """At most CLIENTS_MAX clients, and a limit by address; others get TOO_MANY_REQUESTS."""

    def __init__(
        self,
        messaging: Messaging,
        clock: Clock,
        transactions: Transactions,
        leases: Leases,
        names: ClientNames,
        *,
        address_clients_max: int,
    ) -> None:
        self._messaging = messaging
        self._clock = clock
        self._names = names
        self._transactions = transactions
        self._leases = leases
        self._clients: dict[str, GrpcClient] = {}
        self._shares = AddressQuota("clients", each_max=address_clients_max, all_max=CLIENTS_MAX)
        self._subscription_budget = StreamBytesBudget(SUBSCRIPTION_BYTES_MAX)
        self.outboxes = StreamBytesBudget(OUTBOXES_BYTES_MAX)
        self._identified = 0  # streams that were authenticated again in this cycle

    def __len__(self) -> int:
        return len(self._clients)

    def all(self) -> list[GrpcClient]:
        return list(self._clients.values())

    def connected(self) -> list[Connected]:
        """All clients as the console lists them."""
        return [
            convert(
                client,
                Connected,
                client=client.name,
                endpoint="gRPC",
                is_producer=client.kind is ClientType.PRODUCER if client.kind else None,
            )
            for client in self._clients.values()
        ]

    def find(self, name: str) -> GrpcClient | None:
        return self._clients.get(name)

    @property
    def stream_count(self) -> int:
        return sum(client.stream is not None for client in self._clients.values())

    def touch(self, call: GrpcCall) -> GrpcClient:
        """The client of a call, created if new; marks it as alive."""
        now_s = self._clock.monotonic_s()
        client = self._client_of(call)
        if client is None:
            if why_not := self._shares.take(call.origin.host):
                raise GrpcRefusal(Code.TOO_MANY_REQUESTS, why_not)
            client = self._clients[call.client] = GrpcClient(
                name=call.client,
                address=call.origin.client,
                host=call.origin.host,
                language=call.language,
                version=call.version,
                namespace=call.namespace,
                since_ms=self._clock.now_ms(),
                seen_s=now_s,
                user=call.principal.name,
            )
        client.seen_s = now_s
        client.address = call.origin.client  # it may have reconnected
        return client

    async def join_group(
        self, client: GrpcClient, group: str, topics: Mapping[str, str] | None = None
    ) -> None:
        """Make a client a member of a group with these subscriptions (topic to filter).

        Raises ClientNameTaken if a live member of another user has its name.
        """
        self._names.claim(group, client.name, NameOwner(client.user))
        subscribed = client.groups.get(group)
        if subscribed is None:
            if len(client.groups) >= GROUPS_MAX:
                return
            subscribed = client.groups[group] = {}
        for topic, filter in (topics or {}).items():
            self._subscribe(client, subscribed, topic, filter)
        try:
            await self._messaging.members.seen(
                group,
                client.name,
                topics=subscribed or None,
                address=client.address,
                version=client.version,
                language=client.language,
                creates=True,
            )
        except EngineError:
            client.groups.pop(group, None)  # the group cannot be created: the next receive says so
            self._reserve(client, -sum(_size(*each) for each in subscribed.items()))

    def register_producer(self, client: GrpcClient, topic: str) -> None:
        """Register a client for transaction checks of a topic, while it is alive."""
        if self._clients.get(client.name) is not client:
            return  # it ended while its message was stored: nothing would undo this
        if topic in client.asks or len(client.asks) >= TOPICS_MAX:
            return
        if not self._reserve(client, _size(topic)):
            return

        def ask(check: TransactionCheck) -> bool:
            return self._send_check(client, check)

        client.asks[topic] = ask
        self._transactions.producers.enter(topic, ask)
        if client.stream is not None:
            self._send_pending_checks(client, topic)

    def set_stream(self, client: GrpcClient, stream: TelemetryStream) -> None:
        """Set a client's telemetry stream; ends the previous one."""
        older, client.stream = client.stream, stream
        if older is not None:
            older.close()
        for topic in client.asks:
            self._send_pending_checks(client, topic)

    def remove_stream(self, client: GrpcClient, stream: TelemetryStream) -> None:
        """Remove a telemetry stream that has ended; the client may open another one."""
        stream.is_over()
        if client.stream is stream:
            client.stream = None
            client.seen_s = self._clock.monotonic_s()

    def terminate(self, call: GrpcCall) -> bool:
        """Remove a client that ends, and release its messages; False if it is unknown."""
        client = self._client_of(call)
        if client is None:
            return False
        self._leases.give_back(client.name)
        self._remove(client)
        return True

    def disconnect(self, client: GrpcClient) -> None:
        """Remove a client at an operator's request; its messages count as failed."""
        self._leases.abandon(client.name)
        self._remove(client)

    def store_settings(self, client: GrpcClient, settings: Any) -> None:
        """Store a client's settings, as a whole if there is room for them."""
        self._subscription_budget.give(client.settings_bytes)
        size_bytes = settings.ByteSize()
        client.is_whole = self._subscription_budget.take(size_bytes)
        client.settings_bytes = size_bytes if client.is_whole else 0
        if not client.is_whole:
            reduced = Settings(client_type=settings.client_type)
            reduced.user_agent.language = settings.user_agent.language
            settings = reduced
        client.settings = settings

    def steps(self) -> Iterator[None]:
        """Remove clients that have timed out, a part in each step."""
        now_s = self._clock.monotonic_s()
        for number, client in enumerate(self.all(), 1):
            is_alive = client.stream is not None or client.polls
            is_known = self._clients.get(client.name) is client  # other tasks ran in between
            if is_known and not is_alive and now_s - client.seen_s > SILENT_S:
                self._leases.abandon(client.name)
                self._remove(client)
                yield  # it may have had many messages
            elif number % STEP_MAX == 0:
                yield

    def check_streams(self, identified: Callable[[Mapping[str, str]], object]) -> Iterator[None]:
        """End streams whose caller is no longer authorized; checks a part in each round."""
        streams = [client.stream for client in self._clients.values() if client.stream is not None]
        begin = self._identified % max(1, len(streams))
        self._identified = begin + IDENTIFIED_MAX
        turn = (streams[begin:] + streams[:begin])[:IDENTIFIED_MAX]
        for number, stream in enumerate(turn, 1):
            try:
                identified(stream.metadata)
            except GrpcRefusal as error:
                stream.refuse(error)
            if number % STEP_MAX == 0:
                yield

    def close(self) -> None:
        """End all streams; clients that have sent settings are told to reconnect."""
        for client in self.all():
            if client.stream is None:
                continue
            breaks = client.speaks in workarounds.BREAKS_AS_IT_RECONNECTS
            if client.settings is not None and not breaks:
                again = ReconnectEndpointsCommand(nonce=secrets.token_hex(16))
                client.stream.offer(TelemetryCommand(reconnect_endpoints_command=again))
            client.stream.close()

    async def request(
        self, client: GrpcClient, command: str, timeout_s: float, **fields: Any
    ) -> Any:
        """Send a command with a nonce; returns the client's answer (a TelemetryCommand).

        Raises GrpcRefusal without an open stream, and TimeoutError.
        """
        stream = client.stream
        if stream is None or len(client.questions) >= QUESTIONS_MAX:
            raise GrpcRefusal(Code.TOO_MANY_REQUESTS, "the client cannot be asked just now")
        nonce = secrets.token_hex(16)
        request = TelemetryCommand()
        part = getattr(request, command)
        part.nonce = nonce
        for name, value in fields.items():
            getattr(part, name).CopyFrom(value)
        answer = client.questions[nonce] = asyncio.get_running_loop().create_future()
        try:
            if not stream.offer(request):
                raise GrpcRefusal(
                    Code.TOO_MANY_REQUESTS, "the client does not read what it is sent"
                )
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            del client.questions[nonce]

    # -- inside ----------------------------------------------------------------------------------

    def _subscribe(
        self, client: GrpcClient, subscribed: dict[str, str], topic: str, filter: str
    ) -> None:
        """Store a subscription of a client, if there is room for it."""
        before = subscribed.get(topic)
        if before == filter or (before is None and len(subscribed) >= TOPICS_MAX):
            return
        freed_bytes = 0 if before is None else _size(topic, before)
        if self._reserve(client, _size(topic, filter) - freed_bytes):
            subscribed[topic] = filter

    def _reserve(self, client: GrpcClient, size_bytes: int) -> bool:
        """Reserve bytes for what is stored of a client; False if there is no room."""
        if not self._subscription_budget.take(size_bytes):
            return False
        client.subscription_bytes += size_bytes
        return True

    def _client_of(self, call: GrpcCall) -> GrpcClient | None:
        """The client of a call, if known; raises GrpcRefusal if its name belongs to another user.

        Client ids are no secret, and a caller with this id could answer its transaction checks or
        end it. Another access key of the same user may use it.
        """
        client = self._clients.get(call.client)
        if client is not None and call.principal.name:
            if client.user not in ("", call.principal.name):
                raise GrpcRefusal(
                    Code.FORBIDDEN, f"the client id {call.client!r} is in use by another user"
                )
            client.user = call.principal.name
        return client

    def _send_check(self, client: GrpcClient, check: TransactionCheck) -> bool:
        if client.stream is None:
            return False
        recover = RecoverOrphanedTransactionCommand(
            message=to_wire(check.message, client.namespace), transaction_id=check.transaction_id
        )
        return client.stream.offer(TelemetryCommand(recover_orphaned_transaction_command=recover))

    def _send_pending_checks(self, client: GrpcClient, topic: str) -> None:
        """Send the checks that were due while no producer was reachable."""
        self._transactions.ask_pending(topic, partial(self._send_check, client))

    def _remove(self, client: GrpcClient) -> None:
        del self._clients[client.name]
        client.is_gone = True
        for end in list(client.waits):
            end()
        self._shares.give(client.host)
        self._subscription_budget.give(client.settings_bytes + client.subscription_bytes)
        for topic, ask in client.asks.items():
            self._transactions.producers.leave(topic, ask)
        if client.stream is not None:
            client.stream.close()
        for group in client.groups:
            eager.run(self._messaging.members.leave(group, client.name), eager.ignore)


def _size(*texts: str) -> int:
    return sum(len(text.encode()) for text in texts)
