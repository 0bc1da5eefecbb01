"""The port for classic clients between `start` and `stop`: name server and broker in one.

It shares event loop, engine, users and limits with the other ports.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from app.container import Services
from app.network.acceptor import Acceptor
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import ConnectionMonitor
from app.remoting.backend import RemotingBackend
from app.remoting.client_directory import RemotingClientDirectory
from app.remoting.clients import RemotingClients
from app.remoting.connection import RemotingConnection
from app.remoting.request_modes import RequestModes
from app.remoting.signature import RemotingSignatures
from app.settings import Settings
from app.tls import Certificate, Pair
from engine.host import host_text

log = logging.getLogger("kitemq.remoting")


class RemotingPort:
    """Listens on `listener` and closes it at the end; `services` are the application's."""

    def __init__(
        self, services: Services, listener: socket.socket, monitor: ConnectionMonitor
    ) -> None:
        """`monitor` checks the connections; its owner starts and stops it."""
        self._services = services
        self._listener = listener
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
        self.backend = RemotingBackend(services, clients, signatures, figures, modes)
        self._acceptor: Acceptor | None = None
        self._unlist: Callable[[], None] = _nothing
        self.address = host_text(*listener.getsockname()[:2])

    async def start(self) -> None:
        """Start listening; raises ValueError (such as TlsError) for an unusable certificate."""
        settings = self._services.settings
        self._services.targets.own_ports.add(self._listener.getsockname()[1])
        try:
            await asyncio.to_thread(self._services.access_keys.load)
        except OSError as error:
            log.error("the remoting port serves no access keys: %s", error)
        await asyncio.to_thread(self.backend.request_modes.load)
        certificate = await asyncio.to_thread(_certificate, settings)
        self._services.host.broker.events.subscribe(self.backend.clients.on_event)
        self._unlist = self._services.connections.add_endpoint(
            RemotingClientDirectory(self.backend.clients)
        )
        self._acceptor = Acceptor(
            self._listener,
            self._services.connection_limits,
            self._make_connection,
            certificate=certificate,
            handshake_s=settings.header_timeout_s,
            takes_plain=not settings.tls_required,
        )
        self._acceptor.start()
        log.info("classic RocketMQ clients are served on %s", self.address)

    async def stop(self) -> None:
        """Stop accepting, answer pending requests, then close all connections."""
        if self._acceptor is not None:
            await self._acceptor.stop()
        self._listener.close()
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
