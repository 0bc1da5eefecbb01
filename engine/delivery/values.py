"""Values that delivery returns to its callers."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from engine.message import StoredMessage
from engine.store.kernel import StoredColumns


def total(counts: Iterable[int | None]) -> int | None:
    """The sum; None where one of them is not known."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


class Receipt(NamedTuple):
    """Names one delivery of one message; a later delivery of it has another `serial`."""

    topic: str
    queue: int
    offset: int
    serial: int


class ReceiptRun(msgspec.Struct, gc=False, frozen=True):
    """The receipts of one delivery of neighbouring messages; there is at least one.

    Iterating over it gives each of them.
    """

    topic: str
    queue: int
    offsets: range
    serial: int

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Receipt]:
        return (Receipt(self.topic, self.queue, each, self.serial) for each in self.offsets)


Receipts: TypeAlias = Sequence[Receipt] | ReceiptRun


class Delivery(msgspec.Struct, gc=False, frozen=True):
    """A message in a client's hands until `invisible_until_ms`; `attempt` starts at 1."""

    message: StoredMessage
    receipt: Receipt
    attempt: int
    invisible_until_ms: int


class DeliveryRun(NamedTuple):
    """Plain neighbouring messages of one queue in a client's hands, each for the first time."""

    receipts: ReceiptRun
    columns: StoredColumns


class DeliveryColumns(NamedTuple):
    """Messages in a client's hands until `invisible_until_ms`, by column."""

    runs: list[DeliveryRun]
    invisible_until_ms: int


class AckResult(StrEnum):
    """Result of settling a receipt."""

    DONE = "done"
    ALREADY = "already"  # the message was done before
    STALE = "stale"  # the message was, or will be, delivered again


class Nack(msgspec.Struct, gc=False, frozen=True):
    """A failure that a client reports.

    `delay_s` (0 … the longest level) is how long the message should wait at least; `delay_level`
    names a level, below 0 means straight to the dead letters; with neither, the retry ladder
    decides. `error` is kept with the message.
    """

    receipt: Receipt
    delay_s: float | None = None
    delay_level: int | None = None
    error: str = ""


class ExtendResult(msgspec.Struct, gc=False, frozen=True):
    """The answer to a request for more time; `until_ms` is 0 unless `result` is DONE."""

    result: AckResult
    until_ms: int


class LagBasis(StrEnum):
    """Basis of a lag's count."""

    MATCHING = "matching"  # what the group's filter lets through; without one, everything
    ALL = "all"  # everything: the filter is not known, is SQL92, or too much is open


class QueueLag(msgspec.Struct, frozen=True):
    """Lag of a group in one queue.

    `count` messages are not done, `inflight` of them with clients. Everything before `committed`
    is done; `cursor` is the next to be delivered for the first time. `oldest_ms` is when the
    oldest one that is not done was stored. `expired` counts those that retention or a purge ever
    took before the group was done with them. `counts` says whether what the group's filter leaves
    out is counted too (see `subscription_filters.py`). None is what the engine cannot tell.
    """

    topic: str
    queue: int
    min_offset: int
    max_offset: int
    committed: int
    cursor: int
    count: int
    inflight: int | None
    oldest_ms: int | None
    expired: int | None = 0
    counts: LagBasis = LagBasis.ALL


class GroupLag(msgspec.Struct, frozen=True):
    """The same over all queues of a group; `retry_waiting` are in the delay levels, besides.

    `counts` is ALL where it is for any queue. Of the `dead` ones `resent` were sent again by
    replay jobs, and `dismissed` need no action. `unknown` says why queues are missing, which the
    sums lack, too; "" where these are all.
    """

    queues: list[QueueLag]
    count: int
    inflight: int | None
    retry_waiting: int | None
    dead: int
    oldest_age_ms: int | None
    counts: LagBasis = LagBasis.ALL
    dismissed: int = 0
    resent: int = 0
    unknown: str = ""

    @property
    def dead_open(self) -> int:
        """Number of dead letters that are open."""
        return self.dead - self.dismissed - self.resent
