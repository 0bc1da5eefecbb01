"""Consumer groups: settings, progress and lag."""

from heapq import nsmallest
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.operation import API, Call, operation
from app.api.topics import PAGE_DEFAULT, Cursor, Limit, actor_of
from app.services.groups import GroupChanges, Groups
from engine.broker import GroupConfig, StartAt
from engine.errors import Invalid

TAG = "groups"
OFFSET_MAX = 2**63 - 1

Retries = Annotated[int, Meta(ge=0, le=10_000, description="Retries after the first delivery.")]


class Group(msgspec.Struct):
    """A consumer group's settings."""

    name: str
    retry_max: int
    start: StartAt
    consume_enabled: bool
    dead_letters: bool


class GroupPage(msgspec.Struct):
    """A page of groups by name; `total` counts all that match."""

    items: list[Group]
    next_cursor: str | None
    total: int


class GroupQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which groups are listed."""

    q: Annotated[str, Meta(description="Part of the name, in any case.")] = ""
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


class NewGroup(msgspec.Struct, forbid_unknown_fields=True):
    """A group to be created."""

    name: Annotated[str, Meta(description="Letters, digits, `_`, `-`, `|`; at most 120.")]
    retry_max: Retries | UnsetType = UNSET
    start: Annotated[StartAt, Meta(description="Where it begins in a topic new to it.")] = (
        StartAt.EARLIEST
    )
    consume_enabled: bool = True
    dead_letters: Annotated[
        bool, Meta(description="False: what used up its attempts is dropped.")
    ] = True


class GroupPatch(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What changes; what is left out stays."""

    retry_max: Retries | UnsetType = UNSET
    start: StartAt | UnsetType = UNSET
    consume_enabled: bool | UnsetType = UNSET
    dead_letters: bool | UnsetType = UNSET


class QueueLag(msgspec.Struct):
    """Progress of a group in one queue. Everything before `committed` is done."""

    topic: str
    queue: int
    min_offset: str
    max_offset: str
    committed: str
    count: Annotated[int, Meta(description="Messages not done, those in flight included.")]
    inflight: int
    oldest_ms: Annotated[int | None, Meta(description="When its oldest open message was stored.")]


class Lag(msgspec.Struct):
    """What a group has still to do."""

    group: str
    count: int
    inflight: int
    retry_waiting: int
    dead: int
    oldest_age_ms: int | None
    queues: list[QueueLag]


class OffsetQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which topic."""

    topic: str


class QueueOffset(msgspec.Struct):
    """A committed offset: the next message to read. Null where none was committed."""

    queue: int
    offset: str | None


class Offsets(msgspec.Struct):
    """A group's committed offsets in one topic."""

    group: str
    topic: str
    queues: list[QueueOffset]


class NewOffset(msgspec.Struct, forbid_unknown_fields=True):
    """The offset to commit: the next message to read, backwards too."""

    topic: str
    queue: Annotated[int, Meta(ge=0, le=65535)]
    offset: Annotated[str | int, Meta(description="As a text, or a number.")]


def group_out(config: GroupConfig) -> Group:
    """A group as the API shows it."""
    return Group(
        config.name, config.retry_max, config.start, config.consume_enabled, config.dead_letters
    )


@operation(
    "GET",
    f"{API}/groups",
    tag=TAG,
    query=GroupQuery,
    answer=GroupPage,
    example="curl '$URL/api/v1/groups?limit=10'",
)
async def list_groups(call: Call[GroupQuery, None]) -> GroupPage:
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
        [group_out(config) for config in page[: query.limit]],
        page[query.limit - 1].name if more else None,
        len(found),
    )


