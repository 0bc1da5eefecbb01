"""Members of a consumer group: heartbeats, who is alive, whose queues are whose, queue locks."""

from collections.abc import Sequence
from heapq import nsmallest
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.framework.operation import API, Call, operation
from app.api.topics.topics import PAGE_DEFAULT, Cursor, Limit
from app.security.access import Action, Needs, ResourceKind
from engine.broker import LockedQueue, Member, Mode, Strategy

TAG = "members"
LOCKS_SHOWN_MAX = 1024
DIFFER = "subscriptions_differ"

ClientId = Annotated[str, Meta(min_length=1, max_length=255, description="Who the consumer is.")]
Text = Annotated[str, Meta(max_length=255)]
Subscribed = Annotated[dict[str, str], Meta(max_length=64, description="Topic to filter.")]


class NewHeartbeat(msgspec.Struct, forbid_unknown_fields=True):
    """A sign of life of a pulling consumer, and what it subscribes to."""

    client: ClientId
    topics: Subscribed = {}
    version: Text = ""
    language: Text = ""


class Variant(msgspec.Struct):
    """One of several subscriptions, and who has it; at most 100 clients are named."""

    topics: dict[str, str]
    clients: list[str]
    count: int


class GroupWarning(msgspec.Struct):
    """Something that is wrong with a group while everything still works.

    subscriptions_differ: its members subscribe to different topics or filters.
    """

    code: str
    detail: str
    variants: list[Variant]


class Heartbeat(msgspec.Struct):
    """How the group is. A member is gone when nothing is heard of it for `timeout_ms`."""

    group: str
    client: str
    timeout_ms: int
    members: int
    warnings: list[GroupWarning]


class MemberInfo(msgspec.Struct):
    """A consumer that is alive."""

    client: str
    version: str
    language: str
    address: str
    topics: dict[str, str]
    is_pulling: Annotated[bool, Meta(description="Sends heartbeats, so it gets a share of queues.")]
    is_connected: Annotated[bool, Meta(description="Subscribes on an open WebSocket.")]
    joined_ms: int
    seen_ms: int


class MemberQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which members are listed."""

    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


class MemberPage(msgspec.Struct):
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


class LeaveQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Who leaves."""

    client: ClientId


class AssignmentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whose queues of which topic; without a strategy the group's."""

    topic: str
    client: ClientId
    strategy: Strategy | UnsetType = UNSET


class Assigned(msgspec.Struct):
    """The queues that are the client's now, and among whom they were shared out."""

    group: str
    topic: str
    client: str
    strategy: Strategy
    mode: Mode
    is_member: Annotated[bool, Meta(description="False: it sends no heartbeats, and gets nothing.")]
    queues: list[int]
    clients: list[str]


class Queue(msgspec.Struct, forbid_unknown_fields=True):
    """A queue of a topic."""

    topic: str
    queue: Annotated[int, Meta(ge=0, le=65535)]


class Queues(msgspec.Struct, forbid_unknown_fields=True):
    """Queues to lock or to unlock for a client."""

    client: ClientId
    queues: Annotated[list[Queue], Meta(min_length=1, max_length=1024)]


class Locked(msgspec.Struct):
    """The queues that are locked for the client now; those that others hold are left out.

    It may read them until `read_until_ms`, half of the lease; lock them again well before that.
    """

    locked: list[Queue]
    lease_ms: int
    read_until_ms: int


class Unlocked(msgspec.Struct):
    """The queues that the client had and has no more."""

    unlocked: list[Queue]


class LockQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which locks are listed: those of one topic, at most so many."""

    topic: str = ""
    limit: Annotated[int, Meta(ge=1, le=LOCKS_SHOWN_MAX)] = LOCKS_SHOWN_MAX


class Lock(msgspec.Struct):
    """A locked queue: whose it is, until when unless it is locked again."""

    topic: str
    queue: int
    client: str
    until_ms: int


class Locks(msgspec.Struct):
    """Locked queues by topic and number; `total` counts those that were not listed too."""

    group: str
    items: list[Lock]
    total: int


@operation(
    "POST",
    f"{API}/groups/{{group}}/members/heartbeat",
    tag=TAG,
    needs=Needs(Action.CONSUME, ResourceKind.GROUP, "group"),
    body=NewHeartbeat,
    answer=Heartbeat,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/members/heartbeat "
    """-H 'Content-Type: application/json' -d '{"client": "w1", "topics": {"orders": "*"}}'""",
)
async def heartbeat(call: Call[None, NewHeartbeat]) -> Heartbeat:
    """Say that a pulling consumer is alive.

    Send one every 30 s. Whoever receives, or subscribes on a WebSocket, under its name is a member
    without it, but gets no share of queues.
    """
    new, group = call.body, call.path("group")
    call.claim_client(group, new.client)
    members = call.host.broker.members
    member = members.heartbeat(
        group,
        new.client,
        topics=new.topics,
        version=new.version,
        language=new.language,
        address=call.client,
    )
    timeout_ms = round(members.timeout_s * 1000)
    return Heartbeat(group, member.client, timeout_ms, members.count(group), _warnings(call, group))


@operation(
    "GET",
    f"{API}/groups/{{group}}/members",
    tag=TAG,
    needs=Needs(Action.READ, ResourceKind.GROUP, "group"),
    query=MemberQuery,
    answer=MemberPage,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing/members",
)
async def list_members(call: Call[MemberQuery, None]) -> MemberPage:
    """List the live consumers of a group.

    Warns where they subscribe to different things: a message goes to one of them only.
    """
    group, query = call.path("group"), call.query
    members = call.host.broker.members
    alive = members.of(group)
    rest = (member for member in alive if member.client > query.cursor)
    page = nsmallest(query.limit + 1, rest, key=lambda member: member.client)
    more = len(page) > query.limit
    return MemberPage(
        group,
        [_member(member) for member in page[: query.limit]],
        page[query.limit - 1].client if more else None,
        len(alive),
        members.subscription(group),
        _warnings(call, group),
    )


@operation(
    "DELETE",
    f"{API}/groups/{{group}}/members",
    tag=TAG,
    needs=Needs(Action.CONSUME, ResourceKind.GROUP, "group"),
    query=LeaveQuery,
    status=204,
    errors=(404,),
    example="curl -X DELETE '$URL/api/v1/groups/billing/members?client=w1'",
)
async def leave(call: Call[LeaveQuery, None]) -> None:
    """Say goodbye: its queues and locks are others' at once.

    A client that subscribes on an open WebSocket stays a member. Who is no member changes nothing.
    """
    group, client = call.path("group"), call.query.client
    call.check_client(group, client)
    call.host.broker.members.leave(group, client)


@operation(
    "GET",
    f"{API}/groups/{{group}}/assignment",
    tag=TAG,
    needs=Needs(Action.READ, ResourceKind.GROUP, "group"),
    query=AssignmentQuery,
    answer=Assigned,
    errors=(404, 409),
    example="curl '$URL/api/v1/groups/billing/assignment?topic=orders&client=w1'",
)
async def get_assignment(call: Call[AssignmentQuery, None]) -> Assigned:
    """Ask which queues of a topic are a pulling consumer's.

    Shared out among the live members that send heartbeats and subscribe to the topic. Ask again
    after each heartbeat: it changes when members come and go. In a broadcast everybody gets all.
    """
    query = call.query
    found = call.host.broker.members.assignment(
        call.path("group"),
        query.topic,
        query.client,
        strategy=None if query.strategy is UNSET else query.strategy,
        broker_name=call.settings.broker_name,
    )
    return Assigned(
        found.group,
        found.topic,
        found.client,
        found.strategy,
        found.mode,
        found.is_member,
        found.queues,
        found.clients,
    )


@operation(
    "POST",
    f"{API}/groups/{{group}}/locks",
    tag=TAG,
    needs=Needs(Action.CONSUME, ResourceKind.GROUP, "group"),
    body=Queues,
    answer=Locked,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/locks -H 'Content-Type: application/json' "
    """-d '{"client": "w1", "queues": [{"topic": "orders", "queue": 0}]}'""",
)
async def lock_queues(call: Call[None, Queues]) -> Locked:
    """Lock queues for an orderly consumer, or keep them.

    While anybody of a group holds a lock, what is sent to its retry topic is a dead letter.
    """
    wanted, group = call.body, call.path("group")
    call.claim_client(group, wanted.client)
    broker = call.host.broker
    answer = broker.locks.lock(group, wanted.client, _ids(wanted))
    broker.members.seen(group, wanted.client, address=call.client)
    return Locked(_queues(answer.locked), round(answer.lease_s * 1000), answer.read_until_ms)


@operation(
    "POST",
    f"{API}/groups/{{group}}/unlocks",
    tag=TAG,
    needs=Needs(Action.CONSUME, ResourceKind.GROUP, "group"),
    body=Queues,
    answer=Unlocked,
    errors=(404,),
    example="curl -X POST $URL/api/v1/groups/billing/unlocks -H 'Content-Type: application/json' "
    """-d '{"client": "w1", "queues": [{"topic": "orders", "queue": 0}]}'""",
)
async def unlock_queues(call: Call[None, Queues]) -> Unlocked:
    """Give locked queues up. Those that are not the client's stay as they are."""
    wanted, group = call.body, call.path("group")
    call.check_client(group, wanted.client)
    freed = call.host.broker.locks.unlock(group, wanted.client, _ids(wanted))
    return Unlocked(_queues(freed))


@operation(
    "GET",
    f"{API}/groups/{{group}}/locks",
    tag=TAG,
    needs=Needs(Action.READ, ResourceKind.GROUP, "group"),
    query=LockQuery,
    answer=Locks,
    errors=(404,),
    example="curl '$URL/api/v1/groups/billing/locks?topic=orders'",
)
async def list_locks(call: Call[LockQuery, None]) -> Locks:
    """List the locked queues of a group."""
    group, query = call.path("group"), call.query
    held = [
        Lock(item.topic, item.queue, item.client, item.until_ms)
        for item in call.host.broker.locks.of(group)
        if query.topic in ("", item.topic)
    ]
    return Locks(group, held[: query.limit], len(held))


def _member(member: Member) -> MemberInfo:
    return MemberInfo(
        member.client,
        member.version,
        member.language,
        member.address,
        member.topics,
        member.is_pulling,
        member.is_connected,
        member.joined_ms,
        member.seen_ms,
    )


def _warnings(call: Call[Any, Any], group: str) -> list[GroupWarning]:
    found = call.host.broker.members.warning(group)
    if found is None:
        return []
    variants = [Variant(each.topics, each.clients, each.count) for each in found.variants]
    return [GroupWarning(DIFFER, found.detail, variants)]


def _ids(wanted: Queues) -> list[LockedQueue]:
    return [LockedQueue(each.topic, each.queue) for each in wanted.queues]


def _queues(ids: Sequence[LockedQueue]) -> list[Queue]:
    return [Queue(each.topic, each.queue) for each in ids]


OPERATIONS = (
    heartbeat,
    list_members,
    leave,
    get_assignment,
    lock_queues,
    unlock_queues,
    list_locks,
)
