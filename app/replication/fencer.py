"""Tells the leader before a promotion that its epoch is over, whenever it can be reached."""

import asyncio
import logging
from contextlib import suppress

from msgspec.structs import replace

from app.container import Services
from app.listen_address import host_and_port, listen_text
from app.replication.link import LeaderLink, tls_context
from app.tasks import end_tasks
from engine.errors import Conflict, EngineError, Refused
from engine.replication.epochs import EpochHistory
from engine.replication.pieces import EMPTY_STATE

log = logging.getLogger("kitemq.replication")

FIRST_LOOK_S = 1.0  # for which a start waits
LOOK_S = 2.0  # it may come back at any time, from a backup, too


class Fencer:
    """Looks for the old leader between `start` and `stop`."""

    def __init__(self, services: Services, peer: str) -> None:
        """`peer` is the address that was followed."""
        address = host_and_port(peer, "")
        assert address is not None, "it was followed"
        self._services, self._peer, self._address = services, peer, address
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look once, then begin to look again and again; ValueError for a file of no certificates.

        The first look is over when it returns: who was replaced meanwhile shall not serve clients.
        """
        self._tls = await tls_context(self._services.settings.follow_ca)
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._try()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        await end_tasks(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._try()

    async def _try(self) -> None:
        try:
            await self._look()
        except (EngineError, OSError, TimeoutError) as error:
            log.debug("the old leader %s is not there: %s", self._peer, error)

    def _meet(self, history: EpochHistory) -> None:
        """Say once of a leader of the same epoch that neither of the two gives way."""
        leadership = self._services.leadership
        try:
            leadership.state.history.check_rival(history.promotion, self._peer)
        except Conflict as error:
            if not leadership.rival:
                log.error("%s. Remedy: %s", error.detail, error.remedy)
            leadership.rival = f"{error.detail}: {error.remedy}"

    async def _give_way(self, epoch: int) -> None:
        """Follow the heir of a hand-over that leads now; stop for any other leader.

        An heir may be known here by another address. While it is not known what it does no change
        is taken, so there is time until it says by itself that it leads.
        """
        leadership = self._services.leadership
        if not await self._services.handover.heard(self._peer, epoch) and not leadership.state.heir:
            await leadership.fence(epoch, self._peer)

    async def _look(self) -> None:
        leadership = self._services.leadership
        own = leadership.state.history
        secret = self._services.settings.ha_secret
        link = await LeaderLink.open(*self._address, secret, self._tls)
        try:
            if link.history.cluster != own.cluster:
                return
            if link.history.epoch > own.epoch:
                await self._give_way(link.history.epoch)
            elif link.history.epoch == own.epoch:
                self._meet(link.history)
            else:
                listen = listen_text(self._services.settings.ha_listen)
                mark = replace(EMPTY_STATE, ha_listen=listen)
                link.begin(own.mark(mark))
                try:
                    await link.next()
                except Refused:
                    log.warning("the old leader %s is fenced by epoch %d", self._peer, own.epoch)
        finally:
            link.close()
