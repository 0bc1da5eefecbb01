"""Who is connected right now, by WebSocket or gRPC; the door says so, the console shows it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from engine.message import StoredMessage

WEBSOCKET = "WebSocket"
# Why a client cannot be asked something.
NOT_OVER_WEBSOCKET = "the WebSocket protocol has no such question for a client"
NO_STREAM = "its telemetry stream, by which it is asked, is not open"
NO_LISTENER = "only push consumers process what they are asked to; this one fetches by itself"
REST_ONLY = "it has no open connection: a client that only makes requests cannot be asked"
WHY_NOT = (NOT_OVER_WEBSOCKET, NO_STREAM, NO_LISTENER, REST_ONLY)


@dataclass(frozen=True)
class Connected:
    """An open connection: the name that its client goes by, and from where since when.

    `is_producer`: it sends, and consumes for no group; None where its door does not know.
    """

    client: str
    address: str
    since_ms: int
    door: str = WEBSOCKET
    about: str = ""  # what the client tells of itself
    language: str = ""
    version: str = ""
    is_producer: bool | None = None


@dataclass(frozen=True)
class ClientFacts:
    """What one door knows of a client; `settings` are as the client reported them.

    `why_no_stack` and `why_no_verify` say why it cannot be asked for its threads, or to process a
    message; "" where it can.
    """

    door: str
    address: str
    since_ms: int
    seen_ms: int | None = None
    language: str = ""
    version: str = ""
    kind: str = ""
    user: str = ""
    is_open: bool = True
    polls: int = 0
    told: str = ""
    settings: Sequence[tuple[str, str]] = ()
    topics: Sequence[str] = ()  # that it sends to
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    why_no_stack: str = NOT_OVER_WEBSOCKET
    why_no_verify: str = NOT_OVER_WEBSOCKET


@dataclass(frozen=True)
class Processed:
    """What a client answered that was asked to process a message: its status in words."""

    code: str
    detail: str


class ClientDoor(Protocol):
    """A door whose clients go by names, and can be asked things.

    `stack` and `verify` raise Refused where a client offers none, Busy where it cannot be asked
    just now, and TimeoutError.
    """

    @property
    def count(self) -> int:
        """How many clients it has."""

    def connected(self) -> list[Connected]:
        """All of its clients."""

    def find(self, client: str) -> ClientFacts | None:
        """One of them."""

    async def stack(self, client: str, timeout_s: float) -> str:
        """What its threads do."""

    async def verify(
        self, client: str, group: str, message: StoredMessage, timeout_s: float
    ) -> Processed:
        """Let it process a message apart from its delivery."""

    def disconnect(self, client: str) -> int:
        """End what it has open; how many connections that were."""


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
        self._others: list[ClientDoor] = []

    @contextmanager
    def opened(
        self,
        client: Callable[[], str],
        address: str,
        since_ms: int,
        end: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """A WebSocket is open for as long as the context is held; `client` names it as of now.

        `end` is called where somebody disconnects it.
        """
        self._opened += 1
        number = self._opened
        self._open[number] = _Open(client, address, since_ms, end)
        try:
            yield
        finally:
            del self._open[number]

    def add_door(self, door: ClientDoor) -> Callable[[], None]:
        """Another door lists its own; what is returned takes it out again."""
        self._others.append(door)
        return lambda: self._others.remove(door)

    @property
    def count(self) -> int:
        """How many `all` would list."""
        return len(self._open) + sum(door.count for door in self._others)

    def all(self) -> list[Connected]:
        """All of them, the oldest first."""
        clients = [
            Connected(each.client(), each.address, each.since_ms) for each in self._open.values()
        ]
        for door in self._others:
            clients += door.connected()
        return sorted(clients, key=lambda each: each.since_ms)

    def find(self, client: str) -> list[ClientFacts]:
        """What the doors know of a client, one entry for each that it came through."""
        return next(self.of_each((client,)))

    def of_each(self, clients: Iterable[str]) -> Iterator[list[ClientFacts]]:
        """The same for many clients, in turn: WebSockets are gone through once for all of them."""
        sockets: dict[str, list[ClientFacts]] = {}
        for each in self._open.values():
            facts = ClientFacts(WEBSOCKET, each.address, each.since_ms)
            sockets.setdefault(each.client(), []).append(facts)
        for client in clients:
            others = [door.find(client) for door in self._others]
            yield sockets.get(client, []) + [facts for facts in others if facts is not None]

    def door_of(self, client: str) -> ClientDoor | None:
        """The door that can ask a client; None where there is none."""
        return next((door for door in self._others if door.find(client) is not None), None)

    def why_no_stack(self, client: str) -> str:
        """Why a client cannot be asked for its threads; "" where it can."""
        return why_not([each.why_no_stack for each in self.find(client)])

    def disconnect(self, client: str) -> int:
        """End the client's connections at every door; how many they were."""
        ours = [each for each in self._open.values() if each.client() == client]
        for each in ours:
            each.end()
        return len(ours) + sum(door.disconnect(client) for door in self._others)


def why_not(reasons: Sequence[str]) -> str:
    """Why no door of a client can ask it; "" where one can."""
    if not reasons:
        return REST_ONLY
    return "" if "" in reasons else reasons[-1]
