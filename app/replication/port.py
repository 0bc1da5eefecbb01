"""The port for standbys between `start` and `stop`."""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from app.container import Services
from app.db.sqlite_file import sqlite_file
from app.following import LeaderProfile
from app.network.acceptor import Acceptor
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import ConnectionMonitor
from app.replication.connection import StandbyConnection
from app.replication.database_copy import DatabaseFeed, remove_unfinished
from app.tls import Certificate, Pair
from engine.broker import Broker
from engine.events import Appended
from engine.host import host_text

log = logging.getLogger("kitemq.replication")


class StandbyPort:
    """Listens on `listener` and closes it at the end; `services` are the application's."""

    def __init__(
        self, services: Services, listener: socket.socket, monitor: ConnectionMonitor
    ) -> None:
        """`monitor` checks the connections; its owner starts and stops it."""
        settings = services.settings
        self._services, self._listener, self._monitor = services, listener, monitor
        self._acceptor: Acceptor | None = None
        self._news = asyncio.Event()
        self.secret, self.standbys_max = settings.ha_secret, settings.ha_standbys_max
        self.leadership = services.leadership
        self.standbys, self.limits = services.standbys, services.connection_limits
        self.handover = services.handover
        self.now_ms: Callable[[], int] = services.host.clock.now_ms
        self.address = host_text(*listener.getsockname()[:2])
        self._database = sqlite_file(settings.database)

    @property
    def broker(self) -> Broker:
        """The engine that is copied."""
        return self._services.host.broker

    def profile(self) -> LeaderProfile:
        """What standbys are told of this server."""
        settings, broker = self._services.settings, self._services.broker_address
        names = settings.broker_name, settings.cluster_name
        return LeaderProfile(*names, broker, must_flush=settings.replicated_flush)

    def database_feed(self, digest: str | None) -> DatabaseFeed | None:
        """What a standby with such a copy is given of the database.

        None where it wants none, or where PostgreSQL has it to replicate.
        """
        if self._database is None or digest is None:
            return None
        return DatabaseFeed(self._database, self._services.settings.data, digest)

    async def start(self) -> None:
        """Start listening; raises ValueError (such as TlsError) for an unusable certificate."""
        settings = self._services.settings
        await self.leadership.name_cluster()
        if self._database is not None:
            await asyncio.to_thread(remove_unfinished, self._database)
        certificate = None
        if settings.tls_certificate:
            pair = Pair(Path(settings.tls_certificate), Path(settings.tls_key))
            certificate = await asyncio.to_thread(Certificate, pair)
        self.broker.events.subscribe(self._on_append, (Appended,))
        self.standbys.wake = self._wake
        self._services.targets.own_ports.add(self._listener.getsockname()[1])
        self._acceptor = Acceptor(
            self._listener,
            self.limits,
            self._make_connection,
            certificate=certificate,
            handshake_s=settings.header_timeout_s,
            takes_plain=not settings.tls_required,
        )
        self._acceptor.start()
        log.info("standbys are served on %s", self.address)

    async def stop(self) -> None:
        """Stop accepting, and end all connections."""
        if self._acceptor is not None:
            await self._acceptor.stop()
        self._listener.close()
        for connection in tuple(self._monitor.connections):
            if isinstance(connection, StandbyConnection):
                await connection.stop()
        self.broker.events.unsubscribe(self._on_append)

    async def woken(self, wait_s: float) -> None:
        """Wait until messages were accepted, or for `wait_s`."""
        try:
            async with asyncio.timeout(wait_s):
                await self._news.wait()
        except TimeoutError:
            return

    def _on_append(self, _: Appended) -> None:
        if self.standbys.links:
            self._wake()

    def _wake(self) -> None:
        self._news.set()  # for those who wait now
        self._news.clear()

    def _make_connection(self, slot: ConnectionSlot) -> asyncio.Protocol:
        return StandbyConnection(self, slot, self._monitor)
