"""REST for members of a consumer group: heartbeats, liveness, shares of queues, queue locks."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Cursor, Limit, page_by
from app.security.access import Action
from engine.broker import LockedQueue
from engine.broker import Strategy as EngineStrategy
from kitemq.model.conversion import convert
from kitemq.model.groups import Strategy
from kitemq.model.members import (
    ClientId,
    GroupWarning,
    HeartbeatAnswer,
    LockedQueues,
    LockHolder,
    LockPage,
    LockRequest,
    MemberInfo,
    MemberPage,
    MemberQueuesPage,
    NewHeartbeat,
    QueueAssignment,
    TopicQueue,
    UnlockedQueues,
)

operations = Operations("members")
LOCKS_MAX = 1024
DIFFER = "subscriptions_differ"
MIXED = "members_mixed"
MIXED_DETAIL = (
    "classic clients (TCP) share queues and the other members take single messages: some messages "
    "are processed by both; give each kind a group of its own"
)


class MemberQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of members."""

    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


class LeaveQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The client that leaves."""

    client: ClientId


class AssignmentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whose queues of which topic; without a strategy the group's."""

    topic: str
    client: ClientId
    strategy: Strategy | UnsetType = UNSET


class LockQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The topic whose locks to list, and the limit."""

    topic: str = ""
    limit: Annotated[int, Meta(ge=1, le=LOCKS_MAX)] = LOCKS_MAX


@operations.post(
    "/groups/{group}/members/heartbeat",
    needs=Action.CONSUME,
    errors=(409,),
    example_body='{"client": "w1", "topics": {"orders": "*"}}',
)
async def heartbeat(call: Call[None, NewHeartbeat]) -> HeartbeatAnswer:
    """Send the heartbeat of a pulling consumer.

    Send one every 30 s. A client that receives, or subscribes on a WebSocket, under its name is a
    member without it, but gets no share of queues.
    """
    new, group = call.body, call.path("group")
    call.claim_client(group, new.client)
    members = call.administration.members
    member = await call.messaging.members.heartbeat(
        group,
        new.client,
        topics=new.topics,
        version=new.version,
        language=new.language,
        address=call.client,
    )
    return HeartbeatAnswer(
        group=group,
        client=member.client,
        timeout_ms=round(members.timeout_s * 1000),
        members=await members.count(group),
        warnings=await _warnings(call, group),
    )


@operations.get("/groups/{group}/members", needs=Action.READ)
async def list_members(call: Call[MemberQuery, None]) -> MemberPage:
    """List the live consumers of a group.

    Warns where they subscribe to different things: a message goes to one of them only.
    """
    group, query = call.path("group"), call.query
    members = call.administration.members
    alive = await members.of(group)
    page, next_cursor = page_by(alive, attrgetter("client"), query.cursor, query.limit)
    return MemberPage(
        group=group,
        items=[convert(member, MemberInfo) for member in page],
        next_cursor=next_cursor,
        total=len(alive),
        subscription=await members.subscription(group),
        warnings=await _warnings(call, group),
    )


@operations.get("/groups/{group}/members/queues", capability="member_queues", needs=Action.READ)
async def list_member_queues(call: Call[MemberQuery, None]) -> MemberQueuesPage:
    """List which queues the live consumers of a group read.

    Classic clients are asked, at most four side by side for two seconds each; a pulling consumer
    has its share. `unknown` names who does not tell, or has no queues of its own.
    """
    group, query = call.path("group"), call.query
    alive = await call.administration.members.of(group)
    page, next_cursor = page_by(alive, attrgetter("client"), query.cursor, query.limit)
    queues = await call.services.member_queues.of(group, page)
    return MemberQueuesPage(group, queues, next_cursor, len(alive))


@operations.delete("/groups/{group}/members", needs=Action.CONSUME, example="?client=w1")
async def leave(call: Call[LeaveQuery, None]) -> None:
    """Leave a group: the queues and locks of the client are free at once.

    A client that subscribes on an open WebSocket stays a member. Without a membership nothing
    changes.
    """
    group, client = call.path("group"), call.query.client
    call.check_client(group, client)
    await call.messaging.members.leave(group, client)


@operations.get(
    "/groups/{group}/assignment",
    needs=Action.READ,
    errors=(409,),
    example="?topic=orders&client=w1",
)
async def get_assignment(call: Call[AssignmentQuery, None]) -> QueueAssignment:
    """Ask which queues of a topic are a pulling consumer's.

    Shared out among the live members that send heartbeats and subscribe to the topic. Ask again
    after each heartbeat: it changes when members come and go. In a broadcast everybody gets all.
    """
    query = call.query
    assignment = await call.messaging.members.assignment(
        call.path("group"),
        query.topic,
        query.client,
        strategy=None if query.strategy is UNSET else EngineStrategy(query.strategy),
        broker_name=call.settings.broker_name,
    )
    return convert(assignment, QueueAssignment)


@operations.post(
    "/groups/{group}/locks",
    needs=Action.CONSUME,
    errors=(409,),
    example_body='{"client": "w1", "queues": [{"topic": "orders", "queue": 0}]}',
)
async def lock_queues(call: Call[None, LockRequest]) -> LockedQueues:
    """Lock queues for an orderly consumer, or renew the locks.

    While a member of the group holds a lock, messages sent to its retry topic are dead letters.
    """
    request, group = call.body, call.path("group")
    call.claim_client(group, request.client)
    messaging = call.messaging
    result = await messaging.locks.lock(group, request.client, _ids(request))
    await messaging.members.seen(group, request.client, address=call.client)
    return LockedQueues(_queues(result.locked), round(result.lease_s * 1000), result.read_until_ms)


@operations.post(
    "/groups/{group}/unlocks",
    needs=Action.CONSUME,
    example_body='{"client": "w1", "queues": [{"topic": "orders", "queue": 0}]}',
)
async def unlock_queues(call: Call[None, LockRequest]) -> UnlockedQueues:
    """Give locked queues up. Those that are not the client's stay as they are."""
    request, group = call.body, call.path("group")
    call.check_client(group, request.client)
    freed = await call.messaging.locks.unlock(group, request.client, _ids(request))
    return UnlockedQueues(_queues(freed))


@operations.get("/groups/{group}/locks", needs=Action.READ, example="?topic=orders")
async def list_locks(call: Call[LockQuery, None]) -> LockPage:
    """List the locked queues of a group."""
    group, query = call.path("group"), call.query
    held = await call.messaging.locks.of(group)
    locks = [each for each in held if query.topic in ("", each.topic)]
    return LockPage(group, [convert(each, LockHolder) for each in locks[: query.limit]], len(locks))


async def _warnings(call: Call[Any, Any], group: str) -> list[GroupWarning]:
    warning = await call.administration.members.warning(group)
    warnings = [] if warning is None else [convert(warning, GroupWarning, code=DIFFER)]
    if call.services.mixed_groups.is_mixed(group):
        warnings.append(GroupWarning(MIXED, MIXED_DETAIL, []))
    return warnings


def _ids(request: LockRequest) -> list[LockedQueue]:
    return [LockedQueue(each.topic, each.queue) for each in request.queues]


def _queues(ids: Sequence[LockedQueue]) -> list[TopicQueue]:
    return [TopicQueue(*each) for each in ids]
