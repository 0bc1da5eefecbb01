# Made from kitemq/async_client.py by `python -m tools.synchronous`: change that file.
"""The REST interface for threads: administration, pull, and consuming without a connection."""

from types import TracebackType
from typing import Self

from kitemq.api.access import AccessApi
from kitemq.api.alerts import AlertsApi
from kitemq.api.clients import ClientsApi
from kitemq.api.connection import RestConnection
from kitemq.api.dead_letters import DeadLettersApi
from kitemq.api.deliveries import DeliveriesApi
from kitemq.api.groups import GroupsApi
from kitemq.api.members import MembersApi
from kitemq.api.messages import MessagesApi
from kitemq.api.replays import ReplaysApi
from kitemq.api.reports import ReportsApi
from kitemq.api.scheduled import ScheduledApi
from kitemq.api.server import ServerApi
from kitemq.api.statistics import StatisticsApi
from kitemq.api.topics import TopicsApi
from kitemq.api.traces import TracesApi
from kitemq.api.transactions import TransactionsApi
from kitemq.api.views import ViewsApi
from kitemq.rest import TIMEOUT_S


class Client:
    """Talks REST to one server from any thread; close it after use (or `with`).

    Each attribute has the operations of one resource: `client.topics.create("orders")`. Results are
    structs of `kitemq.model`. Every operation raises Invalid, NotFound, Refused or Busy as the
    server says, Unreachable where there is no server, and TimedOut where no answer came within
    `timeout_s` (plus any wait asked for). `ca` is a PEM file of the authorities to trust, else
    KITEMQ_CA, else the system's.
    """

    def __init__(self, server: str = "", *, timeout_s: float = TIMEOUT_S, ca: str = "") -> None:
        self._rest = rest = RestConnection(server, timeout_s=timeout_s, ca=ca)
        self.topics = TopicsApi(rest)
        self.groups = GroupsApi(rest)
        self.members = MembersApi(rest)
        self.clients = ClientsApi(rest)
        self.messages = MessagesApi(rest)
        self.deliveries = DeliveriesApi(rest)
        self.dead_letters = DeadLettersApi(rest)
        self.replays = ReplaysApi(rest)
        self.scheduled = ScheduledApi(rest)
        self.transactions = TransactionsApi(rest)
        self.traces = TracesApi(rest)
        self.statistics = StatisticsApi(rest)
        self.reports = ReportsApi(rest)
        self.alerts = AlertsApi(rest)
        self.access = AccessApi(rest)
        self.views = ViewsApi(rest)
        self.server = ServerApi(rest)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._rest.url

    def close(self) -> None:
        """Close the connection."""
        self._rest.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
