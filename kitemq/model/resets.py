"""Resets of a group's offsets: targets, previews and history."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta

from kitemq.model.values import OFFSET_MAX, Int64, OffsetInput

FORCE = "Move whatever the offsets are by now."
PRECONDITION = (
    "The preview's `precondition`. If the group's offsets are others by now, nothing is moved and "
    "the answer is 409 with a fresh `preview`."
)

Precondition = Annotated[str, Meta(max_length=64, description=PRECONDITION)]
Force = Annotated[bool, Meta(description=FORCE)]


class ResetTo(StrEnum):
    """The target of a reset."""

    EARLIEST = "earliest"  # the oldest message kept
    LATEST = "latest"  # the end: nothing that is stored now is read
    TIME = "time"  # the first message stored at or after a time
    OFFSET = "offset"  # one offset, the same in every queue
    SHIFT = "shift"  # so many messages forward, or back if negative
    GROUP = "group"  # where another group is


class ResetNote(StrEnum):
    """The reason why a queue does not go to the target."""

    NONE = ""
    BEFORE_OLDEST = "before_oldest"  # that is not kept any more: the oldest that is, instead
    PAST_END = "past_end"  # nothing is there yet: the end instead
    NO_PLACE = "no_place"  # there is no offset to copy or to count from: it stays as it is
    QUEUE_GONE = "queue_gone"  # the topic has no such queue any more: it stays as it is


class ResetFields(TypedDict, total=False):
    """The places that need a value, and the queues that go there, as arguments of the SDK.

    Without `queues`, all queues of the topics go there.
    """

    queues: Sequence[int]
    time_ms: int | None
    offset: int | None
    by: int | None
    from_group: str


class ResetPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The queues to move, and their targets."""

    topics: Annotated[
        list[str],
        Meta(
            min_length=1,
            max_length=64,
            description="The group's own retry topic `%RETRY%group` is moved only if named.",
        ),
    ]
    to: Annotated[
        ResetTo,
        Meta(
            description="earliest, latest, time (give `time_ms`), offset (give `offset`), shift "
            "(give `by`), group (give `from_group`)."
        ),
    ]
    queues: Annotated[
        list[int], Meta(max_length=1024, description="Of a single topic; empty means all.")
    ] = []
    time_ms: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=OFFSET_MAX,
                description="Go on at the first message stored then or later.",
            ),
        ]
        | None
    ) = None
    offset: Annotated[OffsetInput | None, Meta(description="The same in every queue.")] = None
    by: (
        Annotated[
            int,
            Meta(ge=-OFFSET_MAX, le=OFFSET_MAX, description="Messages forward; back if negative."),
        ]
        | None
    ) = None
    from_group: Annotated[str, Meta(description="The group whose offsets are copied.")] = ""


class NewReset(ResetPlace, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A reset to be carried out."""

    precondition: Precondition = ""
    force: Force = False


class UndoReset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Under which condition a reset is undone."""

    precondition: Annotated[
        str,
        Meta(
            max_length=64,
            description="Of the undo's preview; without one the group must still be where the "
            "reset put it.",
        ),
    ] = ""
    force: Force = False


class QueuePreview(msgspec.Struct, frozen=True):
    """The effect of a reset on one queue."""

    topic: str
    queue: int
    min_offset: Int64
    max_offset: Int64
    current: Annotated[Int64 | None, Meta(description="Null where the group never consumed.")]
    target: Annotated[Int64 | None, Meta(description="Null: the group begins there as a new one.")]
    moves: bool
    note: Annotated[
        ResetNote,
        Meta(
            description="before_oldest, past_end: brought to the nearer end; no_place, "
            "queue_gone: stays as it is."
        ),
    ]
    redelivered: Annotated[int, Meta(description="Messages done that would be delivered again.")]
    skipped: Annotated[int, Meta(description="Messages not done that never would be.")]
    inflight: Annotated[
        int | None,
        Meta(description="With clients; their receipts become stale. Null before a cluster."),
    ]
    target_stored_ms: Annotated[
        int | None, Meta(description="When the message at the target was stored.")
    ]


class GroupResetPreview(msgspec.Struct, frozen=True):
    """The preview of a reset; nothing was changed."""

    group: str
    to: str
    redelivered: int
    skipped: int
    inflight: int | None
    retry_waiting: Annotated[
        int | None,
        Meta(
            description="Retries that wait for their delay: no reset reaches them. Null before a "
            "cluster."
        ),
    ]
    precondition: str
    queues: list[QueuePreview]


class MovedQueue(msgspec.Struct, frozen=True):
    """A queue's offsets before and after the reset."""

    topic: str
    queue: int
    before: Int64 | None
    after: Int64 | None


class CompletedReset(msgspec.Struct, frozen=True):
    """A reset that was carried out."""

    id: Annotated[Int64, Meta(description="`0` before a cluster, where no reset is remembered.")]
    group: str
    at_ms: int
    to: str
    undoes: Annotated[Int64 | None, Meta(description="The reset that this one took back.")]
    undone_by: Annotated[Int64 | None, Meta(description="The reset that took this one back.")]
    queues: list[MovedQueue]


class GroupResetPage(msgspec.Struct, frozen=True):
    """Resets of a group, newest first."""

    items: list[CompletedReset]
    next_cursor: str | None
