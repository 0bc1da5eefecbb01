"""What all handlers of the door share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.grpc.call import GrpcCall
from app.grpc.clients import CLIENTS_MAX, GrpcClient, GrpcClients
from app.grpc.codes import GrpcRefusal
from app.grpc.leases import Leases
from app.grpc.quotas import AddressQuota
from app.host import EngineHost
from app.messaging import Messaging
from app.services.client_figures import ClientFigures
from app.services.rpc_figures import RpcFigures
from app.services.scheduled import ScheduledMessages
from app.services.transactions import Transactions
from app.settings import Settings
from engine.broker import Broker
from protocol.rocketmq.numbers import Code


@dataclass
class GrpcBackend:
    """One server's door."""

    host: EngineHost
    settings: Settings
    messaging: Messaging
    transactions: Transactions
    scheduled: ScheduledMessages
    clients: GrpcClients
    leases: Leases
    figures: RpcFigures
    activity: ClientFigures
    address: str = ""  # where the door listens, for clients that do not say where they called
    _polls: AddressQuota = field(init=False)
    _streams: AddressQuota = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self._polls = AddressQuota(
            "polls",
            each_max=settings.grpc_address_polls_max,
            all_max=settings.grpc_polls_max,
        )
        self._streams = AddressQuota(
            "telemetry streams",
            each_max=settings.grpc_address_clients_max,
            all_max=CLIENTS_MAX,
        )

    @property
    def broker(self) -> Broker:
        return self.host.broker

    @contextmanager
    def polling(self, call: GrpcCall, client: GrpcClient) -> Iterator[None]:
        """Count a poll while the context lasts; GrpcRefusal beyond the bounds."""
        each = self.settings.grpc_client_polls_max
        if client.polls >= each:
            raise GrpcRefusal(Code.TOO_MANY_REQUESTS, f"one client holds at most {each} polls")
        with _taken(self._polls, call):
            client.polls += 1
            self.figures.polls = self._polls.count
            try:
                yield
            finally:
                client.polls -= 1
                self.figures.polls = self._polls.count - 1

    @contextmanager
    def streaming(self, call: GrpcCall) -> Iterator[None]:
        """Count a telemetry stream while the context lasts; GrpcRefusal beyond the bounds."""
        with _taken(self._streams, call):
            yield


@contextmanager
def _taken(shares: AddressQuota, call: GrpcCall) -> Iterator[None]:
    if why_not := shares.take(call.origin.host):
        raise GrpcRefusal(Code.TOO_MANY_REQUESTS, why_not)
    try:
        yield
    finally:
        shares.give(call.origin.host)
