"""RocketMQ's gRPC service behind its port, between `start` and `stop`.

It shares event loop, engine, users and limits with the HTTP server.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio

from app import eager
from app.container import Services
from app.grpc.backend import GrpcBackend
from app.grpc.client_directory import GrpcClientDirectory
from app.grpc.clients import GrpcClients
from app.grpc.leases import Leases
from app.grpc.service import MessagingService
from app.grpc.signature import GrpcSignatures
from app.grpc.tls_mux import LOOPBACK, TlsMux
from engine.errors import EngineError

log = logging.getLogger("kitemq.grpc")

TICK_S = 5.0
# A silent connection is pinged, and ends without an answer: a dead peer is detected within 45 s.
KEEPALIVE_S = 15
KEEPALIVE_ANSWER_S = 15
PINGS_MIN_S = 5  # clients may ping as often as that
PREFACE_S = 10  # for a connection's first frames
UNREAD_BYTES_MAX = 65_535  # of each call, before it is authenticated
GRACE_S = 1.0  # for calls under way when the server stops


class GrpcServer:
    """Serves the connections of the TLS mux with the application's `services`."""

    def __init__(self, services: Services, address: str, tls_mux: TlsMux) -> None:
        """`address` is the port's address for clients; `tls_mux` relays their connections."""
        settings = services.settings
        self._settings = settings
        self._services = services
        self._server: Any = None
        self._tls_mux = tls_mux
        self._ticking: asyncio.Task[None] | None = None
        self._unlist: Callable[[], None] = _nothing
        self._signatures = GrpcSignatures(services.user_directory, services.access_keys)
        self.inner_port = 0
        leases = Leases(services.messaging, services.host.clock)
        clients = GrpcClients(
            services.messaging,
            services.host.clock,
            services.transactions,
            leases,
            services.client_names,
            address_clients_max=settings.grpc_address_clients_max,
        )
        self.backend = GrpcBackend(services, clients, leases, address)

    async def start(self) -> None:
        """Begin to serve on `inner_port`."""
        self._server = grpc.aio.server(options=self._options())
        service = MessagingService(
            self.backend, self._signatures, self._services.request_limits, self._tls_mux.origin_of
        )
        self._server.add_generic_rpc_handlers((service.handler(),))
        self.inner_port = self._server.add_insecure_port(f"{LOOPBACK}:0")
        await self._server.start()
        self._unlist = self._services.connections.add_endpoint(
            GrpcClientDirectory(self.backend, self._tls_mux.end)
        )
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def stop(self) -> None:
        """End streams, let calls end, then close."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
        self._unlist()
        self._unlist = _nothing
        self.backend.clients.close()
        if self._server is not None:
            await self._server.stop(GRACE_S)

    def _options(self) -> list[tuple[str, int]]:
        settings = self._settings
        return [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", settings.request_bytes_max),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", settings.grpc_connection_calls_max),
            ("grpc.max_connection_idle_ms", round(settings.grpc_idle_s * 1000)),
            ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_ANSWER_S * 1000),
            ("grpc.http2.ping_timeout_ms", KEEPALIVE_ANSWER_S * 1000),  # else a minute at least
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", PINGS_MIN_S * 1000),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.server_handshake_timeout_ms", PREFACE_S * 1000),
            ("grpc.max_metadata_size", 16 * 1024),
            # Bounds what arrives of a request before it is read: the default would be MiB on fast
            # connections.
            ("grpc.http2.lookahead_bytes", UNREAD_BYTES_MAX),
            ("grpc.http2.bdp_probe", 0),
        ]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                async for _ in self.steps():
                    await asyncio.sleep(0)
            except Exception:
                log.exception("a round of the gRPC server failed")

    def tick(self) -> None:
        """A whole round of `steps` at once."""
        eager.run(self._round(), _ended)

    async def _round(self) -> None:
        async for _ in self.steps():
            continue

    async def steps(self) -> AsyncIterator[None]:
        """Periodic work in parts: renew leases, remove dead clients, update figures."""
        backend = self.backend
        self._tls_mux.grow_older()
        for _ in backend.clients.steps():
            yield
        async for _ in backend.leases.steps():
            yield
        for _ in backend.clients.check_streams(self._signatures.identify):
            yield
        backend.figures.clients = len(backend.clients)
        backend.figures.streams = backend.clients.stream_count
        backend.figures.leases = backend.leases.count


def _ended(_: None, error: EngineError | None) -> None:
    if error is not None:
        raise error


def _nothing() -> None:
    """Nothing to remove yet."""
