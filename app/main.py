"""The application put together: what it holds, in which order it starts and stops."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.catalog import HOT, OPERATIONS
from app.api.framework import docs
from app.api.framework.fast_lane import FastLane
from app.api.framework.openapi import describe
from app.api.framework.operation import routes_of
from app.api.transactions import check_document
from app.db.worker import DatabaseWorker
from app.errors import problem_answer
from app.heartbeat import Heartbeat
from app.host import EngineHost
from app.network.files import file_shares, files_max
from app.network.places import Places, trusted_by
from app.security.access_keys import AccessKeys
from app.security.accounts import Accounts
from app.security.byte_budget import ByteBudget, ByteLimits
from app.security.client_names import ClientNames
from app.security.doorman import Doorman
from app.security.gate import Gate
from app.security.load import Load
from app.security.oidc.login import ProviderLogin
from app.security.people import People
from app.security.refusals import Refusals
from app.security.trimming import Trimming
from app.services.alerts.alerts import Alerts
from app.services.audit import Audit
from app.services.audit_keeping import AuditKeeping
from app.services.client_figures import ClientFigures
from app.services.clients import Clients
from app.services.connections import Connections
from app.services.dismissals import Dismissals
from app.services.exposure import plain_ports, warn_of_plain
from app.services.groups import Groups
from app.services.journeys import Journeys
from app.services.log_levels import LogLevels, LogRing
from app.services.marks import TopicMarks
from app.services.read_only import ReadOnlySwitch
from app.services.remoting_figures import RemotingFigures
from app.services.replay_copies import ReplayCopies
from app.services.replays import Replays
from app.services.reports.reports import Reports
from app.services.reports.results import Results
from app.services.requests import Requests
from app.services.resets import Resets
from app.services.retention import Purges
from app.services.rpc_figures import RpcFigures
from app.services.scheduled import ScheduledMessages
from app.services.search import Search
from app.services.self_checks import SelfChecks
from app.services.sends import SendGate
from app.services.targets import Targets
from app.services.topic_imports import TopicImports
from app.services.topics import Topics
from app.services.transactions import Transactions
from app.services.views import Views
from app.settings import Settings, is_loopback
from app.ui.framework.console import Console
from app.ui.routes import router as console
from app.version import VERSION
from app.ws import endpoint as socket
from engine.clock import Clock, SystemClock
from engine.errors import EngineError

log = logging.getLogger("kitemq")


class Application(FastAPI):
    """FastAPI with the gate, and the short way behind it, in front of its own layers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        await self.gate(scope, receive, send)

    def set_gate(self, settings: Settings, load: Load, doorman: Doorman) -> None:
        """Build what every request passes first."""
        lane = FastLane(super().__call__, operations=HOT)
        self.gate = Gate(
            lane, settings=settings, load=load, doorman=doorman, refusals=self.state.refusals
        )


