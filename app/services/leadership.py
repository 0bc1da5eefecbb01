"""Which epoch this server has, its promotion, and its end where a later epoch has a leader.

Either ends the run: `change` says what the next one is, and `on_change` is called. What a standby
finds in its directory is decided by `engine.replication.epochs`.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Protocol

from app.db.rows import Actor, actor_at
from app.following import Following
from app.server_host import ServerHost
from app.services.audit import Audit
from app.settings import Settings
from engine.config import ROCKETMQ_SCHEME
from engine.errors import Busy, Conflict, Refused, unusable
from engine.replication.boots import after_boot, boot_id, save_boot
from engine.replication.cursor import ANEW
from engine.replication.epochs import (
    EpochHistory,
    EpochRole,
    EpochStart,
    EpochState,
    TakeOver,
    load_epochs,
    save_epochs,
)
from engine.replication.tail import TailFile, keep_behind_damage, segment_bytes_of, tails

log = logging.getLogger("kitemq.replication")

REJOIN = "start it with --follow and the new leader's ha_listen: what it alone has is set aside"


class RoleChange(Enum):
    """Why a run ends that nobody stopped."""

    PROMOTED = "promoted"
    FENCED = "fenced"
    HANDED_OVER = "handed over"


class LeaderFeed(Protocol):
    """What feeds a standby."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Leadership:
    """`load` it before the engine starts; for the event loop's thread."""

    def __init__(self, data: Path, host: ServerHost, following: Following) -> None:
        self._data, self._host, self._following = data, host, following
        self._saving, self._promoting = asyncio.Lock(), asyncio.Lock()
        self.state = EpochState()
        self.feed: LeaderFeed | None = None
        self.change: RoleChange | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.follow = following.leader  # the setting as it was given, perhaps overridden
        self.rival = ""  # what is the matter with another leader of the same epoch

    def load(self) -> None:
        """Read one small file; Corrupt, or what `unusable` makes of an error of the system.

        After a start of the machine a part of the log is read, too; so it is of a leader that is
        to follow: what it has behind a damage is set aside, as a standby's log is cut there.
        """
        self.state = load_epochs(self._data)
        if not (self.state.history.cluster or self._following.leader):
            return
        try:
            self.state = after_boot(self._data, self.state, boot_id())
            if self._following.leader and self.state.role is not EpochRole.STANDBY:
                now_ms, epoch = self._host.clock.now_ms(), self.state.epoch
                keep_behind_damage(self._data, epoch=epoch, now_ms=now_ms)
        except OSError as error:
            raise unusable(self._data, error) from error

    def begin(self) -> None:
        """After the engine's start: the first one since a promotion begins its epoch."""
        epoch, starts = self.state.epoch, self.state.history.starts
        begins = bool(starts) and starts[-1].epoch == epoch and self.state.role is EpochRole.LEADER
        if begins and starts[-1].log_end == self._host.broker.log_end:
            self._host.broker.begin_epoch()

    async def tails(self) -> list[TailFile]:
        """What was set aside of this directory as it became a standby's, the newest first."""
        return await asyncio.to_thread(tails, self._data)

    async def name_cluster(self) -> None:
        """Give the cluster a name before the first standby comes; OSError."""
        if not self.state.history.cluster:
            await asyncio.to_thread(save_boot, self._data, boot_id())
        await self._save(self.state.with_cluster())

    def start_after(self, history: EpochHistory) -> EpochStart | None:
        """Where the leader with this history wants a standby cut; Conflict for a foreign one."""
        standby, own = self._host.standby_broker.standby, self.state.history
        log_end, journal = standby.end
        if not log_end and not journal.size_bytes:  # an empty directory is anybody's
            return None
        own.check_rival(history.promotion, f"the leader {self._following.leader}")
        return history.start_after(own, log_end, journal)

    async def adopt(self, history: EpochHistory, peer: str) -> None:
        """Be a standby of the leader with this history, before its first piece; OSError.

        Nothing is adopted of a leader of an earlier epoch: it is refused by what it hears next.
        """
        if history.epoch >= self.state.epoch:
            await self._save(self.state.follow(history, peer))

    async def promote(self, actor: Actor, audit: Audit, *, is_forced: bool) -> int:
        """Make this standby the leader of the next epoch, which is returned; audited.

        Conflict unless `is_forced` on a leader, and while a standby's leader is connected; Busy
        while it loads what the leader sent. A leader is promoted once more where another one of its
        epoch is to give way.
        """
        async with self._promoting:
            self._check_promotable(is_forced=is_forced)
            before = {"epoch": self.state.epoch}
            async with audit.change(actor, "server.promote", "epoch", before=before) as change:
                epoch = await self._promote(is_forced=is_forced)
                change.after = {"epoch": epoch}
            log.warning("this server was promoted: it leads with epoch %d", epoch)
            self.end(RoleChange.PROMOTED)
        return epoch

    async def take_over(self, order: TakeOver, audit: Audit) -> int:
        """Begin the next epoch as the leader asks, which is returned; audited.

        Conflict where this standby is not what the leader thinks, Busy and Refused where audit or
        disk do not allow it: then it stays a standby.
        """
        async with self._promoting:
            standby, state = self._host.standby_broker.standby, self.state
            if standby.end != order.end or standby.is_busy or state.epoch != order.epoch:
                raise Conflict("this standby has not what its leader has")
            before = {"epoch": state.epoch}
            change = audit.change(actor_at(order.by), "server.promote", "epoch", before=before)
            async with change as made:
                await asyncio.to_thread(standby.sync_work())
                try:
                    await self._save(state.promote(*standby.end))
                except OSError as error:  # perhaps after the file had its name
                    self.state = await asyncio.to_thread(load_epochs, self._data)
                    if self.state.role is not EpochRole.LEADER:
                        raise unusable(self._data, error) from error
                made.after = {"epoch": self.state.epoch}
        log.warning("this standby takes over: it leads with epoch %d", self.state.epoch)
        return self.state.epoch

    async def name_heir(self, heir: str) -> None:
        """Note the standby that is told to take over, "" for none; OSError."""
        await self._save(self.state.name_heir(heir, self.follow))

    async def leave(self) -> None:
        """Note that the heir leads, and is followed from the next run on; OSError."""
        await self._save(self.state.hand_over())

    def _check_promotable(self, *, is_forced: bool) -> None:
        following, host, heir = self._following, self._host, self.state.heir
        if heir and not following.leader and self.change is None:
            if not is_forced:
                raise Conflict(
                    f"the standby {heir} was told to take over, and may lead",
                    field="force",
                    remedy="see to it that it does not, then send force",
                    code="heir_silent",
                )
            return
        if not following.leader and is_forced and self.change is None:
            return
        if not following.leader or self.change is not None:
            raise Conflict("this server is no standby", remedy="send it to the standby")
        if host.is_loading or host.standby_broker.standby.must_reopen:
            raise Busy("this standby loads what its leader sent")
        if following.is_connected and not is_forced:
            raise Conflict(
                f"the leader {following.leader} is connected: what this standby lacks of it would "
                "be lost",
                field="force",
                remedy="stop the leader first, or send force",
                code="leader_connected",
            )

    async def _promote(self, *, is_forced: bool) -> int:
        self._check_promotable(is_forced=is_forced)  # the audit trail took its time
        if not self._following.leader:
            await self._save(self.state.promote(*self._host.broker.end))
            return self.state.epoch
        assert self.feed is not None, "a standby is fed"
        await self.feed.stop()
        try:
            standby = self._host.standby_broker.standby
            await asyncio.to_thread(standby.sync_work())
            await self._save(self.state.promote(*standby.end))
        except BaseException as error:
            await self.feed.start()
            if isinstance(error, OSError):
                raise unusable(self._data, error) from error
            raise
        return self.state.epoch

    async def fence(self, epoch: int, by: str) -> None:
        """Refuse every change, for good: `by` leads with a later epoch, or knows who does."""
        if self.change is not None or epoch <= self.state.epoch:
            return
        self._host.broker.refuse_changes()
        log.critical(
            "KiteMQ stops: there is a leader of epoch %d (says %s), this one has epoch %d. %s",
            *(epoch, by, self.state.epoch, REJOIN),
        )
        try:
            await self._save(self.state.fence(epoch))
        except OSError as error:
            log.error("a next start does not know it: %s", error)
        self.end(RoleChange.FENCED)

    def end(self, change: RoleChange) -> None:
        """End the run: the next one has another role."""
        self.change = change
        self.on_change()

    async def _save(self, state: EpochState) -> None:
        """Write it in its turn; a caller that is cancelled lets no later one overtake it."""
        await asyncio.shield(asyncio.ensure_future(self._write(state)))

    async def _write(self, state: EpochState) -> None:
        async with self._saving:
            if state != self.state:
                await asyncio.to_thread(save_epochs, self._data, state)
                self.state = state


