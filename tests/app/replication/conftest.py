"""A leader with its port for standbys in the test's process, on the machine's own clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.main import Application, create_app
from app.network.connection_monitor import ConnectionMonitor
from app.replication.database_copy import DatabasePiece
from app.replication.link import LeaderLink
from app.replication.port import StandbyPort
from app.settings import Settings
from engine.broker import Broker
from engine.message import Message
from engine.replication.epochs import TakeOver
from engine.replication.pieces import Piece, ReplicaCut
from engine.replication.standby import Standby
from tests.grpc.endpoint import listening

LIMIT_S = 30.0


@dataclass
class Leader:
    """A running leader; `port` is where standbys connect."""

    app: Application
    port: int
    monitor: ConnectionMonitor

    @property
    def broker(self) -> Broker:
        return self.app.services.host.broker

    @property
    def end(self) -> Any:
        store = self.broker._store
        return store.written, store.journal.place

    @property
    def links(self) -> list[Any]:
        return self.app.services.standbys.links

    def send(self, *bodies: bytes, topic: str = "orders") -> None:
        for body in bodies:
            self.broker.send([Message(topic, body)])

    async def link(self, secret: str = "") -> LeaderLink:
        return await LeaderLink.open("127.0.0.1", self.port, secret)

    async def fill(self, standby: Standby, link: LeaderLink | None = None) -> None:
        """Feed a standby until it has what the leader has now."""
        link = link or await self.link()
        standby.begin_again()
        link.begin(standby.state())
        try:
            async with asyncio.timeout(LIMIT_S):
                piece: Piece | None = None
                while not isinstance(piece, ReplicaCut) or standby.end != self.end:
                    _, given = await link.next()
                    assert not isinstance(given, TakeOver | DatabasePiece)
                    piece = given
                    if piece is not None:
                        standby.take(piece)
                    while standby.is_busy:
                        standby.show()
                        await asyncio.sleep(0)
                    if standby.must_reopen:
                        standby.reopen()
                        await self.fill(standby)
                        return
                    link.report(standby.end[0])
        finally:
            link.close()


Opened = Callable[..., AbstractAsyncContextManager[Leader]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    @asynccontextmanager
    async def open_leader(**changes: Any) -> AsyncIterator[Leader]:
        given = {"disk_free_min_bytes": 0, "report_schedules": False, **changes}
        app = create_app(Settings(data=tmp_path / "leader", **given))
        async with app.router.lifespan_context(app):
            services = app.services
            listener = listening()
            monitor = ConnectionMonitor(services.settings, services.connection_limits)
            port = StandbyPort(services, listener, monitor)
            await port.start()
            try:
                yield Leader(app, listener.getsockname()[1], monitor)
            finally:
                await port.stop()

    return open_leader
