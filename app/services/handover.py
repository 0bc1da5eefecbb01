"""A planned hand-over: a leader takes no change, lets a standby that has all lead, and follows it.

Until the standby is told, whatever goes wrong lets the leader go on. Before that the leader notes
its heir on its disk, and from then on it takes no change, over restarts too, until one of these is
so: the heir says that it leads (then this server follows it), that it does not, or comes back as a
standby (then this server goes on); or a person promotes this server once more.
"""

import asyncio
import logging

from app.db.rows import Actor
from app.host import EngineHost
from app.services.audit import Audit
from app.services.leadership import Leadership, RoleChange
from app.services.standbys import KITEMQ, StandbyLink, Standbys
from app.settings import Settings
from app.tasks import settle
from engine.errors import Busy, Conflict, EngineError, Invalid, NotFound, unusable
from engine.replication.epochs import EpochRole, TakeOver

log = logging.getLogger("kitemq.replication")

TIMEOUT_S = 5.0
TIMEOUT_MAX_S = 60.0
LOOK_S = 0.002
CODE = "handing_over"
RETRY_S, RETRY_UNSURE_S = 0.1, 1.0
UNSURE = (
    "see whether it leads; it is asked as soon as it reaches this server's ha_listen. Where it is "
    "gone for good, `kitemq promote --force --server` of this server lets this one go on"
)


