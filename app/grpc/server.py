"""RocketMQ's gRPC service behind its port, between `start` and `stop`.

It shares event loop, engine, users and limits with the HTTP server.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from app import eager
from app.container import Services
from app.grpc.backend import GrpcBackend
from app.grpc.client_directory import GrpcClientDirectory
from app.grpc.clients import GrpcClients
from app.grpc.leases import Leases
from app.grpc.service import MessagingService
from app.grpc.signature import GrpcSignatures
from app.tasks import end_tasks
from engine.errors import EngineError

log = logging.getLogger("kitemq.grpc")

TICK_S = 5.0


class GrpcServer:
    """Serves the calls of the port's connections with the application's `services`."""

    def __init__(self, services: Services, address: str, end: Callable[[str], bool]) -> None:
        """`address` is the port's address for clients; `end` ends the connection from another."""
        self._services = services
        self._end = end
        self._ticking: asyncio.Task[None] | None = None
        self._unlist: Callable[[], None] = _nothing
        self._signatures = GrpcSignatures(services.user_directory, services.access_keys)
        leases = Leases(services.messaging, services.host.clock)
        clients = GrpcClients(
            services.messaging,
            services.host.clock,
            services.transactions,
            leases,
            services.client_names,
            address_clients_max=services.settings.grpc_address_clients_max,
        )
        self.backend = GrpcBackend(services, clients, leases, address)
        self.service = MessagingService(self.backend, self._signatures, services.request_limits)

    def start(self) -> None:
        """Begin to serve."""
        self._unlist = self._services.connections.add_endpoint(
            GrpcClientDirectory(self.backend, self._end)
        )
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def stop(self) -> None:
        """End the clients' streams."""
        await end_tasks(self._ticking)
        self._unlist()
        self._unlist = _nothing
        self.backend.clients.close()

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
