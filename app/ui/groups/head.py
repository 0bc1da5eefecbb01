"""The head of every page of a consumer group."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from app.ui.framework import pages
from app.ui.framework.console import Console
from app.ui.framework.page_request import PageRequest
from app.ui.groups.status import StatusView, view_of
from engine.broker import DEAD_LETTER_PREFIX, RETRY_PREFIX, GroupConfig, GroupLag, Mode


@dataclass(frozen=True)
class GroupHead:
    """A group's name, state and address `path`, for the head of its pages, and the open tab.

    `unknown` says why the status is None, and why there may be more dead letters.
    """

    name: str
    tab: str
    path: str
    status: StatusView | None
    unknown: str
    is_paused: bool
    is_broadcast: bool
    is_ordered: bool
    paused_topics: int
    members: int
    is_differing: bool
    is_mixed: bool
    dead: int
    retry_topic: str
    dead_topic: str
    has_retry_topic: bool
    has_dead_topic: bool


@dataclass(frozen=True)
class GroupTab:
    """The context that every page of a group has."""

    head: GroupHead


async def group_of(request: PageRequest) -> GroupConfig:
    """The group in the path; raises GroupNotFound."""
    return await request.administration.group(request.path_params["group"])


def path_of(name: str) -> str:
    """The address of a group's page."""
    return f"/groups/{quote(name, safe='')}"


async def respond(
    request: PageRequest, template: str, context: GroupTab, *, title: str = "", **options: Any
) -> Response:
    """Render a page of a group by `pages.respond`; its title is the group's name."""
    title = title or context.head.name
    return await pages.respond(request, template, context, title=title, **options)


async def head_of(
    console: Console, config: GroupConfig, tab: str = "", lag: GroupLag | None = None
) -> GroupHead:
    """The head of a group's page; `lag` if it was read already."""
    administration, name = console.administration, config.name
    lag = lag or await administration.present_lag(name)
    standing = console.sampler.snapshot.standing(config, await console.sampler.read(name, lag))
    retry_topic, dead_topic = RETRY_PREFIX + name, DEAD_LETTER_PREFIX + name
    return GroupHead(
        name=name,
        tab=tab,
        path=path_of(name),
        status=None if lag.unknown else view_of(name, standing),
        unknown=lag.unknown,
        is_paused=not config.consume_enabled,
        is_broadcast=config.mode is Mode.BROADCAST,
        is_ordered=config.ordered,
        paused_topics=len(config.paused_topics),
        members=await administration.members.count(name),
        is_differing=await is_differing(console, name),
        is_mixed=console.mixed_groups.is_mixed(name),
        dead=lag.dead_open,
        retry_topic=retry_topic,
        dead_topic=dead_topic,
        has_retry_topic=await pages.exists(administration.topic, retry_topic),
        has_dead_topic=await pages.exists(administration.topic, dead_topic),
    )


async def is_differing(console: Console, group: str) -> bool:
    """Whether the members of a group have different subscriptions."""
    members = console.administration.members
    return await members.count(group) > 1 and await members.warning(group) is not None


async def topics_of_group(console: Console, config: GroupConfig, lag: GroupLag) -> list[str]:
    """The topics that a group has offsets in, subscribes to or has paused, by name.

    Its retry topic is included once it has held a message.
    """
    own_retry = RETRY_PREFIX + config.name
    names = {queue.topic for queue in lag.queues if queue.topic != own_retry or queue.max_offset}
    names.update(config.paused_topics)
    for member in await console.administration.members.of(config.name):
        names.update(member.topics)
    return sorted(names)
