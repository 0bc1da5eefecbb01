"""What a leader's cursor gives and a standby's sink takes, in order.

First the log's bytes up to a position, then the journal's up to the place where it ended when the
log ended there, then the cut that says so: at a cut a standby is what its leader was at that
moment. A standby that stops between two cuts has a log that goes further than its journal, as a
loss of power leaves it too.

Each piece has a CRC of its bytes as the leader read them: what does not match was damaged on the
way, while what is damaged in the leader's log is so in the copy.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from engine.store.journal import JournalPlace


class LogPiece(msgspec.Struct, frozen=True, tag="log", array_like=True):
    """Bytes of one segment of the log from `position` on; records may go on in the next piece."""

    position: int
    data: bytes
    crc: int


class JournalPiece(msgspec.Struct, frozen=True, tag="journal", array_like=True):
    """Bytes of the journal's file `number` from `at` on; empty ones begin the file."""

    number: int
    at: int
    data: bytes
    crc: int


class SnapshotPiece(msgspec.Struct, frozen=True, tag="snapshot", array_like=True):
    """Bytes of the journal's snapshot `number`, which holds all that lies before that file.

    A standby makes none of its own: where a leader died before its own was on the disk, changes
    that the standby's would hold may count as never made.
    """

    number: int
    at: int
    data: bytes
    crc: int
    is_last: bool


class ReplicaCut(msgspec.Struct, frozen=True, tag="cut", array_like=True):
    """The ends of log and journal that belong together.

    `oldest` is where the leader's log begins; from `crc_since` on its records have CRCs of their
    own.
    """

    log_end: int
    journal: JournalPlace
    oldest: int
    crc_since: int


Piece = LogPiece | JournalPiece | SnapshotPiece | ReplicaCut


TAIL_BYTES = 4096  # of which an end is known again
TailBytes = Annotated[int, Meta(ge=0, le=TAIL_BYTES)]
Position = Annotated[int, Meta(ge=0)]


class StandbyState(msgspec.Struct, frozen=True, array_like=True):
    """How far a standby has come, and CRCs by which a leader knows its own bytes again.

    Each CRC is that of the last bytes before the end, as many as `*_tail_bytes` says.
    """

    segment_bytes: int
    log_end: Position
    journal: JournalPlace
    snapshot: int = 0  # number of the newest one
    log_tail_bytes: TailBytes = 0
    log_tail_crc: int = 0
    journal_tail_bytes: TailBytes = 0
    journal_tail_crc: int = 0
    wants_snapshot: bool = False  # what the leader's journal had next could not be applied
    cluster: str = ""  # see `epochs`
    epoch: int = 0  # 0: it does not say
    ha_listen: str = ""  # where it serves standbys once it leads; "" nowhere, or it does not say
    promotion: str = ""  # the id of that by which its epoch began; "" of none, or it does not say
    database: str | None = None  # digest of its copy of the leader's, "" of none; None: wants none


EMPTY_STATE = StandbyState(1, 0, JournalPlace(0, 0))
