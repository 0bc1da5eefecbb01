"""What all handlers of the door share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.grpc.clients import Client, Clients
from app.grpc.codes import Refusal
from app.grpc.leases import Leases
from app.host import EngineHost
from app.services.rpc_figures import RpcFigures
from app.services.scheduled import ScheduledMessages
from app.services.sends import SendGate
from app.services.transactions import Transactions
from app.settings import Settings
from engine.broker import Broker
from protocol.rocketmq.numbers import Code


@dataclass
class Hub:
    """One server's door."""

    host: EngineHost
    settings: Settings
    sends: SendGate
    transactions: Transactions
    scheduled: ScheduledMessages
    clients: Clients
    leases: Leases
    figures: RpcFigures
    address: str = ""  # where the door listens, for clients that do not say where they called

    @property
    def broker(self) -> Broker:
        return self.host.broker

    @contextmanager
    def polling(self, client: Client) -> Iterator[None]:
        """A poll is held for as long as the context is; a Refusal beyond the bounds."""
        most, each = self.settings.grpc_polls_max, self.settings.grpc_client_polls_max
        if client.polls >= each:
            raise Refusal(Code.TOO_MANY_REQUESTS, f"one client holds at most {each} polls")
        if self.figures.polls >= most:
            raise Refusal(Code.TOO_MANY_REQUESTS, f"the server holds at most {most} polls")
        client.polls += 1
        self.figures.polls += 1
        try:
            yield
        finally:
            client.polls -= 1
            self.figures.polls -= 1