def settings_by_role(settings: Settings) -> Settings:
    """The settings with which a directory may be used; Refused and Corrupt where by none.

    A directory that was promoted is a leader's, though the server is told to follow the one before;
    one that was handed over is a standby's of the new leader.
    """
    state = load_epochs(settings.data)
    follow = state.follows(settings.follow)
    if settings.follow or follow:
        settings = replace(settings, follow=follow)
        if follow:
            _check_copy(settings, state)
        return settings
    if state.role is EpochRole.FENCED:
        detail = f"there is a leader of epoch {state.fenced_by}, this server's has {state.epoch}"
        raise Refused(f"{settings.data} may not be used: {detail}", field="data", remedy=REJOIN)
    if state.role is EpochRole.STANDBY:
        raise Refused(
            f"{settings.data} is a standby's of {state.peer}",
            field="data",
            remedy=f"start it with --follow, or run `kitemq promote --data {settings.data}` first",
        )
    return settings


def _check_copy(settings: Settings, state: EpochState) -> None:
    """Refused where a log of another kind of leader would be taken for a copy."""
    is_copy = state.role is EpochRole.STANDBY and state.follows_rocketmq
    if settings.follow.startswith(ROCKETMQ_SCHEME) != is_copy and segment_bytes_of(settings.data):
        whose = "an" if is_copy else "no"
        raise Refused(
            f"the log in {settings.data} is {whose} Apache master's: it cannot follow "
            f"{settings.follow}",
            field="follow",
            remedy=ANEW,
        )
