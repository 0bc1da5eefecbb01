"""The server process: settings, its listening sockets, uvicorn, gRPC, and an orderly end.

`serve` returns an exit code: 0 after a stop, 1 when starting failed, 2 when it refused to start
because of what it was told.
"""

import argparse
import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import uvicorn

from app.container import Services
from app.db.rows import DatabaseError
from app.db.user_probe import has_users
from app.listen_address import OFF
from app.listeners import (
    GRPC,
    HA,
    HTTP,
    REMOTING,
    REMOTING_BROKER,
    CannotListen,
    Listeners,
    close,
    open_host,
    open_listeners,
    url_of,
)
from app.log_output import LimitedHandler
from app.main import create_app
from app.network.acceptor import Acceptor
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import ConnectionMonitor
from app.network.http_connection import HttpConnection
from app.network.log_limits import limit_repeated_lines
from app.network.open_files import files_max, log_files, queue_files, raise_file_limit
from app.network.socket_connection import SocketConnection
from app.network.websocket_protocol import with_budget
from app.network.whole_request import KnownHeads
from app.priority import go_first
from app.private_data import LEADER_COPY, keep_private, tighten
from app.services.leadership import RoleChange, settings_by_role
from app.settings import Settings, SettingsError, is_loopback, load, origins, settings_fields
from app.tls import Certificate, Pair, TlsError
from engine.clock import SystemClock
from engine.config import ROCKETMQ_SCHEME
from engine.errors import EngineError

if TYPE_CHECKING:
    from app.grpc.port import GrpcPort
    from app.remoting.port import RemotingPort
    from app.replication.fencer import Fencer
    from app.replication.follower import Follower
    from app.replication.port import StandbyPort

    OtherPort = Fencer | Follower | GrpcPort | RemotingPort | StandbyPort

log = logging.getLogger("kitemq")

