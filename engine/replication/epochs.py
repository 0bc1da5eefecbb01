"""Which epoch a data directory belongs to: who may lead, and where each epoch began.

A promotion begins an epoch, and notes where log and journal ended then. A directory of an earlier
epoch that goes further has a tail that no leader of the later one knows. The file `epochs.json`
says all this; a directory without one has the first epoch.
"""

import secrets
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from engine.config import ROCKETMQ_SCHEME
from engine.errors import Conflict, Corrupt, unusable
from engine.replication.cursor import ANEW
from engine.replication.pieces import StandbyState
from engine.store.files import Files, OsFiles, make_lasting_directory, read_whole, write_atomic
from engine.store.journal_files import JournalPlace as JournalPlace

FILE = "epochs.json"
STARTS_MAX = 1000
FIRST = 1
DECIDE = (
    "decide which of the two goes on, and promote that one once more (kitemq promote --force): the "
    "other follows it then with --follow, and what it alone has is set aside"
)
OS_FILES = OsFiles()


class EpochRole(StrEnum):
    """What a directory may be used as; `fenced`: a later epoch has another leader."""

    LEADER = "leader"
    STANDBY = "standby"
    FENCED = "fenced"


class EpochStart(msgspec.Struct, frozen=True, array_like=True):
    """Where log and journal ended when an epoch began.

    With a `loss`, counted from 1: what the leader's disk still had after it lost power. `id` is the
    promotion's own, so that no two of one epoch are taken for each other; "" of an older version.
    """

    epoch: int
    log_end: Annotated[int, Meta(ge=0)]
    journal: JournalPlace
    loss: int = 0
    id: str = ""

    def is_same(self, other: "EpochStart") -> bool:
        """Whether both are one start; a side without an id does not tell."""
        if "" in (self.id, other.id):
            other = msgspec.structs.replace(other, id=self.id)
        return self == other

    def is_in(self, starts: "Sequence[EpochStart]") -> bool:
        """Whether it is one of these."""
        return self in starts or any(map(self.is_same, starts))


class EpochHistory(msgspec.Struct, frozen=True, tag="epochs", array_like=True):
    """What a leader tells its standbys first: its epoch, and the newest 1,000 starts.

    `cluster` is the same in all copies of one directory, "" where nobody has named it.
    """

    cluster: str = ""
    epoch: Annotated[int, Meta(ge=FIRST)] = FIRST
    starts: Annotated[Sequence[EpochStart], Meta(max_length=STARTS_MAX)] = ()

    def check_same(self, cluster: str) -> None:
        """Raise Conflict unless `cluster` may be this one."""
        if cluster and self.cluster and cluster != self.cluster:
            raise _other_leaders()

    def mark(self, state: StandbyState) -> StandbyState:
        """The state of a standby with this history, as its leader is told."""
        id = self.promotion.id if self.promotion else ""
        return msgspec.structs.replace(state, cluster=self.cluster, epoch=self.epoch, promotion=id)

    def check_standby(self, state: StandbyState, whose: str) -> None:
        """Raise Conflict for a standby of a rival: see `check_rival`."""
        own = self.promotion
        if own is None or state.epoch != self.epoch or "" in (own.id, state.promotion):
            return
        if state.promotion != own.id:
            raise rival_epoch(own, state.promotion, whose)

    @property
    def promotion(self) -> EpochStart | None:
        """The start of its epoch, unless that is the first, or not known any more."""
        own = (each for each in self.starts if each.epoch == self.epoch and not each.loss)
        return next(own, None)

    def check_rival(self, promotion: EpochStart | None, whose: str) -> None:
        """Raise Conflict where another promotion began the same epoch apart from this one.

        Which of two such leaders goes on is for the person who runs them to decide.
        """
        own = self.promotion
        if own is None or promotion is None or own.epoch != promotion.epoch:
            return
        if not own.is_same(promotion):
            raise rival_epoch(own, promotion.id, whose)

    def start_after(
        self, own: "EpochHistory", log_end: int, journal: JournalPlace
    ) -> EpochStart | None:
        """Where a directory with `own` history that ends there must be cut; None: it is a prefix.

        Conflict where it is of another cluster, so old that nobody knows, or of the same epoch
        by another promotion.
        """
        self.check_same(own.cluster)
        own.check_rival(self.promotion, "the leader")
        if own.epoch > self.epoch:  # it is the leader that has to give way
            return None
        unknown = [each for each in self.starts if not each.is_in(own.starts)]
        parted = [each for each in own.starts if not each.is_in(self.starts)]
        if len(self.starts) == STARTS_MAX:  # the leader may have forgotten those before
            parted = [each for each in parted if each.epoch >= self.starts[0].epoch]
        if not unknown and not parted:
            return None
        start = EpochStart(
            (unknown or parted)[0].epoch,
            min(each.log_end for each in unknown + parted),
            min(each.journal for each in unknown + parted),
        )
        if log_end <= start.log_end and journal <= start.journal:
            return None
        if unknown and (unknown[0].epoch > own.epoch + 1 or len(unknown) == STARTS_MAX):
            detail = f"the leader does not know any more where its epoch {own.epoch + 1} began"
            raise Conflict(detail, field="data", remedy=ANEW)
        if not own.cluster:  # nothing says that it has ever been a copy
            raise _other_leaders()
        return start


