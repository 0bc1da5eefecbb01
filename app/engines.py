"""The place that chooses what is behind a server: the embedded engine, or a RocketMQ cluster."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from app.administration import Administration
from app.db.worker import DatabaseWorker
from app.engine_administration import EngineAdministration
from app.engine_messaging import EngineMessaging
from app.host import EngineHost
from app.messaging import Messaging
from app.server_host import RollSource, ServerHost
from app.services.search import SearchService
from app.settings import Settings
from engine.clock import Clock


class BackgroundWork(Protocol):
    """What a service does by itself, between `start` and `stop`."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class Engine(NamedTuple):
    """A host, the verbs by which messages, topics and groups are reached while it runs, and the
    work that goes on beside them.
    """

    host: ServerHost
    messaging: Messaging
    administration: Administration
    search: SearchService
    background: Sequence[BackgroundWork] = ()


def engine_of(settings: Settings, clock: Clock, database: DatabaseWorker) -> Engine:
    """What the settings name; nothing is opened before the host starts."""
    if settings.rocketmq:
        return _cluster(settings, clock, database)
    host = EngineHost(settings, clock=clock, leader=settings.follow)
    administration = EngineAdministration(host)
    search = SearchService(host, administration)
    return Engine(host, EngineMessaging(host), administration, search)


def _cluster(settings: Settings, clock: Clock, database: DatabaseWorker) -> Engine:
    from app.cluster.administration import ClusterAdministration  # only where there is one
    from app.cluster.client import ClusterClient
    from app.cluster.host import ClusterHost
    from app.cluster.messaging import ClusterMessaging
    from app.cluster.search import ClusterSearch

    client = ClusterClient(
        settings.rocketmq,
        access_key=settings.rocketmq_access_key,
        secret_key=settings.rocketmq_secret_key,
    )
    messaging = ClusterMessaging(
        client,
        auto_create=settings.auto_create_topics,
        default_queues=settings.default_queues,
        clock=clock,
        folder=settings.data,
        requests_waiting_max=settings.requests_waiting_max,
    )
    administration = ClusterAdministration(messaging.catalog, database, clock)
    keys = {
        "ROCKETMQ_ACCESS_KEY": settings.rocketmq_access_key,
        "ROCKETMQ_SECRET_KEY": settings.rocketmq_secret_key,
    }
    source = RollSource(("--rocketmq", settings.rocketmq), keys)
    host = ClusterHost(settings, messaging, administration, roll_source=source, clock=clock)
    search = ClusterSearch(host, messaging, administration)
    return Engine(host, messaging, administration, search, (administration.runner,))
