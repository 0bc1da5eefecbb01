"""State that all handlers of the remoting port share."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from app.container import Services
from app.host import EngineHost
from app.messaging import Messaging
from app.remoting.clients import RemotingClients
from app.remoting.connection import Handler, RemotingConnection
from app.remoting.errors import RemotingRefusal
from app.remoting.operations import handler_of
from app.remoting.request_modes import RequestModes
from app.remoting.signature import RemotingSignatures
from app.security.request_limits import RequestLimits
from app.services.client_figures import ClientFigures
from app.services.receive_attempts import ReceiveAttempts
from app.services.remoting_figures import RemotingFigures
from app.settings import Settings
from engine.broker import Broker
from engine.errors import Busy, MessageNotFound, OnStandby
from engine.host import host_text
from engine.message import StoredMessage, offset_id
from protocol.remoting.codes import RequestCode, ResponseCode

UNKNOWN_CODE = -1  # under which unknown request codes are counted
KNOWN = frozenset(map(int, RequestCode))
NAME_SERVER = frozenset({RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO})

UNSPECIFIED = frozenset({"0.0.0.0", "::"})  # noqa: S104 - hosts that clients cannot call


@dataclass(frozen=True)
class BrokerAddresses:
    """The name server's port, and where the broker listens, which may be the same port."""

    name_server_port: int
    broker_host: str
    broker_port: int

    def broker(self, called_host: str) -> str:
        """The broker's address for a client that called this host of ours."""
        host = called_host if self.broker_host in UNSPECIFIED else self.broker_host
        return host_text(host, self.broker_port)


class BrokerPlace(NamedTuple):
    """The one broker as routes name it."""

    name: str
    cluster: str
    address: str


@dataclass
class RemotingBackend:
    """The remoting endpoint of one server; `services` are the application's.

    That of a standby is a name server alone, which names the leader's broker.
    """

    services: Services
    clients: RemotingClients
    signatures: RemotingSignatures
    figures: RemotingFigures
    request_modes: RequestModes
    addresses: BrokerAddresses
    host: EngineHost = field(init=False)
    settings: Settings = field(init=False)
    messaging: Messaging = field(init=False)
    request_limits: RequestLimits = field(init=False)
    activity: ClientFigures = field(init=False)
    connections: set[RemotingConnection] = field(default_factory=set)
    attempts: ReceiveAttempts = field(default_factory=ReceiveAttempts)
    pops: Counter[tuple[str, str]] = field(default_factory=Counter)  # waiting, by group and topic

    def __post_init__(self) -> None:
        services = self.services
        self.host, self.settings = services.host, services.settings
        self.messaging = services.messaging
        self.request_limits, self.activity = services.request_limits, services.client_figures

    @property
    def broker(self) -> Broker:
        return self.host.broker

    def handler(self, code: int) -> Handler:
        """The handler of a request code; raises RemotingRefusal if there is none."""
        handler = handler_of(code)
        if leader := self.host.leader:
            if code not in NAME_SERVER:
                raise OnStandby(leader)
            if self.host.is_loading:
                raise Busy("this standby loads what its leader sent")
        return handler

    def connected(self, connection: RemotingConnection) -> None:
        self.connections.add(connection)
        self.figures.connections = len(self.connections)

    def disconnected(self, connection: RemotingConnection) -> None:
        self.connections.discard(connection)
        self.figures.connections = len(self.connections)
        self.clients.connection_lost(connection)

    def count(self, code: int, answer: ResponseCode, requests: int = 1) -> None:
        self.figures.requests[code if code in KNOWN else UNKNOWN_CODE, int(answer)] += requests

    def address(self, connection: RemotingConnection) -> str:
        """The broker's address for this client: where it called us, unless the settings differ."""
        return self.settings.remoting_advertised or connection.broker

    @property
    def broker_address(self) -> str:
        """The broker's address for those who know the host only: ":PORT" where that is any."""
        return self.settings.remoting_advertised or self.addresses.broker("")

    def place(self, connection: RemotingConnection) -> BrokerPlace:
        """The broker that this client finds in routes; of a standby its leader's.

        RemotingRefusal while a standby does not know it, or where there is none.
        """
        following, settings = self.services.following, self.settings
        if not following.leader:
            names = settings.broker_name, settings.cluster_name
            return BrokerPlace(*names, self.address(connection))
        profile, address = following.profile, following.broker_address()
        if profile is None or not address:
            raise RemotingRefusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"the leader {following.leader} has not said yet where its broker is, or has none",
            )
        return BrokerPlace(profile.broker_name, profile.cluster_name, address)

    def name_server_address(self, connection: RemotingConnection) -> str:
        """The name server's address for this client; the broker's where both are one."""
        port = self.addresses.name_server_port
        if port == self.addresses.broker_port:
            return self.address(connection)
        return host_text(connection.server_host, port)

    def offset_id(self, connection: RemotingConnection, position: int) -> str:
        """A record's id as clients decode it: this port's address and the position."""
        return offset_id(self.address(connection), position)

    async def message_at(self, position: int) -> StoredMessage:
        """The record at a position of the log; raises the error that clients expect for none."""
        try:
            return await self.messaging.message_at(position)
        except MessageNotFound:
            raise RemotingRefusal(
                ResponseCode.SYSTEM_ERROR, f"no message lies at {position}"
            ) from None

    @contextmanager
    def polling(self, connection: RemotingConnection) -> Iterator[None]:
        """Count a waiting pull during the context; raises RemotingRefusal beyond the limits."""
        settings, figures = self.settings, self.figures
        if connection.polls >= settings.remoting_client_polls_max:
            raise RemotingRefusal(
                ResponseCode.SYSTEM_BUSY,
                f"one connection holds at most {settings.remoting_client_polls_max} pulls",
            )
        if figures.polls >= settings.remoting_polls_max:
            raise RemotingRefusal(
                ResponseCode.SYSTEM_BUSY, f"{figures.polls} pulls are held, no more can be"
            )
        connection.polls += 1
        figures.polls += 1
        try:
            yield
        finally:
            connection.polls -= 1
            figures.polls -= 1
