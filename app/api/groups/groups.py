"""Consumer groups: their settings, pause and resume. How far they are is `progress.py`'s."""

import contextlib
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from app.administration import FIGURES_UNKNOWN
from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Cursor, Limit, page_of
from app.pause import paced
from app.security.access import READ_SERVER, Action, Kind, Needs
from engine.broker import GroupConfig
from engine.errors import NotFound
from kitemq.model.conversion import convert, set_fields
from kitemq.model.groups import Group, GroupPage, GroupSettings, NewGroup

operations = Operations("groups")


class GroupListQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of groups."""

    q: Annotated[str, Meta(description="Part of the name, in any case.")] = ""
    status: Annotated[
        Literal["", "no_consumers", "falling_behind", "paused", "catching_up", "active", "idle"],
        Meta(description="Only groups that had this status a few seconds ago."),
    ] = ""
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


class PauseQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of what."""

    topic: Annotated[str, Meta(description="Only this topic; the whole group without one.")] = ""


async def group_out(call: Call[Any, Any], config: GroupConfig) -> Group:
    """A group as the API shows it; its status is unknown while a broker of its lag is away."""
    standing, unknown = None, ""
    try:
        figures = await call.services.sampler.read(config.name)
        standing = call.services.sampler.snapshot.standing(config, figures)
    except FIGURES_UNKNOWN as error:
        unknown = error.detail
    return convert(
        config,
        Group,
        paused=not config.consume_enabled,
        members=await call.administration.members.count(config.name),
        status=standing and standing.status,
        status_reason=standing and standing.reason,
        unknown=unknown,
    )


@operations.get("/groups", needs=READ_SERVER, example="?limit=10")
async def list_groups(call: Call[GroupListQuery, None]) -> GroupPage:
    """List consumer groups.

    Sorted by name; follow `next_cursor` until it is null.
    """
    query = call.query
    text, snapshot = query.q.lower(), call.services.sampler.snapshot
    groups = await call.administration.groups()
    groups = [config for config in groups if text in config.name.lower()]
    if query.status:
        groups = [
            config
            async for config in paced(groups)
            if config.name not in snapshot.unknown_groups
            and snapshot.standing(config).status == query.status
        ]
    page, next_cursor = page_of(groups, attrgetter("name"), query.cursor, query.limit)
    items: list[Group] = []
    async for config in paced(page):
        with contextlib.suppress(NotFound):  # deleted while the others were read
            items.append(await group_out(call, config))
    return GroupPage(items, next_cursor, len(groups))


@operations.post(
    "/groups",
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    status=201,
    errors=(409,),
    example_body='{"name": "billing", "retry_max": 5}',
)
async def create_group(call: Call[None, NewGroup]) -> Group:
    """Create a consumer group.

    Receiving for an unknown group creates it too, where the setting auto_create_groups allows it.
    """
    new = call.body
    call.require(Action.ADMINISTER, Kind.GROUP, new.name)
    config = convert(new, GroupConfig, **{"retry_max": call.settings.retry_max, **set_fields(new)})
    return await group_out(call, await call.services.groups.create(call.actor, config))


@operations.get("/groups/{group}", needs=Action.READ)
async def get_group(call: Call[None, None]) -> Group:
    """Look at one consumer group."""
    return await group_out(call, await call.messaging.group(call.path("group")))


@operations.patch(
    "/groups/{group}", needs=Action.ADMINISTER, example_body='{"consume_enabled": false}'
)
async def change_group(call: Call[None, GroupSettings]) -> Group:
    """Change a consumer group. Only what is given changes."""
    groups = call.services.groups
    return await group_out(call, await groups.change(call.actor, call.path("group"), call.body))


@operations.post("/groups/{group}/pause", needs=Action.ADMINISTER, example="?topic=orders")
async def pause_group(call: Call[PauseQuery, None]) -> Group:
    """Pause a group, or one topic of it.

    Deliveries stop: receive and pull answer 403, subscriptions on open connections stay
    and wait. What is in flight can be settled.
    """
    config = await call.services.groups.pause(call.actor, call.path("group"), call.query.topic)
    return await group_out(call, config)


@operations.post("/groups/{group}/resume", needs=Action.ADMINISTER, example="?topic=orders")
async def resume_group(call: Call[PauseQuery, None]) -> Group:
    """Resume a group, or one topic of it. Waiting clients are woken."""
    config = await call.services.groups.resume(call.actor, call.path("group"), call.query.topic)
    return await group_out(call, config)


@operations.delete("/groups/{group}", needs=Action.ADMINISTER)
async def delete_group(call: Call[None, None]) -> None:
    """Delete a consumer group with its progress."""
    await call.services.groups.delete(call.actor, call.path("group"))
