"""The port for classic clients between `start` and `stop`: name server and broker in one.

Where the broker has a port of its own, each of the ports answers all requests; only routes differ.
It shares event loop, engine, users and limits with the other ports.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from app.container import Services
from app.network.acceptor import Acceptor
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import ConnectionMonitor
from app.remoting.backend import BrokerAddresses, RemotingBackend
from app.remoting.client_directory import RemotingClientDirectory
from app.remoting.clients import RemotingClients
from app.remoting.connection import RemotingConnection
from app.remoting.request_modes import RequestModes
from app.remoting.signature import RemotingSignatures
from app.settings import Settings
from app.tls import Certificate, Pair
from engine.events import MemberJoined, MemberLeft
from engine.host import host_text

log = logging.getLogger("kitemq.remoting")


class RemotingPort:
    """Listens on `listeners` and closes them at the end; `services` are the application's."""

    def __init__(
        self,
        services: Services,
        listeners: Sequence[socket.socket],
        monitor: ConnectionMonitor,
    ) -> None:
        """`listeners` are the name server's and, where it is apart, the broker's.

        Further ones are served as well, and named to nobody. `monitor` checks the connections;
        its owner starts and stops it.
        """
        self._services = services
        self._listeners = tuple(listeners)
        self._monitor = monitor
        clients = RemotingClients(
            services.host,
            services.messaging,
            services.transactions,
            services.client_names,
            services.remoting_figures,
        )
        signatures = RemotingSignatures(services.user_directory, services.access_keys)
        modes = RequestModes(services.settings.data)
        figures = services.remoting_figures
        name_server, broker, *_ = (each.getsockname()[:2] for each in (*listeners, *listeners))
        addresses = BrokerAddresses(name_server[1], *broker)
        self.backend = RemotingBackend(services, clients, signatures, figures, modes, addresses)
        self._acceptors: list[Acceptor] = []
        self._unlist: Callable[[], None] = _nothing
        self.address = host_text(*name_server)

    async def start(self) -> None:
        """Start listening; raises ValueError (such as TlsError) for an unusable certificate."""
        settings = self._services.settings
        self._services.targets.own_ports |= {each.getsockname()[1] for each in self._listeners}
        try:
            await asyncio.to_thread(self._services.access_keys.load)
        except OSError as error:
            log.error("the remoting port serves no access keys: %s", error)
        await asyncio.to_thread(self.backend.request_modes.load)
        self._services.broker_address = self.backend.broker_address
        certificate = await asyncio.to_thread(_certificate, settings)
        self._services.host.broker.events.subscribe(
            self.backend.clients.on_event, (MemberJoined, MemberLeft)
        )
        self._unlist = self._services.connections.add_endpoint(
            RemotingClientDirectory(self.backend.clients)
        )
        for listener in self._listeners:
            acceptor = Acceptor(
                listener,
                self._services.connection_limits,
                self._make_connection,
                certificate=certificate,
                handshake_s=settings.header_timeout_s,
                takes_plain=not settings.tls_required,
            )
            self._acceptors.append(acceptor)
            acceptor.start()
        log.info("classic RocketMQ clients are served on %s", self.address)
        if len(self._listeners) > 1:
            places = [host_text(*each.getsockname()[:2]) for each in self._listeners[1:]]
            log.info("their broker is on %s", " and ".join(places))

    async def stop(self) -> None:
        """Stop accepting, answer pending requests, then close all connections."""
        for acceptor in self._acceptors:
            await acceptor.stop()
        for listener in self._listeners:
            listener.close()
        for connection in tuple(self.backend.connections):
            connection.close()
        await asyncio.sleep(0)
        self._unlist()
        self._unlist = _nothing
        self._services.host.broker.events.unsubscribe(self.backend.clients.on_event)

    def _make_connection(self, slot: ConnectionSlot) -> asyncio.Protocol:
        return RemotingConnection(self.backend, slot, self._monitor)


def _certificate(settings: Settings) -> Certificate | None:
    """The certificate for TLS beside plain text; None for plain text only."""
    if not (settings.remoting_tls and settings.tls_certificate):
        return None
    return Certificate(Pair(Path(settings.tls_certificate), Path(settings.tls_key)))


def _nothing() -> None:
    """Nothing to remove yet."""
