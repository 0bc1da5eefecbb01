"""What all handlers of the port share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.container import Services
from app.host import EngineHost
from app.messaging import Messaging
from app.remoting.clients import RemotingClients
from app.remoting.connection import Handler, RemotingConnection
from app.remoting.errors import RemotingRefusal
from app.remoting.signature import Signatures
from app.remoting.table import handler_of
from app.security.load import Load
from app.services.client_figures import ClientFigures
from app.services.remoting_figures import RemotingFigures
from app.settings import Settings
from engine.broker import Broker
from engine.errors import MessageNotFound
from engine.message import StoredMessage, offset_id
from protocol.remoting.codes import RequestCode, ResponseCode

UNKNOWN_CODE = -1  # under which figures count all codes that nobody knows
KNOWN = frozenset(map(int, RequestCode))


@dataclass
class RemotingBackend:
    """One server's port for classic clients; `services` are the application's, for its services."""

    services: Services
    clients: RemotingClients
    signatures: Signatures
    figures: RemotingFigures
    host: EngineHost = field(init=False)
    settings: Settings = field(init=False)
    messaging: Messaging = field(init=False)
    load: Load = field(init=False)
    activity: ClientFigures = field(init=False)
    connections: set[RemotingConnection] = field(default_factory=set)

    def __post_init__(self) -> None:
        services = self.services
        self.host, self.settings = services.host, services.settings
        self.messaging = services.messaging
        self.load, self.activity = services.load, services.client_figures

    @property
    def broker(self) -> Broker:
        return self.host.broker

    def handler(self, code: int) -> Handler:
        """What answers a request code; Refusal with the reason where nothing does."""
        return handler_of(code)

    def connected(self, connection: RemotingConnection) -> None:
        self.connections.add(connection)
        self.figures.connections = len(self.connections)

    def disconnected(self, connection: RemotingConnection) -> None:
        self.connections.discard(connection)
        self.figures.connections = len(self.connections)
        self.clients.lost(connection)

    def count(self, code: int, answer: ResponseCode) -> None:
        self.figures.requests[code if code in KNOWN else UNKNOWN_CODE, int(answer)] += 1

    def address(self, connection: RemotingConnection) -> str:
        """Where clients shall call: as this one called, so that port mappings work."""
        return self.settings.remoting_advertised or connection.server

    def offset_id(self, connection: RemotingConnection, position: int) -> str:
        """The id of a record as clients decode it: this port's address, and the position."""
        return offset_id(self.address(connection), position)

    def message_at(self, position: int) -> StoredMessage:
        """The record at a position of the log, with the code for none that clients expect."""
        try:
            return self.broker.message_at(position)
        except MessageNotFound:
            raise RemotingRefusal(
                ResponseCode.SYSTEM_ERROR, f"no message lies at {position}"
            ) from None

    @contextmanager
    def polling(self, connection: RemotingConnection) -> Iterator[None]:
        """A pull is held for as long as the context is; a RemotingRefusal beyond the bounds."""
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
