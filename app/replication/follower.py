"""Keeps a standby fed: connects to its leader, takes pieces, and goes on after every loss."""

import asyncio
import logging
import random
import ssl
from contextlib import suppress

import msgspec

from app.container import Services
from app.following import LeaderProfile
from app.listen_address import host_and_port, listen_text
from app.replication.database_copy import DatabaseCopy, DatabasePiece
from app.replication.link import LeaderLink, tls_context
from app.services.leadership import RoleChange
from app.tasks import end_tasks
from engine.errors import EngineError
from engine.replication.epochs import EpochStart, TakeOver
from engine.replication.pieces import Piece, ReplicaCut
from engine.replication.standby import Standby
from protocol.replication import REFUSED

log = logging.getLogger("kitemq.replication")

RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
SETTLED_S = 10.0  # a connection that lasted so long was a good one
BUSY_S = 0.002  # between two looks at a snapshot on its way to the disk


class Follower:
    """Feeds the engine of a standby between `start` and `stop`; `services` say how it goes."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._settings, self._leadership = settings, services.leadership
        self._host, self._following = services.engine_host, services.following
        self._secret, self._ca = settings.ha_secret, settings.follow_ca
        self._services, self._ha_listen = services, settings.ha_listen
        # A database elsewhere is its owner's to replicate.
        self._copy = DatabaseCopy(settings.data) if settings.own_database else None
        self._tls: ssl.SSLContext | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to follow; raises ValueError for a file of certificates that is none."""
        self._tls = await tls_context(self._ca)
        if self._copy is not None:
            self._following.database_copied_ms = await asyncio.to_thread(self._copy.copied_ms)
        self._leadership.feed = self
        self._task = asyncio.get_running_loop().create_task(self._run())
        log.info("this server is a standby of %s", self._following.leader)

    async def stop(self) -> None:
        """End the connection; what was taken is kept."""
        await end_tasks(self._task)

    async def _run(self) -> None:
        wait_s, loop = RETRY_FIRST_S, asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                if self._host.is_loading or self._host.standby_broker.standby.must_reopen:
                    await self._host.reload()
                await self._follow()
                wait_s = RETRY_FIRST_S
                continue
            except (EngineError, OSError, TimeoutError) as error:
                self._fail(getattr(error, "detail", "") or str(error) or "it does not answer")
            except Exception as error:
                log.exception("following the leader failed")
                self._fail(f"{type(error).__name__}: {error}")
            finally:
                self._following.is_connected = False
            if loop.time() - began_s > SETTLED_S:
                wait_s = RETRY_FIRST_S
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, RETRY_MAX_S)

    def _fail(self, reason: str) -> None:
        if reason != self._following.failure:
            log.warning("the leader %s cannot be followed: %s", self._following.leader, reason)
        self._following.failure = reason

    async def _follow(self) -> None:
        """Take what the leader gives, until the directory has to be opened anew."""
        address = host_and_port(self._following.leader, "")
        assert address is not None, "the settings were checked"
        link = await LeaderLink.open(*address, self._secret, self._tls)
        standby = self._host.standby_broker.standby
        try:
            standby.begin_again()
            if (start := self._leadership.start_after(link.history)) is not None:
                self._cut(standby, start)
                return
            self._heed(link.profile)
            await self._leadership.adopt(link.history, self._following.leader)
            own = self._leadership.state.history
            state = standby.state()
            state = msgspec.structs.replace(
                state,
                ha_listen=listen_text(self._ha_listen),
                database=self._copy and await asyncio.to_thread(self._copy.digest),
            )
            link.begin(own.mark(state))
            while not standby.must_reopen:
                self._following.leader_end, piece = await link.next()
                if isinstance(piece, TakeOver):
                    await self._take_over(link, piece)
                    continue
                if isinstance(piece, DatabasePiece):
                    await self._take_database(piece)
                elif piece is not None:
                    await self._take(piece)
                if link.profile.must_flush and isinstance(piece, ReplicaCut):
                    await asyncio.to_thread(standby.sync_work())
                self._connected()
                link.report(standby.end[0])
        finally:
            link.close()

    def _heed(self, profile: LeaderProfile) -> None:
        """Note what the leader says of itself, and warn where clients would not find this one."""
        settings, before = self._settings, self._following.profile
        self._following.profile = profile
        own = settings.broker_name, settings.cluster_name
        given = profile.broker_name, profile.cluster_name
        if given != own and profile != before:
            log.warning(
                "the leader's broker_name and cluster_name are %s and %s, here they are %s and %s: "
                "give both servers the same, else classic clients of the one do not know the other",
                *(*given, *own),
            )

    def _cut(self, standby: Standby, start: EpochStart) -> None:
        epoch = self._leadership.state.epoch
        log.warning(
            "the leader %s has epoch %d, which began at %d of the log; what this server alone has "
            "behind that of epoch %d is set aside",
            *(self._following.leader, start.epoch, start.log_end, epoch),
        )
        standby.cut(start, epoch)

    async def _take(self, piece: Piece) -> None:
        standby = self._host.standby_broker.standby
        standby.take(piece)
        while standby.is_busy:
            standby.show()
            await asyncio.sleep(BUSY_S if standby.is_waiting else 0)

    async def _take_database(self, piece: DatabasePiece) -> None:
        if self._copy is None:
            raise ConnectionAbortedError("the leader sent a database that was not asked for")
        await asyncio.to_thread(self._copy.take, piece)
        if piece.is_last:
            self._following.database_copied_ms = self._host.clock.now_ms()

    async def _take_over(self, link: LeaderLink, order: TakeOver) -> None:
        """Lead, which does not return, or answer that this standby does not."""
        try:
            epoch = await self._leadership.take_over(order, self._services.audit)
        except EngineError as error:
            log.warning("the leader's word to take over is refused: %s", error.detail)
            link.report(REFUSED)
            return
        with suppress(ConnectionError):  # then it hears of it from the fencer
            link.report(-epoch)
        self._leadership.end(RoleChange.PROMOTED)
        await asyncio.Event().wait()

    def _connected(self) -> None:
        if not self._following.is_connected:
            log.info("the leader %s is followed", self._following.leader)
        self._following.is_connected, self._following.failure = True, ""