class Handover:
    """For the event loop's thread; `settings` are those of a leader."""

    def __init__(
        self, leadership: Leadership, host: EngineHost, standbys: Standbys, settings: Settings
    ) -> None:
        self._leadership, self._host = leadership, host
        self._standbys, self._settings = standbys, settings
        self._outcome: asyncio.Future[int] | None = None  # the epoch that was begun; 0: none
        self._is_told = False  # the standby, while a request waits for the outcome
        self._heir = ""

    def load(self) -> None:
        """Take no change where it is not known what came of the last hand-over."""
        heir = self._leadership.state.heir
        if heir and self._leads():
            self._suspend(heir)
            log.critical(
                "changes are refused: the standby %s was told to take over, and it is not known "
                "whether it leads: %s",
                *(heir, UNSURE),
            )

    def failure(self) -> str:
        """What readiness has to say of it; "" while no hand-over is open."""
        heir = self._leadership.state.heir
        if not heir or self._outcome is not None or not self._leads():
            return ""
        return f"changes are refused: {heir} was told to take over, and does not answer; {UNSURE}"

    async def hand_over(
        self, actor: Actor, audit: Audit, to: str, *, timeout_s: float
    ) -> tuple[int, str]:
        """Let a standby lead, and follow it; its epoch, and its address for standbys. Audited.

        `to` is that address or its host, "" for the only standby. NotFound and Conflict before
        anything is begun; Busy where the standby has not everything in time, or refuses: then this
        server goes on. Busy too where the standby was told and does not answer: see `failure`.
        """
        link = self._choose(to, timeout_s)
        outcome = self._outcome = asyncio.get_running_loop().create_future()
        leader, before = link.ha_listen, {"epoch": self._leadership.state.epoch}
        try:
            async with audit.change(actor, "server.handover", leader, before=before) as change:
                epoch = await self._hand_over(link, outcome, actor.name, timeout_s)
                change.after = {"epoch": epoch}
        finally:
            self._outcome = None
            if outcome.done() and outcome.result():
                self._leadership.end(RoleChange.HANDED_OVER)
        return epoch, leader

    async def heard(self, ha_listen: str, epoch: int) -> bool:
        """The heir leads with this epoch; False where that is not the heir."""
        leadership, state = self._leadership, self._leadership.state
        if not ha_listen or epoch <= state.epoch:
            return False
        if ha_listen != state.heir:
            return state.role is EpochRole.STANDBY and ha_listen == state.peer
        log.warning("the standby %s leads with epoch %d: this server follows it", ha_listen, epoch)
        try:
            await leadership.leave()
        except OSError as error:  # the next run hears of it again
            log.error("the end of a hand-over could not be noted: %s", error)
        if self._outcome is None:
            leadership.end(RoleChange.HANDED_OVER)
        else:
            settle(self._outcome, epoch)
        return True

    async def returned(self, ha_listen: str) -> None:
        """A standby does not lead, nor will by what it was told: where it is the heir, go on."""
        if self._outcome is not None and not self._is_told:
            return
        if ha_listen and ha_listen == self._leadership.state.heir:
            for link in self._standbys.links:
                link.order = None
            await self._go_on()
            log.warning("the standby %s does not take over: this server goes on", ha_listen)
            if self._outcome is not None:
                settle(self._outcome, 0)

    async def _go_on(self) -> None:
        """Lead on, as nobody was told to take over, or who was does not."""
        try:
            await self._leadership.name_heir("")
        except OSError as error:  # a next start asks the standby again
            log.error("that nobody takes over could not be noted: %s", error)
        if self._leads():
            self._host.broker.resume()

    def _choose(self, to: str, timeout_s: float) -> StandbyLink:
        if not 0 < timeout_s <= TIMEOUT_MAX_S:
            remedy = f"give more than 0, at most {TIMEOUT_MAX_S:g}"
            raise Invalid(f"timeout_s is {timeout_s:g}", field="timeout_s", remedy=remedy)
        if not self._leads():
            raise Conflict("this server is no leader", remedy="send it to the leader")
        if self._outcome is not None or self._leadership.state.heir:
            raise Conflict("a hand-over is under way", remedy="wait for its end")
        links = [each for each in self._standbys.links if each.kind == KITEMQ]
        meant = [each for each in links if to in ("", each.ha_listen, _host(each.ha_listen))]
        if len(meant) != 1:
            names = ", ".join(each.ha_listen or each.address for each in links) or "none"
            what = f"{len(meant)} standbys" if meant else "no standby"
            detail = f"{what} at {to}" if to else what
            remedy = "name one that is connected by its ha_listen, as HOST:PORT"
            raise NotFound(f"{detail}; connected: {names}", field="to", remedy=remedy)
        return self._checked(meant[0])

    def _checked(self, link: StandbyLink) -> StandbyLink:
        if not link.ha_listen:
            raise Conflict(
                f"the standby {link.address} has no ha_listen, where this server could follow it",
                field="to",
                remedy="start it with --ha-listen; one of an earlier version, with this one",
            )
        settings = self._settings
        if settings.tls_required and not settings.follow_ca:
            raise Conflict(
                "this server could not follow the other over TLS",
                field="follow_ca",
                remedy="start it with follow_ca, the certificates of the standby",
            )
        if not link.in_step:
            raise Busy(f"the standby {link.address} is not in step yet", field="to")
        return link

    async def _hand_over(
        self, link: StandbyLink, outcome: asyncio.Future[int], by: str, timeout_s: float
    ) -> int:
        self._suspend(link.ha_listen)
        self._is_told, epoch = False, 0
        try:
            async with asyncio.timeout(timeout_s):
                await self._name_heir(link)
                link.order = TakeOver(self._leadership.state.epoch, *self._host.broker.end, by)
                self._is_told = True
                self._standbys.wake()
                epoch = await asyncio.shield(outcome)
        except TimeoutError:
            if self._is_told:
                detail = f"{link.ha_listen} was told to take over, and has not answered"
                raise Busy(detail, remedy=UNSURE, code="heir_silent") from None
            raise _failed(f"{link.ha_listen} had not everything within {timeout_s:g} s") from None
        except OSError as error:
            raise unusable(self._host.config.data, error) from error
        finally:
            if not self._is_told:
                await self._go_on()
        if not epoch:
            raise _failed(f"{link.ha_listen} does not take over")
        return epoch

    async def _name_heir(self, link: StandbyLink) -> None:
        """Wait until the standby has everything, and note it as the heir."""
        broker, leadership = self._host.broker, self._leadership
        while link in self._standbys.links and self._leads():
            has_all = link.end == broker.end and broker.is_settled
            if has_all and leadership.state.heir:
                return
            if has_all:
                await leadership.name_heir(link.ha_listen)
                continue
            broker.when_flushed(broker.log_end, lambda _: None)
            self._standbys.wake()
            await asyncio.sleep(LOOK_S)
        raise _failed(f"{link.ha_listen} has left")

    def _leads(self) -> bool:
        """Whether this run is a leader's, and goes on."""
        return not self._host.leader and self._leadership.change is None

    def _suspend(self, heir: str) -> None:
        self._heir = heir
        self._host.broker.suspend(self._refusal)

    def _refusal(self) -> EngineError:
        retry_after_s = RETRY_S if self._outcome is not None else RETRY_UNSURE_S
        detail = f"this server hands over to {self._heir}"
        return Busy(detail, retry_after_s=retry_after_s, code=CODE)


def _failed(reason: str) -> Busy:
    detail = f"{reason}: this server goes on leading"
    return Busy(detail, remedy="see the standby's log", code="handover_failed")


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