def rival_epoch(own: EpochStart, id: str, whose: str) -> Conflict:
    """The refusal of two leaders of one epoch, of which one side has another promotion."""
    theirs, ours = (each or "of an older version" for each in (id, own.id))
    return Conflict(
        f"two standbys were promoted to epoch {own.epoch} apart from each other: {whose} has the "
        f"promotion {theirs}, this server {ours}",
        field="data",
        remedy=DECIDE,
        code="rival_epoch",
    )


def _other_leaders() -> Conflict:
    detail = "the standby's data directory is no copy of this leader's"
    return Conflict(detail, field="data", remedy=ANEW)


class TakeOver(msgspec.Struct, frozen=True, tag="take_over", array_like=True):
    """A leader's word to a standby that ends there: begin the next epoch, nothing is missing.

    `epoch` is the leader's, `by` who has asked for it.
    """

    epoch: int
    log_end: int
    journal: JournalPlace
    by: str

    @property
    def end(self) -> tuple[int, JournalPlace]:
        """Where log and journal end on both sides."""
        return self.log_end, self.journal


class EpochState(msgspec.Struct, frozen=True):
    """What the file says. `peer` is the leader's address that a standby follows or has followed.

    `heir` is the address of the standby that a leader has told to take over, until it is known
    what came of it. `override` is the setting `follow` that no longer counts since a hand-over.
    """

    history: EpochHistory = EpochHistory()
    role: EpochRole = EpochRole.LEADER
    peer: str = ""
    fenced_by: int = 0  # the epoch
    heir: str = ""
    override: str | None = None

    @property
    def epoch(self) -> int:
        return self.history.epoch

    @property
    def follows_rocketmq(self) -> bool:
        """Whether `peer` is a master of Apache RocketMQ, which knows no epochs."""
        return self.peer.startswith(ROCKETMQ_SCHEME)

    def with_cluster(self) -> "EpochState":
        """The same with a name for the cluster, for a leader before its first standby."""
        if self.history.cluster:
            return self
        history = msgspec.structs.replace(self.history, cluster=secrets.token_hex(8))
        return msgspec.structs.replace(self, history=history)

    def follow(self, history: EpochHistory, peer: str) -> "EpochState":
        """The state of a standby of the leader with this history."""
        override = self.override if peer == self.peer else None
        return EpochState(history, EpochRole.STANDBY, peer, override=override)

    def promote(self, log_end: int, journal: JournalPlace) -> "EpochState":
        """The state of the leader of the next epoch, on a directory that ends there."""
        # Its heir may lead with the next one.
        epoch = max(self.epoch + bool(self.heir), self.fenced_by) + 1
        start = EpochStart(epoch, log_end, journal, id=secrets.token_hex(8))
        starts = [*self.history.starts, start][-STARTS_MAX:]
        history = EpochHistory(self.history.cluster or secrets.token_hex(8), epoch, starts)
        return EpochState(history, EpochRole.LEADER, self.heir or self.peer, override=self.override)

    def name_heir(self, heir: str, follow: str) -> "EpochState":
        """The state of a leader with this setting `follow` that tells a standby to take over."""
        return msgspec.structs.replace(self, heir=heir, override=follow)

    def hand_over(self) -> "EpochState":
        """The state once the heir leads: it is followed, whatever the setting says."""
        return EpochState(self.history, EpochRole.STANDBY, self.heir, override=self.override)

    def follows(self, follow: str) -> str:
        """The address to follow with this setting; "" for a leader."""
        is_overridden = follow == self.override
        if self.role is EpochRole.LEADER:
            return "" if is_overridden or follow == self.peer else follow
        return self.peer if self.role is EpochRole.STANDBY and is_overridden else follow

    def lose_power(self, log_end: int) -> "EpochState":
        """The state of a leader whose log is whole up to there after a loss of power.

        Of its journal nobody knows how much: its standbys take that anew.
        """
        starts = self.history.starts
        loss = 1 + max((each.loss for each in starts if each.epoch == self.epoch), default=0)
        start = EpochStart(self.epoch, log_end, JournalPlace(0, 0), loss)
        history = msgspec.structs.replace(self.history, starts=[*starts, start][-STARTS_MAX:])
        return msgspec.structs.replace(self, history=history)

    def fence(self, epoch: int) -> "EpochState":
        """The state of a leader that has met the leader of a later epoch."""
        assert epoch > self.epoch
        return msgspec.structs.replace(self, role=EpochRole.FENCED, fenced_by=epoch, heir="")


def load_epochs(root: Path, files: Files = OS_FILES) -> EpochState:
    """What a directory says; Corrupt where that is not readable, or what `unusable` makes of it."""
    try:
        return msgspec.json.decode(read_whole(files, root / FILE), type=EpochState)
    except (FileNotFoundError, NotADirectoryError):
        return EpochState()  # who opens the directory says what is wrong with it
    except OSError as error:
        raise unusable(root, error) from error
    except msgspec.MsgspecError as error:
        raise Corrupt(
            f"{root / FILE} cannot be read: {error}",
            field="data",
            remedy="restore it from a backup; a directory without it begins with the first epoch",
        ) from error


def save_epochs(root: Path, state: EpochState, files: Files = OS_FILES) -> None:
    """On the disk when it returns; raises OSError."""
    make_lasting_directory(files, root)
    write_atomic(files, root / FILE, msgspec.json.format(msgspec.json.encode(state), indent=1))