def create_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    origins: Mapping[str, str] = MappingProxyType({}),
) -> FastAPI:
    """The application; its lifespan opens the data directory, the engine and the database.

    `origins` says by name which settings were given, and where.

    While the lifespan runs, `app.state` holds `host` (EngineHost), `settings`, the services
    `topics`, `groups` and `audit`, and `console`.
    """
    clock = clock or SystemClock()
    load = Load(
        ByteBudget(byte_limits(settings)),
        client_requests_max=settings.client_requests_max,
        requests_max=settings.requests_max,
        request_bytes_max=settings.request_bytes_max,
    )
    app = Application(
        title="KiteMQ",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Asking the environment at every request whether to trace it costs a tenth of a request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        lifespan=_lifespan,
        exception_handlers={HTTPException: _answer_error, Exception: _answer_error},
    )
    app.state.settings = settings
    app.state.origins = origins
    app.state.log_ring = LogRing()
    app.state.load = load
    app.state.places = Places(
        settings,
        file_shares(settings, settings.open_files_max, files_max()),
        clock.monotonic_s,
        is_trusted=trusted_by(getattr(settings, "trusted_proxies", ())),
    )
    app.state.host = EngineHost(settings, clock=clock)
    document = describe(OPERATIONS)
    app.openapi = lambda: document  # type: ignore[method-assign]
    app.router.routes += routes_of(OPERATIONS)
    app.router.routes += socket.routes
    app.router.routes += docs.routes(document, OPERATIONS)
    app.router.routes += console.routes
    database = DatabaseWorker(settings.database)
    people = People(database, clock, settings)
    app.state.database = database
    app.state.people = people
    app.state.access_keys = AccessKeys(settings.data)
    app.state.rpc_figures = RpcFigures()
    app.state.remoting_figures = RemotingFigures()
    app.state.doorman = Doorman(people)
    app.state.refusals = Refusals(database, clock)
    app.state.accounts = Accounts(database, people, clock, settings, app.state.refusals)
    app.state.provider_login = ProviderLogin(settings, app.state.accounts, clock)
    app.set_gate(settings, load, app.state.doorman)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start: engine, then who listens to it, then the database. Stop in the opposite order."""
    state = app.state
    settings: Settings = state.settings
    host: EngineHost = state.host
    state.log_ring.attach()
    warn_of_plain(settings)
    try:
        await host.start()
    except EngineError as error:
        log.critical("KiteMQ cannot start: %s. %s", error.detail, error.remedy)
        raise
    except Exception:
        log.critical("KiteMQ cannot start", exc_info=True)
        raise
    try:
        state.targets = Targets(settings)
        state.started_ms = host.clock.now_ms()
        state.sends = SendGate(host)
        state.heartbeat = Heartbeat()
        state.trimming = Trimming()
        state.connections = Connections()
        state.client_names = ClientNames(host.broker.members.is_alive)
        state.client_figures = ClientFigures(host.broker.members.count)
        host.broker.events.subscribe(state.client_figures.hear)
        state.audit = Audit(state.database, host.clock, state.refusals.flush)
        state.audit_keeping = AuditKeeping(state.database, host.clock, settings)
        state.log_levels = LogLevels(state.audit)
        state.read_only = ReadOnlySwitch(
            settings.data,
            state.audit,
            host.clock,
            by_setting=settings.read_only,
            freeze=state.people.freeze,
        )
        state.read_only.load()
        state.self_checks = SelfChecks(
            host,
            state.database,
            settings.data,
            loop_late_s=lambda: state.heartbeat.worst_s,
            is_exposed=lambda: state.people.is_open and not is_loopback(settings.host),
            connections=state.places.state,
            plain_ports=plain_ports(settings),
        )
        state.clients = Clients(host, state.connections, state.audit)
        state.reports = Reports(host, state.audit, state.database, settings)
        state.alerts = Alerts(
            host,
            state.audit,
            state.database,
            state.reports,
            urls=settings.alert_webhooks,
            secret=settings.alert_webhook_secret,
            targets=state.targets,
            environment=settings.environment,
        )
        state.topics = Topics(host, state.audit)
        state.topic_imports = TopicImports(host, state.topics, settings.default_queues)
        state.purges = Purges(host, state.audit)
        state.groups = Groups(host, state.audit)
        state.resets = Resets(host, state.audit)
        state.search = Search(host)
        state.journeys = Journeys(host, state.search)
        state.replays = Replays(host, state.audit)
        state.replay_copies = ReplayCopies(host, state.database)
        state.report_results = Results(state.reports, state.database, settings)
        state.views = Views(state.database, host.clock)
        state.marks = TopicMarks(host, state.database)
        state.dismissals = Dismissals(host, state.audit)
        state.requests = Requests(host)
        state.scheduled = ScheduledMessages(host, state.audit)
        state.transactions = Transactions(host, state.audit, state.targets, document=check_document)
        state.console = Console(
            host,
            environment=settings.environment,
            version=VERSION,
            environment_color=settings.environment_color,
        )
        async with state.console.opened():
            state.heartbeat.start()
            state.trimming.start()
            state.database.start()
            state.audit_keeping.start()
            state.transactions.start()
            state.alerts.start()
            state.replay_copies.start()
            state.reports.start()
            try:
                await state.people.start()
                await state.accounts.bootstrap(settings.admin_name, settings.admin_password)
                yield
            finally:
                state.heartbeat.stop()
                await state.trimming.stop()
                state.accounts.close()
                await state.provider_login.close()
                await state.people.stop()
                await state.reports.stop()
                await state.replay_copies.stop()
                await state.alerts.stop()
                await state.transactions.stop()
                await state.audit_keeping.stop()
                await state.self_checks.close()
                await state.refusals.close()
                state.log_levels.restore()
                await state.database.close()
    finally:
        await host.stop(settings.stop_timeout_s)
        state.log_ring.detach()


def byte_limits(settings: Settings) -> ByteLimits:
    """The shares of the memory for requests; 0 stands for a half, yet room for one request."""
    half = max(settings.inflight_bytes_max // 2, settings.request_bytes_max)
    address_max = settings.inflight_address_bytes_max or half
    return ByteLimits(
        all_max=settings.inflight_bytes_max,
        address_max=address_max,
        caller_max=settings.inflight_caller_bytes_max or half,
        connection_max=max(address_max // 2, settings.request_bytes_max),
    )


async def _answer_error(request: Request, error: Exception) -> Response:
    """The problem body for what the router refuses, and for what a page did not expect."""
    status, headers, body = problem_answer(error)
    return Response(body, status, {name.decode(): value.decode() for name, value in headers})
