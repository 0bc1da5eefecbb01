"""Transactions: where they stand, decisions, checks, and callbacks of producer groups."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.messages import MessageView, Stored
from kitemq.model.values import Int64, Milliseconds

POLL_MAX = 32  # checks of one poll
CALLBACK_MS = 5000


class Decision(StrEnum):
    """The outcome of a transaction. UNKNOWN: check again later."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"


class TransactionState(StrEnum):
    """The state of a transaction on the server."""

    PENDING = "pending"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    GIVEN_UP = "given_up"  # not checked any more, but it can still be decided


class TransactionInfo(msgspec.Struct, frozen=True):
    """One transaction. `message` is as it would be delivered, with the half message's place.

    `offset` is where the committed message stands in `queue` of `topic`. `next_check_ms` is null
    where none will be made, `begun_ms` is when the half message was stored.
    """

    transaction_id: str
    producer_group: str
    topic: str
    queue: int
    state: TransactionState
    checks: int
    next_check_ms: int | None
    offset: Int64 | None
    half_offset_id: str
    message: MessageView
    begun_ms: Milliseconds = 0


class UndecidedTransactions(msgspec.Struct, frozen=True):
    """Undecided transactions, oldest first. `next` is null at the end; `total` is of all groups.

    A page for one group may be short or empty although `next` is given: ask on. Where there are
    more than the engine can list, `unknown` says why, and `total` is null.
    """

    items: list[TransactionInfo]
    next: str | None
    total: int | None
    unknown: str = ""


class DecidedTransaction(msgspec.Struct, frozen=True):
    """The state of the transaction. `offset` is the committed message's, in `queue` of `topic`."""

    transaction_id: str
    state: TransactionState
    topic: str
    queue: int
    offset: Int64 | None


class NewCheckPoll(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Checks of a producer group."""

    group: str
    max: Annotated[int, Meta(ge=1, le=POLL_MAX)] = POLL_MAX


class PendingCheck(msgspec.Struct, frozen=True):
    """A check of a transaction. `number` counts its checks from 1."""

    transaction_id: str
    producer_group: str
    number: int
    message: Stored


class PendingChecks(msgspec.Struct, frozen=True):
    """Checks to be answered by commit or rollback before the next one is due."""

    checks: list[PendingCheck]


class NewCallback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The callback of a producer group."""

    url: Annotated[str, Meta(description="http or https, without user and password.")]
    timeout_ms: Annotated[
        int, Meta(ge=1, le=30_000, description="How long an answer may take.")
    ] = CALLBACK_MS


class TransactionCallback(msgspec.Struct, frozen=True):
    """Where a producer group is asked, and how many connections of it are asked before.

    `url` has `***` for what could be a secret; sent back as it is, it stays what it was.
    """

    group: str
    url: str
    timeout_ms: int
    live_producers: int


class CallbackList(msgspec.Struct, frozen=True):
    """Callbacks by group."""

    items: list[TransactionCallback]
