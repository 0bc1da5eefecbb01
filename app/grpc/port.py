"""The gRPC port: open from the start; its server is created for the first connection.

gRPC's library and its message classes take some 16 MiB and a third of a second, so they are loaded
only once a RocketMQ client connects, on a thread.
"""

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING

from app.container import Services
from app.grpc.certificate import certificate_of
from app.grpc.quotas import ConnectionQuota
from app.grpc.tls_mux import TlsMux
from app.tasks import end_tasks
from app.tls import Certificate
from engine.host import host_text

if TYPE_CHECKING:
    from app.grpc.server import GrpcServer

log = logging.getLogger("kitemq.grpc")

AGAIN_S = 10.0  # between attempts to create files that the disk has refused
FILES_SPARE = 64  # file descriptors that must be free when gRPC's library starts


class GrpcPort:
    """Listens on `listener` and closes it at the end; `services` are the application's."""

    def __init__(self, services: Services, listener: socket.socket) -> None:
        self._services = services
        self._settings = services.settings
        self._listener = listener
        self._tls_mux: TlsMux | None = None
        self._opening: asyncio.Future[GrpcServer] | None = None
        self._is_stopping = False
        self._certificate: Certificate | None = None
        self._upkeep: asyncio.Task[None] | None = None
        host, port = listener.getsockname()[:2]
        self.address = host_text(host, port)

    async def start(self) -> None:
        """Start listening; raises ValueError (such as TlsError) for an unusable configured file.

        A full disk is no reason to fail: creating the access keys and the self-signed certificate
        is retried. Until then the port serves neither access keys nor TLS.
        """
        self._services.targets.own_ports.add(self._listener.getsockname()[1])
        refused = await self._prepared()
        settings = self._settings
        shares = ConnectionQuota(
            self._services.connection_limits,
            each_max=settings.grpc_address_connections_max,
            all_max=settings.grpc_connections_max,
        )
        self._tls_mux = TlsMux(
            self._listener,
            self._inner_port,
            context=self._certificate.context if self._certificate else None,
            figures=self._services.rpc_figures,
            shares=shares,
            clock_s=self._services.host.clock.monotonic_s,
            budget=self._services.request_limits.budget,
            is_plain_refused=settings.tls_required,
        )
        self._tls_mux.start()
        self._upkeep = asyncio.create_task(self._keep_up(refused))
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
        await end_tasks(self._upkeep)
        if self._tls_mux is not None:
            self._tls_mux.stop_accepting()
        self._listener.close()
        opening, self._opening = self._opening, None
        if opening is not None:
            (server,) = await asyncio.gather(opening, return_exceptions=True)
            if not isinstance(server, BaseException):
                await server.stop()
        if self._tls_mux is not None:
            await self._tls_mux.stop()

    async def _inner_port(self) -> int:
        return (await self.opened()).inner_port

    async def _open(self) -> "GrpcServer":
        assert self._tls_mux is not None, "the port was started"
        _check_files()
        server_class = await asyncio.to_thread(_server_class)
        _check_files()
        server = server_class(self._services, self.address, self._tls_mux)
        await server.start()
        self._services.targets.own_ports.add(server.inner_port)
        return server

    async def _prepared(self) -> str:
        """Read or create the port's files; returns the reason of a failure, or ""."""
        try:
            await asyncio.to_thread(self._services.access_keys.load)
            if self._settings.grpc_tls and self._certificate is None:
                self._certificate = await asyncio.to_thread(certificate_of, self._settings)
        except OSError as error:
            return str(error)
        return ""

    async def _keep_up(self, refused: str) -> None:
        """Retry creating files, then reload the certificate when it changes."""
        if refused:
            log.error(
                "the gRPC port serves no access keys and no TLS until its files can be kept: %s",
                refused,
            )
        while refused:
            await asyncio.sleep(AGAIN_S)
            try:
                refused = await self._prepared()
            except ValueError as error:
                log.error("the gRPC port serves no TLS: %s", error)
                return
            if not refused:
                log.info("the gRPC port has its files now")
        if self._certificate is not None and self._tls_mux is not None:
            self._tls_mux.context = self._certificate.context
            await self._certificate.keep_fresh()


def _check_files() -> None:
    """Raise OSError unless FILES_SPARE can be opened: gRPC's library ends the process instead."""
    spare: list[int] = []
    try:
        while len(spare) < FILES_SPARE:
            spare.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for each in spare:
            os.close(each)


def _server_class() -> "type[GrpcServer]":
    """Load the server's class with gRPC's library, which takes long."""
    # The library writes lines of its own to the standard error stream, as many as a stranger likes.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from app.grpc.server import GrpcServer

    return GrpcServer
