"""State that all gRPC handlers share."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.container import Services
from app.grpc.call import GrpcCall
from app.grpc.clients import CLIENTS_MAX, GrpcClient, GrpcClients
from app.grpc.codes import GrpcRefusal
from app.grpc.leases import Leases
from app.grpc.quotas import AddressQuota
from protocol.rocketmq.numbers import Code


class GrpcBackend:
    """The gRPC endpoint of one server."""

    def __init__(
        self, services: Services, clients: GrpcClients, leases: Leases, address: str = ""
    ) -> None:
        """`address` is that of the port, for clients that send no endpoints."""
        self.services, self.clients, self.leases = services, clients, leases
        self.address = address
        self.host, self.messaging = services.host, services.messaging
        self.figures = services.rpc_figures
        self.settings = settings = services.settings
        self._polls = AddressQuota(
            "polls", each_max=settings.grpc_address_polls_max, all_max=settings.grpc_polls_max
        )
        self._streams = AddressQuota(
            "telemetry streams", each_max=settings.grpc_address_clients_max, all_max=CLIENTS_MAX
        )

    @contextmanager
    def polling(self, call: GrpcCall, client: GrpcClient) -> Iterator[None]:
        """Count a poll during the context; raises GrpcRefusal beyond the limits."""
        each = self.settings.grpc_client_polls_max
        if client.polls >= each:
            raise GrpcRefusal(Code.TOO_MANY_REQUESTS, f"one client holds at most {each} polls")
        with _slot(self._polls, call):
            client.polls += 1
            self.figures.polls = self._polls.count
            try:
                yield
            finally:
                client.polls -= 1
                self.figures.polls = self._polls.count - 1

    @contextmanager
    def streaming(self, call: GrpcCall) -> Iterator[None]:
        """Count a telemetry stream during the context; raises GrpcRefusal beyond the limits."""
        with _slot(self._streams, call):
            yield


@contextmanager
def _slot(shares: AddressQuota, call: GrpcCall) -> Iterator[None]:
    if why_not := shares.take(call.origin.host):
        raise GrpcRefusal(Code.TOO_MANY_REQUESTS, why_not)
    try:
        yield
    finally:
        shares.give(call.origin.host)
