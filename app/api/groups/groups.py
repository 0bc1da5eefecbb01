"""Consumer groups: their settings, pause and resume. How far they are is `progress.py`'s."""

from heapq import nsmallest
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.framework.operation import API, Call, operation
from app.api.topics.topics import PAGE_DEFAULT, Cursor, Limit, actor_of
from app.security.access import READ_SERVER, Action, Kind, Needs
from app.services.groups import GroupChanges, Groups
from engine.broker import GroupConfig, Ladder, Mode, RetryPolicy, StartAt, Strategy

TAG = "groups"

Retries = Annotated[int, Meta(ge=0, le=10_000, description="Retries after the first delivery.")]
Start = Annotated[
    StartAt,
    Meta(
        description="Where it begins in a topic new to it: earliest, latest, time (start_at_ms), "
        "or rocketmq: all of a young topic, else what is new, as official clients expect."
    ),
]
StartTime = Annotated[int, Meta(ge=0, description="For start time; ms since 1970 UTC, else 0.")]
Shared = Annotated[
    Mode, Meta(description="clustering: clients share the messages; broadcast: each gets all.")
]
Policy = Annotated[
    RetryPolicy,
    Meta(
        description="How long a failed message waits: the ladder of delay levels, exponential, "
        "or steps, a list of waits."
    ),
]
Sharing = Annotated[Strategy, Meta(description="How queues are shared out to pulling consumers.")]
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


class Group(msgspec.Struct):
    """A consumer group's settings."""

    name: str
    retry_max: int
    start: StartAt
    consume_enabled: bool
    dead_letters: bool
    mode: Mode
    start_at_ms: int
    retry_policy: RetryPolicy
    strategy: Strategy
    rooms: tuple[str, ...]
    paused: Annotated[bool, Meta(description="The whole group is; see pause and resume.")]
    paused_topics: tuple[str, ...]
    members: Annotated[int, Meta(description="Consumers that are alive.")]
    ordered: Ordered


class GroupPage(msgspec.Struct):
    """A page of groups by name; `total` counts all that match."""

    items: list[Group]
    next_cursor: str | None
    total: int


class GroupListQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which groups are listed."""

    q: Annotated[str, Meta(description="Part of the name, in any case.")] = ""
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


class NewGroup(msgspec.Struct, forbid_unknown_fields=True):
    """A group to be created."""

    name: Annotated[str, Meta(description="Letters, digits, `_`, `-`, `|`; at most 120.")]
    retry_max: Retries | UnsetType = UNSET
    start: Start = StartAt.EARLIEST
    consume_enabled: bool = True
    dead_letters: Annotated[
        bool, Meta(description="False: what used up its attempts is dropped.")
    ] = True
    mode: Shared = Mode.CLUSTERING
    start_at_ms: StartTime = 0
    retry_policy: Policy = Ladder()
    strategy: Sharing = Strategy.AVERAGE
    rooms: Rooms = ()
    ordered: Ordered = False


class GroupPatch(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What changes; what is left out stays."""

    retry_max: Retries | UnsetType = UNSET
    start: Start | UnsetType = UNSET
    consume_enabled: bool | UnsetType = UNSET
    dead_letters: bool | UnsetType = UNSET
    mode: Shared | UnsetType = UNSET
    start_at_ms: StartTime | UnsetType = UNSET
    retry_policy: Policy | UnsetType = UNSET
    strategy: Sharing | UnsetType = UNSET
    rooms: Rooms | UnsetType = UNSET
    ordered: Ordered | UnsetType = UNSET


class PauseQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of what."""

    topic: Annotated[str, Meta(description="Only this topic; the whole group without one.")] = ""


def group_out(call: Call[Any, Any], config: GroupConfig) -> Group:
    """A group as the API shows it."""
    return Group(
        config.name,
        config.retry_max,
        config.start,
        config.consume_enabled,
        config.dead_letters,
        config.mode,
        config.start_at_ms,
        config.retry_policy,
        config.strategy,
        config.rooms,
        not config.consume_enabled,
        config.paused_topics,
        call.host.broker.members.count(config.name),
        config.ordered,
    )


@operation(
    "GET",
    f"{API}/groups",
    tag=TAG,
    needs=READ_SERVER,
    query=GroupListQuery,
    answer=GroupPage,
    example="curl '$URL/api/v1/groups?limit=10'",
)
async def list_groups(call: Call[GroupListQuery, None]) -> GroupPage:
    """List consumer groups.

    Sorted by name; follow `next_cursor` until it is null.
    """
    query = call.query
    wanted = query.q.lower()
    found = [config for config in call.host.broker.groups() if wanted in config.name.lower()]
    rest = (config for config in found if config.name > query.cursor)
    page = nsmallest(query.limit + 1, rest, key=lambda config: config.name)
    more = len(page) > query.limit
    return GroupPage(
        [group_out(call, config) for config in page[: query.limit]],
        page[query.limit - 1].name if more else None,
        len(found),
    )


@operation(
    "POST",
    f"{API}/groups",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    body=NewGroup,
    answer=Group,
    status=201,
    errors=(409,),
    example="curl -X POST $URL/api/v1/groups -H 'Content-Type: application/json' "
    """-d '{"name": "billing", "retry_max": 5}'""",
)
async def create_group(call: Call[None, NewGroup]) -> Group:
    """Create a consumer group.

    Receiving for an unknown group creates it too, where the setting auto_create_groups allows it.
    """
    new = call.body
    call.require(Action.ADMINISTER, Kind.GROUP, new.name)
    config = GroupConfig(
        new.name,
        retry_max=call.settings.retry_max if new.retry_max is UNSET else new.retry_max,
        start=new.start,
        consume_enabled=new.consume_enabled,
        dead_letters=new.dead_letters,
        mode=new.mode,
        start_at_ms=new.start_at_ms,
        retry_policy=new.retry_policy,
        strategy=new.strategy,
        rooms=new.rooms,
        ordered=new.ordered,
    )
    groups: Groups = call.state.groups
    return group_out(call, await groups.create(actor_of(call), config))


@operation(
    "GET",
    f"{API}/groups/{{group}}",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    answer=Group,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing",
)
async def get_group(call: Call[None, None]) -> Group:
    """Look at one consumer group."""
    return group_out(call, call.host.broker.group(call.path("group")))


@operation(
    "PATCH",
    f"{API}/groups/{{group}}",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP, "group"),
    body=GroupPatch,
    answer=Group,
    errors=(404,),
    example="curl -X PATCH $URL/api/v1/groups/billing -H 'Content-Type: application/json' "
    """-d '{"consume_enabled": false}'""",
)
async def change_group(call: Call[None, GroupPatch]) -> Group:
    """Change a consumer group. Only what is given changes."""
    patch = call.body
    given = {name: getattr(patch, name) for name in patch.__struct_fields__}
    changes = GroupChanges(**given)
    groups: Groups = call.state.groups
    return group_out(call, await groups.change(actor_of(call), call.path("group"), changes))


@operation(
    "POST",
    f"{API}/groups/{{group}}/pause",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP, "group"),
    query=PauseQuery,
    answer=Group,
    errors=(404,),
    example="curl -X POST '$URL/api/v1/groups/billing/pause?topic=orders'",
)
async def pause_group(call: Call[PauseQuery, None]) -> Group:
    """Pause a group, or one topic of it.

    Nothing more is handed out: receive and pull answer 403, subscriptions on open connections stay
    and wait. What is in flight can be settled.
    """
    groups: Groups = call.state.groups
    return group_out(call, await groups.pause(actor_of(call), call.path("group"), call.query.topic))


@operation(
    "POST",
    f"{API}/groups/{{group}}/resume",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP, "group"),
    query=PauseQuery,
    answer=Group,
    errors=(404,),
    example="curl -X POST '$URL/api/v1/groups/billing/resume?topic=orders'",
)
async def resume_group(call: Call[PauseQuery, None]) -> Group:
    """Resume a group, or one topic of it. Whoever waits is woken."""
    groups: Groups = call.state.groups
    return group_out(
        call, await groups.resume(actor_of(call), call.path("group"), call.query.topic)
    )


@operation(
    "DELETE",
    f"{API}/groups/{{group}}",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP, "group"),
    status=204,
    errors=(404,),
    example="curl -X DELETE $URL/api/v1/groups/billing",
)
async def delete_group(call: Call[None, None]) -> None:
    """Delete a consumer group with its progress."""
    groups: Groups = call.state.groups
    await groups.delete(actor_of(call), call.path("group"))


OPERATIONS = (
    list_groups,
    create_group,
    get_group,
    change_group,
    pause_group,
    resume_group,
    delete_group,
)
