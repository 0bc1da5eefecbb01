"""RocketMQ's gRPC service on its own port, between `start` and `stop`, beside the HTTP server.

It shares the event loop, the engine, the users and the limits with the HTTP doors.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

import grpc.aio

from app.grpc.certificate import context_of
from app.grpc.clients import Clients
from app.grpc.hub import Hub
from app.grpc.leases import Leases
from app.grpc.service import Service
from app.grpc.signature import Signatures
from app.grpc.splitter import LOOPBACK, Splitter
from app.settings import Settings

log = logging.getLogger("kitemq.grpc")

TICK_S = 5.0
KEEPALIVE_S = 30
KEEPALIVE_ANSWER_S = 20
PINGS_MIN_S = 5  # clients may ping as often as that
GRACE_S = 1.0  # for calls under way when the server stops


class GrpcDoor:
    """Serves on `listener`, which it closes at the end; `state` is the application's."""

    def __init__(self, state: Any, listener: socket.socket) -> None:
        settings: Settings = state.settings
        self._settings = settings
        self._state = state
        self._listener = listener
        self._server: Any = None
        self._splitter: Splitter | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._unlist: Callable[[], None] = _nothing
        self._signatures = Signatures(state.people, state.access_keys)
        leases = Leases(state.host)
        self.hub = Hub(
            state.host,
            settings,
            state.sends,
            state.transactions,
            state.scheduled,
            Clients(state.host, state.transactions, leases),
            leases,
            state.rpc_figures,
        )

    @property
    def address(self) -> str:
        """Where it listens, as "127.0.0.1:8081"."""
        return self.hub.address

    async def start(self) -> None:
        """Begin to serve. OSError, ssl.SSLError or ValueError where files cannot be used."""
        await asyncio.to_thread(self._state.access_keys.load)
        context = await asyncio.to_thread(self._context)
        host, port = self._listener.getsockname()[:2]
        self.hub.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._server = grpc.aio.server(options=self._options())
        service = Service(
            self.hub,
            self._signatures,
            self._state.load,
            lambda peer: self._splitter.origin_of(peer) if self._splitter else None,
        )
        self._server.add_generic_rpc_handlers((service.handler(),))
        inner_port = self._server.add_insecure_port(f"{LOOPBACK}:0")
        await self._server.start()
        self._splitter = Splitter(
            self._listener,
            inner_port,
            context,
            self.hub.figures,
            connections_max=self._settings.grpc_connections_max,
        )
        self._splitter.start()
        self._unlist = self._state.connections.add_door(self.hub.clients.connected)
        self._ticking = asyncio.get_running_loop().create_task(self._tick())
        log.info("RocketMQ clients are served on %s", self.address)

    async def stop(self) -> None:
        """Take no new connections, end streams, let calls end, then close."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
        if self._splitter is not None:
            await self._splitter.stop_accepting()
        self._unlist()
        self._unlist = _nothing
        self.hub.clients.close()
        if self._server is not None:
            await self._server.stop(GRACE_S)
        if self._splitter is not None:
            await self._splitter.stop()
        self._listener.close()

    def _context(self) -> ssl.SSLContext | None:
        settings = self._settings
        if not settings.grpc_tls:
            return None
        return context_of(
            settings.data, settings.grpc_tls_certificate, settings.grpc_tls_key, settings.host
        )

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
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", PINGS_MIN_S * 1000),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.max_metadata_size", 16 * 1024),
        ]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """What is due now and then: renew leases, let go of silent clients, count."""
        hub = self.hub
        try:
            hub.leases.tick()
            hub.clients.tick()
            hub.clients.identify(self._signatures.identify)
        except Exception:
            log.exception("a round of the gRPC door failed")
        hub.figures.clients = len(hub.clients)
        hub.figures.streams = hub.clients.stream_count
        hub.figures.leases = hub.leases.count


def _nothing() -> None:
    """Nothing was put into any list yet."""
