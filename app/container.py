"""The application's services, each with its type: what endpoints and pages reach, and their order.

Those of `Services.__init__` exist before the server starts, the others while `running` is held.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from starlette.types import Scope

from app.db.worker import DatabaseWorker
from app.engines import BackgroundWork, engine_of
from app.following import Following
from app.heartbeat import Heartbeat
from app.host import EngineHost
from app.monitoring.meter import Meter
from app.monitoring.sampler import Sampler
from app.network.connection_limits import ConnectionLimits
from app.network.open_files import file_shares, files_max
from app.security.access_keys import AccessKeys
from app.security.accounts import Accounts
from app.security.authenticator import Authenticator
from app.security.byte_budget import ByteBudget, ByteLimits
from app.security.client_names import ClientNames
from app.security.memory_trimmer import MemoryTrimmer
from app.security.oidc.login import ProviderLogin
from app.security.proxies import TrustedProxies
from app.security.refusal_audit import RefusalAudit
from app.security.request_limits import RequestLimits
from app.security.user_directory import UserDirectory
from app.services.alerts.alerts import Alerts
from app.services.audit import Audit
from app.services.audit_pruning import AuditPruner
from app.services.client_figures import ClientFigures
from app.services.clients import Clients
from app.services.connections import Connections
from app.services.dismissals import Dismissals
from app.services.exposure import plain_ports, warn_of_plain
from app.services.group_members import MixedGroups
from app.services.groups import Groups
from app.services.handover import Handover
from app.services.journeys import Journeys
from app.services.leadership import Leadership
from app.services.log_levels import LogLevels, LogRing
from app.services.member_queues import MemberQueueLists
from app.services.message_imports import MessageImports
from app.services.read_only import ReadOnlySwitch
from app.services.remoting_figures import RemotingFigures
from app.services.replay_copies import ReplayCopies
from app.services.replays import Replays
from app.services.reports.reports import Reports
from app.services.reports.results import ReportResults
from app.services.resets import Resets
from app.services.retention import Purges
from app.services.rpc_figures import RpcFigures
from app.services.scheduled import ScheduledMessages
from app.services.self_checks import SelfChecks
from app.services.standbys import Standbys
from app.services.stars_and_notes import StarsAndNotes
from app.services.targets import Targets
from app.services.templates import ProduceTemplates
from app.services.topic_imports import TopicImports
from app.services.topics import Topics
from app.services.transactions import Transactions
from app.services.views import Views
from app.settings import Settings, is_loopback
from engine.broker import TransactionCheck
from engine.clock import Clock
from engine.errors import EngineError
from engine.events import MemberJoined, MemberLeft

log = logging.getLogger("kitemq")


class Services:
    """All services of one server."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        origins: Mapping[str, str],
        *,
        check_document: Callable[[TransactionCheck], bytes],
    ) -> None:
        """`origins` says by name which settings were given, and where.

        `check_document` is the body that callbacks of transaction checks are sent.
        """
        self.settings = settings
        self.origins = origins
        self.log_ring = LogRing()
        self.request_limits = RequestLimits(
            ByteBudget(byte_limits(settings)),
            client_requests_max=settings.client_requests_max,
            requests_max=settings.requests_max,
            request_bytes_max=settings.request_bytes_max,
        )
        self.connection_limits = ConnectionLimits(
            settings,
            file_shares(settings, settings.open_files_max, files_max()),
            clock.monotonic_s,
            is_trusted=TrustedProxies(getattr(settings, "trusted_proxies", ())).trusts,
        )
        self.database = DatabaseWorker(settings.database)
        engine = engine_of(settings, clock, self.database)
        self.host, self.messaging, self.administration, self.search, self._work = engine
        self.following = Following(settings.follow)
        self.user_directory = UserDirectory(self.database, clock, settings)
        self.access_keys = AccessKeys(settings.data)
        self.rpc_figures = RpcFigures()
        self.remoting_figures = RemotingFigures()
        self.standbys = Standbys()
        self.broker_address = ""  # of `LeaderProfile`, once the port of classic clients is open
        self.leadership = Leadership(settings.data, self.host, self.following)
        self.handover = Handover(self.leadership, self.host, self.standbys, settings)
        self.authenticator = Authenticator(self.user_directory)
        self.refusal_audit = RefusalAudit(self.database, clock)
        self.accounts = Accounts(
            self.database, self.user_directory, clock, settings, self.refusal_audit
        )
        self.provider_login = ProviderLogin(settings, self.accounts, clock)
        self._check_document = check_document

    @property
    def has_embedded_engine(self) -> bool:
        """Whether what only the embedded engine has (its events, journals, log) is there."""
        return isinstance(self.host, EngineHost)

    @property
    def engine_host(self) -> EngineHost:
        """The host of the embedded engine, for ports that are open only with it."""
        assert isinstance(self.host, EngineHost)
        return self.host

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the engine, then what listens to it; stop in the opposite order."""
        self.log_ring.attach()
        warn_of_plain(self.settings)
        try:
            await asyncio.to_thread(self.leadership.load)
            await self._start()
        except EngineError as error:
            log.critical("KiteMQ cannot start: %s. %s", error.detail, error.remedy)
            raise
        except Exception:
            log.critical("KiteMQ cannot start", exc_info=True)
            raise
        try:
            yield
        finally:
            await self.host.stop(self.settings.stop_timeout_s)
            self.log_ring.detach()

    async def _start(self) -> None:
        await self.host.start()
        try:
            if self.has_embedded_engine:
                self.leadership.begin()
                self.handover.load()
            self._build()
        except BaseException:
            await self.host.stop(self.settings.stop_timeout_s)
            raise

    def _build(self) -> None:
        """Make what needs the running engine."""
        settings, host, database = self.settings, self.host, self.database
        administration, clock = self.administration, self.host.clock
        self.targets = Targets(settings)
        self.started_ms = host.clock.now_ms()
        self.heartbeat = Heartbeat()
        self.memory_trimmer = MemoryTrimmer()
        self.connections = Connections()
        if self.has_embedded_engine:
            members = host.broker.members
            self.client_names = ClientNames(members.is_alive)
            self.client_figures = ClientFigures(members.count)
        else:  # a cluster tells members apart by connections, and all of ours are one
            self.client_names = ClientNames(lambda group, client: False)
            self.client_figures = ClientFigures(lambda group: 0)
        self.audit = Audit(database, host.clock, self.refusal_audit.flush)
        self.audit_pruning = AuditPruner(database, host.clock, settings)
        self.log_levels = LogLevels(self.audit)
        self.read_only = ReadOnlySwitch(
            settings.data,
            self.audit,
            host.clock,
            setting="follow" if settings.follow else "read_only" * settings.read_only,
            freeze=self.user_directory.freeze,
        )
        self.read_only.load()
        self.self_checks = SelfChecks(
            host,
            administration,
            database,
            settings.data,
            loop_late_s=lambda: self.heartbeat.worst_s,
            is_exposed=lambda: self.user_directory.is_open and not is_loopback(settings.host),
            connections=self.connection_limits.state,
            plain_ports=plain_ports(settings),
        )
        messaging = self.messaging
        meter = Meter(lambda: host.statistics if messaging.capabilities.traffic_figures else None)
        self.sampler = Sampler(administration, meter, clock.now_ms)
        self.mixed_groups = MixedGroups(
            host if self.has_embedded_engine else None, self.connections
        )
        if self.has_embedded_engine:
            host.broker.events.subscribe(self.client_figures.hear, self.client_figures.kinds)
            host.broker.events.subscribe(self.mixed_groups.on_event, (MemberJoined, MemberLeft))
        self.clients = Clients(administration, self.messaging, self.connections, self.audit)
        self.member_queues = MemberQueueLists(administration, self.connections)
        self.reports = Reports(host, self.messaging, self.audit, database, settings)
        self.alerts = Alerts(
            administration,
            self.audit,
            database,
            self.reports,
            settings,
            targets=self.targets,
            clock=clock,
        )
        self.topics = Topics(administration, self.audit)
        self.topic_imports = TopicImports(administration, self.topics, settings.default_queues)
        self.message_imports = MessageImports(self.messaging, clock)
        self.purges = Purges(host, administration, self.audit)
        self.groups = Groups(administration, self.messaging.members, self.audit)
        self.resets = Resets(administration, self.audit)
        self.journeys = Journeys(administration.journeys, self.search)
        self.replays = Replays(self.messaging, administration, self.audit)
        self.replay_copies = ReplayCopies(administration.replays, database)
        self.report_results = ReportResults(self.reports, database, settings)
        self.views = Views(database, host.clock)
        self.templates = ProduceTemplates(database, host.clock)
        self.stars_and_notes = StarsAndNotes(administration, database, clock)
        self.dismissals = Dismissals(administration.dead_letters, self.audit)
        self.scheduled = ScheduledMessages(self.messaging, self.audit)
        self.transactions = Transactions(
            self.messaging, self.audit, self.targets, document=self._check_document
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Run the background work of all services."""
        background: list[BackgroundWork] = [self.audit_pruning]
        if not self.following.leader:  # checks, notifications and runs are a leader's
            background += [self.transactions, self.alerts, *self._work]
            background += [self.replay_copies, self.reports]
        parts = (self.heartbeat, self.sampler, self.memory_trimmer, self.database)
        for each in parts:
            each.start()
        for service in background:
            service.start()
        try:
            await self.user_directory.start()
            await self.accounts.bootstrap(self.settings.admin_name, self.settings.admin_password)
            yield
        finally:
            self.heartbeat.stop()
            await self.sampler.stop()
            await self.memory_trimmer.stop()
            self.accounts.close()
            await self.provider_login.close()
            await self.user_directory.stop()
            for service in reversed(background):
                await service.stop()
            await self.self_checks.close()
            await self.refusal_audit.close()
            self.log_levels.restore()
            await self.database.close()


def services_of(scope: Scope) -> Services:
    """The services of the application that serves a request or a connection."""
    services: Services = scope["app"].services
    return services


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
