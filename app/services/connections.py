"""Clients connected now, over WebSocket, gRPC or remoting, as their endpoints report them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from engine.message import StoredMessage
from kitemq.model.members import MemberQueue

WEBSOCKET = "WebSocket"
# Reasons why a client cannot be queried.
NOT_OVER_WEBSOCKET = "the WebSocket protocol has no such request"
NO_STREAM = "its telemetry stream is not open"
NO_LISTENER = "only push consumers support this; this client fetches messages itself"
REST_ONLY = "it has no open connection"
AT_BROKERS = "it is connected to the brokers, and not to this server"
WHY_NOT = (NOT_OVER_WEBSOCKET, NO_STREAM, NO_LISTENER, REST_ONLY, AT_BROKERS)


@dataclass(frozen=True)
class Connected:
    """An open connection: its client's name and address, and when it opened.

    `is_producer`: it sends, and consumes for no group; None if its endpoint does not know.
    """

    client: str
    address: str
    since_ms: int
    endpoint: str = WEBSOCKET
    about: str = ""  # reported by the client itself
    language: str = ""
    version: str = ""
    is_producer: bool | None = None


@dataclass(frozen=True)
class ClientFacts:
    """A client as one endpoint knows it; `settings` are as the client reported them.

    `why_no_stack` and `why_no_verify` are the reasons why it cannot be asked for its threads, or to
    process a message; "" if it can.
    """

    endpoint: str
    address: str
    since_ms: int
    seen_ms: int | None = None
    language: str = ""
    version: str = ""
    kind: str = ""
    user: str = ""
    is_open: bool = True
    polls: int = 0
    settings_answer: str = ""
    settings: Sequence[tuple[str, str]] = ()
    topics: Sequence[str] = ()  # that it sends to
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    why_no_stack: str = NOT_OVER_WEBSOCKET
    why_no_verify: str = NOT_OVER_WEBSOCKET


@dataclass(frozen=True)
class Processed:
    """A client's answer to a request to process a message, with its status in words."""

    code: str
    detail: str


class ClientEndpoint(Protocol):
    """An endpoint whose clients have names and can be queried.

    `stack` and `verify` raise Refused if a client does not support them, Busy if it cannot be
    queried just now, and TimeoutError.
    """

    @property
    def count(self) -> int:
        """The number of clients."""

    def connected(self) -> list[Connected]:
        """All of its clients."""

    def find(self, client: str) -> ClientFacts | None:
        """One of them."""

    async def stack(self, client: str, timeout_s: float) -> str:
        """The stack traces of the client's threads."""

    async def verify(
        self, client: str, group: str, message: StoredMessage, timeout_s: float
    ) -> Processed:
        """Let it process a message apart from its delivery."""

    async def queues(self, client: str, group: str, timeout_s: float) -> list[MemberQueue]:
        """The queues that it reads as a member of a group, retries left out; raises as `stack`."""

    def disconnect(self, client: str) -> int:
        """End the client's connections and return their number."""


@dataclass(frozen=True)
class _Open:
    client: Callable[[], str]
    address: str
    since_ms: int
    end: Callable[[], None]


class Connections:
    """The open connections of one server; the gate bounds how many there can be."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._opened = 0
        self._others: list[ClientEndpoint] = []

    @contextmanager
    def opened(
        self,
        client: Callable[[], str],
        address: str,
        since_ms: int,
        end: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Register a WebSocket while the context is held; `client` returns its current name.

        `end` is called to disconnect it.
        """
        self._opened += 1
        number = self._opened
        self._open[number] = _Open(client, address, since_ms, end)
        try:
            yield
        finally:
            del self._open[number]

    def add_endpoint(self, endpoint: ClientEndpoint) -> Callable[[], None]:
        """Register an endpoint that lists its own clients; the result unregisters it."""
        self._others.append(endpoint)
        return lambda: self._others.remove(endpoint)

    @property
    def count(self) -> int:
        """The length of `all`."""
        return len(self._open) + sum(endpoint.count for endpoint in self._others)

    def all(self) -> list[Connected]:
        """All of them, the oldest first."""
        clients = [
            Connected(each.client(), each.address, each.since_ms) for each in self._open.values()
        ]
        for endpoint in self._others:
            clients += endpoint.connected()
        return sorted(clients, key=lambda each: each.since_ms)

    def find(self, client: str) -> list[ClientFacts]:
        """A client as each of its endpoints knows it."""
        return next(self.of_each((client,)))

    def of_each(self, clients: Iterable[str]) -> Iterator[list[ClientFacts]]:
        """The same for many clients, in turn: WebSockets are gone through once for all of them."""
        sockets: dict[str, list[ClientFacts]] = {}
        for each in self._open.values():
            facts = ClientFacts(WEBSOCKET, each.address, each.since_ms)
            sockets.setdefault(each.client(), []).append(facts)
        for client in clients:
            others = [endpoint.find(client) for endpoint in self._others]
            yield sockets.get(client, []) + [facts for facts in others if facts is not None]

    def endpoint_of(self, client: str) -> ClientEndpoint | None:
        """The endpoint that can query a client; None without one."""
        return next(
            (endpoint for endpoint in self._others if endpoint.find(client) is not None), None
        )

    def why_no_stack(self, client: str) -> str:
        """The reason why a client cannot be asked for its threads; "" if it can."""
        return why_not([each.why_no_stack for each in self.find(client)])

    def disconnect(self, client: str) -> int:
        """End the client's connections at every endpoint and return their number."""
        ours = [each for each in self._open.values() if each.client() == client]
        for each in ours:
            each.end()
        return len(ours) + sum(endpoint.disconnect(client) for endpoint in self._others)


def why_not(reasons: Sequence[str]) -> str:
    """The reason why no endpoint can query a client; "" if one can."""
    if not reasons:
        return REST_ONLY
    return "" if "" in reasons else reasons[-1]