EXIT_FAILED = 1
EXIT_REFUSED = 2
SIGNAL_LOOK_S = 0.1
# How long another thread may hold Python's lock while the event loop waits for it. The default of
# 5 ms would be paid anew after each system call that lets go of it.
SWITCH_S = 0.0005
COLLECT_AFTER = (10_000, 2, 1000)  # a look at all that is young takes some ms, never 20
NOWHERE: Mapping[str, str] = MappingProxyType({})
OPEN_NETWORK = (
    "KiteMQ refuses to listen on {host}: it has no users yet, so anyone who reaches that address "
    "could read and change everything. Make an admin first (kitemq users add NAME --role admin "
    "--data DIR, or KITEMQ_ADMIN_PASSWORD), or listen on 127.0.0.1 (--host 127.0.0.1); "
    "--allow-open true lets everybody in."
)
NO_DATABASE = (
    "KiteMQ refuses to listen on {host}: whether it has users cannot be found out, because the "
    "database does not answer: {error}. Mend the database or the setting database_url, or listen "
    "on 127.0.0.1 (--host 127.0.0.1)."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the settings and serve until stopped; the exit code."""
    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    values = vars(options)
    config = values.pop("config")
    overrides = {name: value for name, value in values.items() if value is not None}
    for word in unknown:
        if not word.startswith("--"):
            parser.error(f"unrecognized argument: {word}")
        # `load` refuses the name and suggests the closest one.
        overrides[word[2:].partition("=")[0].replace("-", "_")] = ""
        break
    try:
        settings = load(overrides, config=config)
        setting_origins = origins(overrides, config=config)
    except SettingsError as error:
        sys.stderr.write(f"kitemq: {error}\n")
        return EXIT_REFUSED
    return serve(settings, setting_origins)


def serve(settings: Settings, setting_origins: Mapping[str, str] = NOWHERE) -> int:
    """Serve until SIGINT or SIGTERM; the exit code. Blocks.

    `setting_origins` says by name which settings were given, and where. A promotion and a hand-over
    begin anew in the same process, on the same port; so does a fence where the server is told whom
    to follow.
    """
    while True:
        try:
            role_settings = settings_by_role(settings)
            if not role_settings.follow and (settings.data / LEADER_COPY).exists():
                from app.replication.adoption import adopt_copy  # once, after a promotion

                adopt_copy(settings.data, settings.own_database, SystemClock().now_ms())
        except EngineError as error:
            sys.stderr.write(f"kitemq: {error.detail}. {error.remedy}\n")
            return EXIT_REFUSED
        run = _serve_once(role_settings, setting_origins, settings.follow)
        if run.change is RoleChange.FENCED and not settings.follow:
            return EXIT_REFUSED
        if run.change is None:
            return run.code
        settings = replace(settings, port=run.port)


class ServerRun(NamedTuple):
    """How serving in one role ended: `change` is None unless another role follows."""

    code: int
    change: RoleChange | None = None
    port: int = 0  # of HTTP


def _serve_once(settings: Settings, setting_origins: Mapping[str, str], follow: str) -> ServerRun:
    """Serve in one role until it changes, or a signal comes; `follow` is the setting as given.

    A standby has no port for gRPC clients, which stay with the first of their addresses that
    answers; and no broker for classic ones, but a name server: without it not all of them start
    (docs/standby.md). A server before a cluster has neither, as those clients reach it themselves.
    """
    if settings.follow:
        settings = replace(settings, grpc_listen=OFF, remoting_broker_listen="")
    if settings.rocketmq or settings.follow.startswith(ROCKETMQ_SCHEME):
        settings = replace(
            settings, grpc_listen=OFF, remoting_listen=OFF, remoting_broker_listen=""
        )
    try:
        host = open_host(settings)
        if not (is_loopback(host) or settings.allow_open or _has_users(settings)):
            sys.stderr.write(f"{OPEN_NETWORK.format(host=host)}\n")
            return ServerRun(EXIT_REFUSED)
        certificate = _certificate(settings)
    except DatabaseError as error:
        sys.stderr.write(f"{NO_DATABASE.format(host=open_host(settings), error=error)}\n")
        return ServerRun(EXIT_FAILED)
    except TlsError as error:
        sys.stderr.write(f"kitemq: {error}\n")
        return ServerRun(EXIT_REFUSED)
    try:
        listeners = open_listeners(settings)
    except CannotListen as error:
        sys.stderr.write(f"kitemq: {error}\n")
        return ServerRun(EXIT_FAILED)
    logging.basicConfig(level=settings.log_level.upper(), handlers=[LimitedHandler()], force=True)
    limit_repeated_lines()
    settings = replace(
        settings,
        open_files_max=queue_files(settings.open_files_max, raise_file_limit()),
        log_files_max=log_files(settings.log_files_max, settings.reserved_files),
    )
    keep_private()
    tighten(settings.data)
    if settings.goes_first:
        go_first()  # before there are threads, which have each a number of their own
    app = create_app(settings, origins=setting_origins)
    app.services.leadership.follow = follow
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",  # connections are HttpConnection, of the same kind
        ws=with_budget(SocketConnection, app.services.request_limits.budget),
        ws_max_size=settings.request_bytes_max,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        log_level=max(logging.getLevelName(settings.log_level.upper()), logging.WARNING),
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, round(settings.keep_alive_s)),
        timeout_graceful_shutdown=max(1, round(settings.stop_timeout_s)),
    )
    server = Server(config, app.services, listeners, certificate=certificate)
    port = listeners[HTTP][0].getsockname()[1]
    # Whatever a start reads of ten thousand topics stays: no collector need look at it meanwhile.
    gc.disable()
    try:
        # uvicorn raises the signal that stopped it once more when it has stopped.
        signal.signal(signal.SIGTERM, _leave)
        signal.signal(signal.SIGINT, _leave)
        server.run(sockets=listeners[HTTP])
    except SystemExit as stop:
        return ServerRun(EXIT_FAILED if stop.code else 0)
    finally:
        gc.enable()
        close(listeners)
    change = app.services.leadership.change
    return ServerRun(0 if server.started else EXIT_FAILED, change, port)


def _has_users(settings: Settings) -> bool:
    """Whether there is a user, or will be once the server has started; raises DatabaseError."""
    if settings.admin_password or settings.has_oidc:
        return True  # with a provider everybody has to log in
    result = has_users(settings.database)
    if result is not None:
        return result
    from app.db.database import Database  # only where a glance does not tell

    database = Database(settings.database)
    try:
        return bool(database.users.load().users)
    finally:
        database.close()


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)


class Server(uvicorn.Server):
    """uvicorn's server, which says where it listens and lets long polls go before it waits."""

    def __init__(
        self,
        config: uvicorn.Config,
        services: Services,
        listeners: Listeners,
        *,
        certificate: Certificate | None = None,
    ) -> None:
        """`services` are the application's; `listeners` those of HTTP, gRPC and classic clients.

        With a `certificate` the HTTP port speaks https.
        """
        super().__init__(config)
        self._services = services
        self._listeners = listeners
        (self._listener,) = listeners[HTTP]
        self._ports: list[Acceptor | OtherPort] = []  # in the order of their end
        self._monitor = ConnectionMonitor(services.settings, services.connection_limits)
        self._certificate = certificate
        self._left = asyncio.Event()
        services.leadership.on_change = self._leave

    def _leave(self) -> None:
        self.should_exit = True
        self._left.set()

    async def main_loop(self) -> None:
        """Wait for the end; a change of the role does not wait for the next look at signals."""
        while not await self.on_tick(1):
            with suppress(TimeoutError):
                async with asyncio.timeout(SIGNAL_LOOK_S):
                    await self._left.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so: a reader of this line can send requests."""
        echo = logging.getLogger("uvicorn.error")
        echo.disabled = True  # the lifespan says itself why it failed, without a stack
        try:
            await super().startup([])  # we accept ourselves
        finally:
            echo.disabled = False
        if self.started:
            others = list(self._others())  # loading holds up the loop: while nobody waits for it
            self._accept()
            self._services.targets.own_ports.add(self._listener.getsockname()[1])
            self.started = await self._open(others)
            if not self.started:
                self.should_exit = True
                await self.shutdown(sockets)
        if self.started:
            sys.setswitchinterval(SWITCH_S)
            settle_memory()
            self._services.heartbeat.start()  # what the start held up was no request
            scheme = "https" if self._certificate else "http"
            log.info("KiteMQ is ready on %s", url_of(self._listener, scheme))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what waits, finish what runs, then stop."""
        log.info("KiteMQ is stopping")
        self._services.host.drain()
        for port in self._ports:
            await port.stop()
        await super().shutdown(sockets)
        await self._monitor.stop()

    def _accept(self) -> None:
        """Begin to take HTTP connections, as many as the settings and the open files permit."""
        limits = self._services.connection_limits
        settings = self._services.settings
        heads = KnownHeads()

        def connect(slot: ConnectionSlot) -> asyncio.Protocol:
            return HttpConnection(
                self.config,
                self.server_state,
                self.lifespan.state,
                slot=slot,
                monitor=self._monitor,
                heads=heads,
            )

        acceptor = Acceptor(
            self._listener,
            limits,
            connect,
            certificate=self._certificate,
            handshake_s=settings.header_timeout_s,
            takes_plain=self._certificate is None,
        )
        if limits.count_max < settings.connections_max:
            log.warning(
                "%d files may be open: %d connections are taken at once, %d of one address; "
                "connections_max is %d. A higher limit (ulimit -n) permits more.",
                files_max(),
                limits.count_max,
                limits.address_count_max,
                settings.connections_max,
            )
        self._ports.append(acceptor)
        acceptor.start()
        self._monitor.start()

    async def _open(self, others: Sequence[tuple[str, "OtherPort"]]) -> bool:
        """Open the ports of other protocols; False (the log says why) where one cannot be."""
        for clients, port in others:
            if self.should_exit:  # another one leads
                break
            self._ports.append(port)
            try:
                await port.start()
            except (OSError, ValueError) as error:
                log.critical("KiteMQ cannot serve %s: %s", clients, error)
                return False
        return True

    def _others(self) -> "Iterator[tuple[str, OtherPort]]":
        """The ports besides HTTP with their clients; their code is loaded only where they are."""
        leader, state = self._services.following.leader, self._services.leadership.state
        if state.peer and not (leader or state.follows_rocketmq):
            from app.replication.fencer import Fencer

            yield "as the leader of an epoch", Fencer(self._services, state.peer)
        for listener in self._listeners.get(GRPC, ()):
            from app.grpc.port import GrpcPort

            yield "gRPC clients", GrpcPort(self._services, listener, self._monitor)
        options = (REMOTING, REMOTING_BROKER)
        listeners = [each for option in options for each in self._listeners.get(option, ())]
        if listeners:
            from app.remoting.port import RemotingPort

            port = RemotingPort(self._services, listeners, self._monitor)
            yield "classic RocketMQ clients", port
        if self._services.following.leader:
            from app.replication.follower import Follower
            from app.replication.master_follower import MasterFollower

            follows_rocketmq = self._services.following.follows_rocketmq
            yield "as a standby", (MasterFollower if follows_rocketmq else Follower)(self._services)
        for listener in self._listeners.get(HA, ()):
            from app.replication.port import StandbyPort

            yield "standbys", StandbyPort(self._services, listener, self._monitor)


def settle_memory() -> None:
    """Let the collector pass over what the start made, which stays, and come round less often.

    Messages are no concern of its: they hold no cycles. Measured by `python -m bench`, a request
    costs a quarter less this way. It does not look at it first: that would hold up the loop for
    30 ms, and find a few hundred objects among a hundred thousand.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


def _certificate(settings: Settings) -> Certificate | None:
    """What the HTTP port serves TLS with; None where it is plain. Raises TlsError."""
    if not settings.tls_certificate:
        return None
    pair = Pair(Path(settings.tls_certificate), Path(settings.tls_key))
    return Certificate(pair, protocols=("http/1.1",))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kitemq serve", description="Run the KiteMQ server.", allow_abbrev=False
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings.")
    for item in settings_fields():
        text = item.metadata["help"].replace("%", "%%")
        parser.add_argument(f"--{item.name.replace('_', '-')}", metavar="VALUE", help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
