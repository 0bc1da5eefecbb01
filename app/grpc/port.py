"""The gRPC port: plain text and TLS on one port, by a connection's first byte.

Its server is created for the first connection: the classes of the messages take 8 MiB and some
time, so they are loaded only once a RocketMQ client connects, on a thread. Connections are not read
from until then.
"""

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from app.container import Services
from app.grpc.certificate import certificate_of
from app.grpc.http2_connection import Http2Connection
from app.grpc.quotas import ConnectionQuota
from app.network.acceptor import Acceptor
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import ConnectionMonitor
from app.tasks import end_tasks
from engine.host import host_text

if TYPE_CHECKING:
    from app.grpc.server import GrpcServer

log = logging.getLogger("kitemq.grpc")

AGAIN_S = 10.0  # between attempts to create files that the disk has refused
GRACE_S = 1.0  # for calls under way when the port stops


class GrpcPort:
    """Listens on `listener` and closes it at the end; `services` are the application's."""

    def __init__(
        self, services: Services, listener: socket.socket, monitor: ConnectionMonitor
    ) -> None:
        """`monitor` checks the connections; its owner starts and stops it."""
        self._services = services
        self._listener = listener
        self.host = services.host
        self.settings = settings = services.settings
        self.budget = services.request_limits.budget
        self.monitor = monitor
        self._shares = ConnectionQuota(
            services.connection_limits,
            services.rpc_figures,
            each_max=settings.grpc_address_connections_max,
            all_max=settings.grpc_connections_max,
        )
        self._connections: set[Http2Connection] = set()
        self._acceptor: Acceptor | None = None
        self._opening: asyncio.Future[GrpcServer] | None = None
        self._is_stopping = False
        self._retrying: asyncio.Task[None] | None = None
        host, port = listener.getsockname()[:2]
        self.address = host_text(host, port)

    async def start(self) -> None:
        """Start listening; raises ValueError (such as TlsError) for an unusable configured file.

        A full disk is no reason to fail: creating the access keys and the self-signed certificate
        is retried. Until then the port serves neither access keys nor TLS.
        """
        self._services.targets.own_ports.add(self._listener.getsockname()[1])
        self._acceptor = Acceptor(
            self._listener,
            self._shares,
            self._make_connection,
            certificate=None,
            handshake_s=self.settings.header_timeout_s,
            takes_plain=not self.settings.tls_required,
        )
        refusal = await self._prepare(self._acceptor)
        self._acceptor.start()
        if refusal:
            self._retrying = asyncio.create_task(self._retry(self._acceptor, refusal))
        log.info("RocketMQ clients are served on %s", self.address)

    async def opened(self) -> "GrpcServer":
        """The server behind the port, created if needed; after a failure it is tried again.

        Raises ConnectionAbortedError once the port stops, as nothing would stop a new server.
        """
        if self._is_stopping:
            raise ConnectionAbortedError("the gRPC port stops")
        opening = self._opening
        if opening is None or (opening.done() and opening.exception() is not None):
            opening = self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(opening)

    async def stop(self) -> None:
        """Stop accepting, end streams and calls, then close.

        A server that is being created is awaited, as it could not be stopped half-way.
        """
        self._is_stopping = True
        await end_tasks(self._retrying)
        if self._acceptor is not None:
            await self._acceptor.stop()
        self._listener.close()
        opening, self._opening = self._opening, None
        if opening is not None:
            (server,) = await asyncio.gather(opening, return_exceptions=True)
            if not isinstance(server, BaseException):
                await server.stop()
        await self._end_connections()

    def connected(self, connection: Http2Connection) -> None:
        """Serve a new connection as soon as the server is there."""
        self._connections.add(connection)
        self._services.rpc_figures.connections = len(self._connections)
        opening = self._opening
        if opening is not None and opening.done() and opening.exception() is None:
            connection.serve(opening.result().service.begin)
        else:
            connection.begin_task(self._serve_later(connection))

    def disconnected(self, connection: Http2Connection) -> None:
        self._connections.discard(connection)
        self._services.rpc_figures.connections = len(self._connections)

    def _make_connection(self, slot: ConnectionSlot) -> asyncio.Protocol:
        return Http2Connection(self, slot)

    def _end(self, address: str) -> bool:
        """End the connection from an address; False if there is none."""
        for connection in self._connections:
            if connection.origin.client == address:
                connection.close()
                return True
        return False

    async def _serve_later(self, connection: Http2Connection) -> None:
        try:
            server = await self.opened()
        except Exception as error:
            if not self._is_stopping:
                log.warning("a connection cannot be served: %s", error, exc_info=error)
            connection.transport.abort()
        else:
            connection.serve(server.service.begin)

    async def _end_connections(self) -> None:
        """Let calls under way end, for a while."""
        for connection in tuple(self._connections):
            connection.finish()
        ends = [connection.closed for connection in self._connections]
        if ends:
            await asyncio.wait(ends, timeout=GRACE_S)
        for connection in tuple(self._connections):
            connection.transport.abort()
        await asyncio.gather(*ends)

    async def _open(self) -> "GrpcServer":
        server_class = await asyncio.to_thread(_server_class)
        server = server_class(self._services, self.address, self._end)
        server.start()
        return server

    async def _prepare(self, acceptor: Acceptor) -> str:
        """Read or create the port's files; returns the reason of a failure, or ""."""
        try:
            await asyncio.to_thread(self._services.access_keys.load)
            if self.settings.grpc_tls and not acceptor.has_certificate:
                acceptor.use(await asyncio.to_thread(certificate_of, self.settings))
        except OSError as error:
            return str(error)
        return ""

    async def _retry(self, acceptor: Acceptor, refusal: str) -> None:
        """Retry creating the files."""
        log.error(
            "the gRPC port serves no access keys and no TLS until its files can be kept: %s",
            refusal,
        )
        while refusal:
            await asyncio.sleep(AGAIN_S)
            try:
                refusal = await self._prepare(acceptor)
            except ValueError as error:
                log.error("the gRPC port serves no TLS: %s", error)
                return
        log.info("the gRPC port has its files now")


def _server_class() -> "type[GrpcServer]":
    """Load the server's class with the classes of the messages, which takes long."""
    from app.grpc.server import GrpcServer

    return GrpcServer
