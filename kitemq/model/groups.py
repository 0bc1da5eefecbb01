"""Consumer groups, and their settings."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType


class StartAt(StrEnum):
    """The position where a group begins in a topic that it has not consumed yet."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"  # at the first message stored at or after the group's `start_at_ms`
    ROCKETMQ = "rocketmq"  # all of a young topic, else what is new


class Mode(StrEnum):
    """Whether the clients of a group share its messages, or each gets all of them."""

    CLUSTERING = "clustering"
    BROADCAST = "broadcast"


class Strategy(StrEnum):
    """The strategy by which queues are shared out."""

    AVERAGE = "average"
    CIRCLE = "circle"
    CONSISTENT_HASH = "consistent_hash"
    MACHINE_ROOM = "machine_room"


class GroupStatus(StrEnum):
    """What a group is doing, the most severe first."""

    NO_CONSUMERS = "no_consumers"  # messages are unread, and no consumer is connected
    FALLING_BEHIND = "falling_behind"
    PAUSED = "paused"
    CATCHING_UP = "catching_up"
    ACTIVE = "active"
    IDLE = "idle"  # nothing is unread, and nothing was consumed in the last minute


class StatusReason(StrEnum):
    """Why a group has its status."""

    PAUSED = "paused"
    NO_CONSUMERS = "no_consumers"
    STALLED = "stalled"  # consumers are connected, and consumed nothing in the last minute
    GROWING = "growing"  # the lag grew over the last quarter of an hour, and still does
    NOT_SHRINKING = "not_shrinking"  # messages wait for 5 minutes, and the lag does not shrink
    SHRINKING = "shrinking"
    IN_FLIGHT = "in_flight"  # clients hold messages, or have just been sent some
    KEEPS_UP = "keeps_up"
    WAITING = "waiting"  # consumers are connected, and nothing is unread
    UNUSED = "unused"  # nothing is unread, and no consumer is connected
    NOT_BEGUN = "not_begun"  # it has no offset in any queue yet


class Ladder(msgspec.Struct, frozen=True, tag_field="kind", tag="ladder"):
    """The delay levels: 10 s after the first failure, then level by level up to 2 h."""


class Exponential(
    msgspec.Struct,
    frozen=True,
    tag_field="kind",
    tag="exponential",
    forbid_unknown_fields=True,
):
    """`initial_ms` after the first failure, then `multiplier` times as long, at most `max_ms`."""

    initial_ms: int = 5_000
    max_ms: int = 7_200_000
    multiplier: float = 2.0


class Steps(msgspec.Struct, frozen=True, tag_field="kind", tag="steps", forbid_unknown_fields=True):
    """A wait of its own after each failure; the last one counts for all that follow."""

    delays_ms: tuple[int, ...]


RetryMax = Annotated[int, Meta(ge=0, le=10_000, description="Retries after the first delivery.")]
Start = Annotated[
    StartAt,
    Meta(
        description="Where it begins in a topic new to it: earliest, latest, time (start_at_ms), "
        "or rocketmq: all of a young topic, else what is new, as official clients expect."
    ),
]
StartAtMs = Annotated[int, Meta(ge=0, description="For start time; ms since 1970 UTC, else 0.")]
ConsumeEnabled = Annotated[bool, Meta(description="False: it is paused, and gets nothing.")]
DeadLetters = Annotated[bool, Meta(description="False: what used up its attempts is dropped.")]
GroupMode = Annotated[
    Mode, Meta(description="clustering: clients share the messages; broadcast: each gets all.")
]
RetryPolicy = Annotated[
    Ladder | Exponential | Steps,
    Meta(
        description="How long a failed message waits: the ladder of delay levels, exponential, "
        "or steps, a list of waits."
    ),
]
GroupStrategy = Annotated[
    Strategy,
    Meta(
        description="How queues are shared out to pulling consumers: average, circle, "
        "consistent_hash or machine_room."
    ),
]
Rooms = Annotated[
    tuple[str, ...],
    Meta(max_length=64, description='For machine_room: rooms of brokers named "room@broker".'),
]
Ordered = Annotated[
    bool,
    Meta(
        description="Messages of one message group of a FIFO topic come one after the other; "
        "without it, and in other topics, side by side."
    ),
]


DismissWhenResent = Annotated[
    bool,
    Meta(description="Its dead letters that a replay job sent again count as dismissed."),
]


class GroupSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What changes; what is left out stays.

    A new setting is a field here and in `Group`, and one of the engine's `GroupConfig`: REST, the
    SDK and the command line take their lists from here.
    """

    retry_max: RetryMax | UnsetType = UNSET
    start: Start | UnsetType = UNSET
    consume_enabled: ConsumeEnabled | UnsetType = UNSET
    dead_letters: DeadLetters | UnsetType = UNSET
    mode: GroupMode | UnsetType = UNSET
    start_at_ms: StartAtMs | UnsetType = UNSET
    retry_policy: RetryPolicy | UnsetType = UNSET
    strategy: GroupStrategy | UnsetType = UNSET
    rooms: Rooms | UnsetType = UNSET
    ordered: Ordered | UnsetType = UNSET
    dismiss_when_resent: DismissWhenResent | UnsetType = UNSET


SETTINGS = GroupSettings.__struct_fields__


class NewGroup(GroupSettings, frozen=True, kw_only=True):
    """A group to be created. What is left out is the broker's default."""

    name: Annotated[str, Meta(description="Letters, digits, `_`, `-`, `|`; at most 120.")]


class Group(msgspec.Struct, frozen=True):
    """A consumer group's settings."""

    name: str
    retry_max: RetryMax
    start: Start
    consume_enabled: ConsumeEnabled
    dead_letters: DeadLetters
    mode: GroupMode
    start_at_ms: StartAtMs
    retry_policy: RetryPolicy
    strategy: GroupStrategy
    rooms: Rooms
    ordered: Ordered
    dismiss_when_resent: DismissWhenResent
    paused: Annotated[bool, Meta(description="The whole group is; see pause and resume.")]
    paused_topics: tuple[str, ...]
    members: Annotated[int, Meta(description="Consumers that are alive.")]
    status: Annotated[
        GroupStatus | None,
        Meta(
            description="no_consumers, falling_behind, paused, catching_up, active or idle: the "
            "word that the console shows; null while it is unknown."
        ),
    ]
    status_reason: Annotated[
        StatusReason | None,
        Meta(
            description="Why: paused, no_consumers, stalled (consumers, but none consumes), "
            "growing, not_shrinking, shrinking, in_flight, keeps_up, waiting (for messages), "
            "unused, not_begun; null while it is unknown."
        ),
    ]
    unknown: Annotated[
        str,
        Meta(description="Why the status is unknown, as broker b is away; empty if it is known."),
    ] = ""


class GroupPage(msgspec.Struct, frozen=True):
    """A page of groups by name; `total` counts all that match."""

    items: list[Group]
    next_cursor: str | None
    total: int