@operation(
    "POST",
    f"{API}/groups",
    tag=TAG,
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
    config = GroupConfig(
        new.name,
        retry_max=call.settings.retry_max if new.retry_max is UNSET else new.retry_max,
        start=new.start,
        consume_enabled=new.consume_enabled,
        dead_letters=new.dead_letters,
    )
    groups: Groups = call.state.groups
    return group_out(await groups.create(actor_of(call), config))


@operation(
    "GET",
    f"{API}/groups/{{group}}",
    tag=TAG,
    answer=Group,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing",
)
async def get_group(call: Call[None, None]) -> Group:
    """Look at one consumer group."""
    return group_out(call.host.broker.group(call.path("group")))


@operation(
    "PATCH",
    f"{API}/groups/{{group}}",
    tag=TAG,
    body=GroupPatch,
    answer=Group,
    errors=(404,),
    example="curl -X PATCH $URL/api/v1/groups/billing -H 'Content-Type: application/json' "
    """-d '{"consume_enabled": false}'""",
)
async def change_group(call: Call[None, GroupPatch]) -> Group:
    """Change a consumer group. Only what is given changes."""
    patch = call.body
    changes = GroupChanges(patch.retry_max, patch.start, patch.consume_enabled, patch.dead_letters)
    groups: Groups = call.state.groups
    return group_out(await groups.change(actor_of(call), call.path("group"), changes))


@operation(
    "DELETE",
    f"{API}/groups/{{group}}",
    tag=TAG,
    status=204,
    errors=(404,),
    example="curl -X DELETE $URL/api/v1/groups/billing",
)
async def delete_group(call: Call[None, None]) -> None:
    """Delete a consumer group with its progress."""
    groups: Groups = call.state.groups
    await groups.delete(actor_of(call), call.path("group"))


@operation(
    "GET",
    f"{API}/groups/{{group}}/lag",
    tag=TAG,
    answer=Lag,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing/lag",
)
async def get_lag(call: Call[None, None]) -> Lag:
    """See what a group has still to do, queue by queue."""
    name = call.path("group")
    lag = call.host.broker.lag(name)
    return Lag(
        name,
        lag.count,
        lag.inflight,
        lag.retry_waiting,
        lag.dead,
        lag.oldest_age_ms,
        [
            QueueLag(
                item.topic,
                item.queue,
                str(item.min_offset),
                str(item.max_offset),
                str(item.committed),
                item.count,
                item.inflight,
                item.oldest_ms,
            )
            for item in lag.queues
        ],
    )


@operation(
    "GET",
    f"{API}/groups/{{group}}/offsets",
    tag=TAG,
    query=OffsetQuery,
    answer=Offsets,
    errors=(404,),
    example="curl '$URL/api/v1/groups/billing/offsets?topic=orders'",
)
async def get_offsets(call: Call[OffsetQuery, None]) -> Offsets:
    """Read a group's committed offsets in a topic."""
    broker = call.host.broker
    group, topic = call.path("group"), call.query.topic
    broker.group(group)
    queues = range(broker.topic(topic).read_queues)
    return Offsets(
        group,
        topic,
        [QueueOffset(q, _text(broker.committed_offset(group, topic, q))) for q in queues],
    )


@operation(
    "PUT",
    f"{API}/groups/{{group}}/offsets",
    tag=TAG,
    body=NewOffset,
    status=204,
    errors=(404, 409),
    example="curl -X PUT $URL/api/v1/groups/billing/offsets -H 'Content-Type: application/json' "
    """-d '{"topic": "orders", "queue": 0, "offset": "12"}'""",
)
async def commit_offset(call: Call[None, NewOffset]) -> None:
    """Commit how far a group has read a queue.

    For consumers that pull and keep their own place. Whatever is in flight there is forgotten.
    """
    new = call.body
    call.host.broker.commit_offset(call.path("group"), new.topic, new.queue, _offset_of(new.offset))


def _offset_of(value: str | int) -> int:
    text = str(value)
    if text.isdecimal() and text.isascii() and len(text) < 20 and int(text) <= OFFSET_MAX:
        return int(text)
    raise Invalid(
        f"{text[:40]!r} is no offset", field="offset", remedy="send a whole number from 0"
    )


def _text(offset: int | None) -> str | None:
    return None if offset is None else str(offset)


OPERATIONS = (
    list_groups,
    create_group,
    get_group,
    change_group,
    delete_group,
    get_lag,
    get_offsets,
    commit_offset,
)
