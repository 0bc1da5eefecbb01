"""Members of a consumer group: heartbeats, liveness, shares of queues, queue locks."""

from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.groups import Mode, Strategy
from kitemq.model.values import NULL_IF_UNKNOWN, Int64

ClientId = Annotated[str, Meta(min_length=1, max_length=255, description="Who the consumer is.")]
Text = Annotated[str, Meta(max_length=255)]


class NewHeartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A heartbeat of a pulling consumer, with its subscriptions."""

    client: ClientId
    topics: Annotated[dict[str, str], Meta(max_length=64, description="Topic to filter.")] = {}
    version: Text = ""
    language: Text = ""


class ClientSubscription(msgspec.Struct, frozen=True):
    """One of several subscriptions, and its clients; at most 100 are named."""

    topics: dict[str, str]
    clients: list[str]
    count: int


class GroupWarning(msgspec.Struct, frozen=True):
    """Something that is wrong with a group while everything still works.

    subscriptions_differ: its members subscribe to different topics or filters.
    members_mixed: some members share queues (classic clients), others take single messages.
    """

    code: str
    detail: str
    variants: list[ClientSubscription]


class HeartbeatAnswer(msgspec.Struct, frozen=True):
    """The state of the group. A member is gone when nothing is heard of it for `timeout_ms`."""

    group: str
    client: str
    timeout_ms: int
    members: int
    warnings: list[GroupWarning]


class MemberInfo(msgspec.Struct, frozen=True):
    """A consumer that is alive."""

    client: str
    version: str
    language: str
    address: str
    topics: dict[str, str]
    is_pulling: Annotated[bool, Meta(description="Sends heartbeats, so it gets a share of queues.")]
    is_connected: Annotated[bool, Meta(description="Subscribes on an open WebSocket.")]
    joined_ms: Annotated[int | None, Meta(description=NULL_IF_UNKNOWN)]
    seen_ms: Annotated[int | None, Meta(description=NULL_IF_UNKNOWN)]


class MemberPage(msgspec.Struct, frozen=True):
    """A page of members by client; `total` counts all.

    `subscription` is that of the last heartbeat: in RocketMQ all that the group gets, here only
    what such a client is told.
    """

    group: str
    items: list[MemberInfo]
    next_cursor: str | None
    total: int
    subscription: dict[str, str]
    warnings: list[GroupWarning]


class MemberQueue(msgspec.Struct, frozen=True):
    """A queue that a member reads. What the member does not tell of it is null."""

    topic: str
    queue: int
    is_shared: Annotated[
        bool, Meta(description="By POP: other members may get messages of this queue, too.")
    ] = False
    offset: Annotated[
        Int64 | None, Meta(description="The next message that it commits; null with POP.")
    ] = None
    cached: Annotated[
        int | None, Meta(description="Messages that are with the member, not yet consumed.")
    ] = None
    is_locked: Annotated[
        bool | None, Meta(description="Whether it has the lock; null unless it consumes in order.")
    ] = None


class MemberQueues(msgspec.Struct, frozen=True):
    """The queues that a member reads, without retries; null where `unknown` says why."""

    client: str
    queues: list[MemberQueue] | None
    unknown: str = ""


class MemberQueuesPage(msgspec.Struct, frozen=True):
    """A page of members by client, with their queues; `total` counts all members."""

    group: str
    items: list[MemberQueues]
    next_cursor: str | None
    total: int


class QueueAssignment(msgspec.Struct, frozen=True):
    """The queues assigned to the client, and the members that share them."""

    group: str
    topic: str
    client: str
    strategy: Strategy
    mode: Mode
    is_member: Annotated[bool, Meta(description="False: it sends no heartbeats, and gets nothing.")]
    queues: list[int]
    clients: list[str]


class TopicQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue of a topic."""

    topic: str
    queue: Annotated[int, Meta(ge=0, le=65535)]


class LockRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Queues to lock or to unlock for a client."""

    client: ClientId
    queues: Annotated[list[TopicQueue], Meta(min_length=1, max_length=1024)]


class LockedQueues(msgspec.Struct, frozen=True):
    """The queues that are locked for the client now; those that others hold are left out.

    It may read them until `read_until_ms`, half of the lease; lock them again well before that.
    """

    locked: list[TopicQueue]
    lease_ms: int
    read_until_ms: int


class UnlockedQueues(msgspec.Struct, frozen=True):
    """The queues that the client had and has no more."""

    unlocked: list[TopicQueue]


class LockHolder(msgspec.Struct, frozen=True):
    """A locked queue: whose it is, until when unless it is locked again."""

    topic: str
    queue: int
    client: str
    until_ms: int


class LockPage(msgspec.Struct, frozen=True):
    """Locked queues by topic and number; `total` counts those that were not listed too."""

    group: str
    items: list[LockHolder]
    total: int
