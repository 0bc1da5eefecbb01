"""Progress of a group: its lag, and the offsets that pulling consumers commit."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.values import NULL_IF_UNKNOWN, QUEUES_MISSING, Int64, OffsetText

ClientName = Annotated[
    str, Meta(max_length=255, description="Whose progress, where the group broadcasts.")
]


class LagBasis(StrEnum):
    """What a lag counts."""

    MATCHING = "matching"
    ALL = "all"


class QueueLag(msgspec.Struct, frozen=True):
    """Progress of a group in one queue. Everything before `committed` is done."""

    topic: str
    queue: int
    min_offset: Int64
    max_offset: Int64
    committed: Int64
    count: Annotated[int, Meta(description="Messages not done, those in flight included.")]
    inflight: Annotated[int | None, Meta(description=NULL_IF_UNKNOWN)]
    oldest_ms: Annotated[int | None, Meta(description="When its oldest open message was stored.")]
    counts: Annotated[
        LagBasis,
        Meta(
            description="matching: `count` leaves out what the group's tag filter does; all: it "
            "counts everything, as the filter is not known (nobody received since the start), is "
            "SQL92, or over 10,000 messages are open."
        ),
    ]
    expired: Annotated[
        int | None,
        Meta(
            description="Messages that went by retention or a purge before it was done. "
            + NULL_IF_UNKNOWN
        ),
    ]


class Lag(msgspec.Struct, frozen=True):
    """The lag of a group, of the brokers that are there."""

    group: str
    count: Annotated[int | None, Meta(description="Null while a queue is missing.")]
    inflight: Annotated[int | None, Meta(description=NULL_IF_UNKNOWN)]
    retry_waiting: Annotated[int | None, Meta(description=NULL_IF_UNKNOWN)]
    dead: Annotated[int | None, Meta(description="Null while a queue is missing.")]
    dismissed: Annotated[int, Meta(description="Of the dead ones, those that are dismissed.")]
    resent: Annotated[int, Meta(description="Of the dead ones, those that were sent again.")]
    oldest_age_ms: int | None
    counts: Annotated[LagBasis, Meta(description="all where it is for any queue.")]
    queues: list[QueueLag]
    unknown: Annotated[str, Meta(description=QUEUES_MISSING)] = ""


class QueueOffset(msgspec.Struct, frozen=True):
    """A committed offset: the next message to read. Null where none was committed."""

    queue: int
    offset: Int64 | None
    start: Annotated[Int64 | None, Meta(description="Where to begin if nothing is committed.")]


class Offsets(msgspec.Struct, frozen=True):
    """A group's committed offsets in one topic."""

    group: str
    topic: str
    queues: list[QueueOffset]


class NewOffset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The offset to commit: the next message to read, backwards too."""

    topic: str
    queue: Annotated[int, Meta(ge=0, le=65535)]
    offset: OffsetText
    client: ClientName = ""
