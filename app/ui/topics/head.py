"""The head of every tab of a topic."""

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from app.services.topic_kinds import SYSTEM_KINDS, group_of, kind_of
from app.ui.framework import pages
from app.ui.framework.page_request import PageRequest
from app.ui.topics import starred
from engine.broker import TopicConfig


@dataclass(frozen=True)
class Head:
    """A topic's name, its kind, the user's marks on it, and the tab that is open.

    `unknown` says why there are more `messages` and `readers`, "" where there are none.
    """

    name: str
    tab: str
    kind: str
    permission: int
    messages: int
    readers: int
    group: str
    is_system: bool
    is_starred: bool
    has_note: bool
    unknown: str


@dataclass(frozen=True)
class TopicTab:
    """The context that every page of a topic has."""

    head: Head


async def topic_of(request: PageRequest) -> TopicConfig:
    """The topic in the path; raises TopicNotFound."""
    return await request.administration.topic(request.path_params["topic"])


async def respond(
    request: PageRequest, template: str, context: TopicTab, *, title: str = "", **options: Any
) -> Response:
    """Render a page of a topic by `pages.respond`; its title is the topic's name."""
    title = title or context.head.name
    return await pages.respond(request, template, context, title=title, **options)


async def head_of(request: PageRequest, config: TopicConfig, tab: str = "") -> Head:
    """The head of a topic's page, as of now."""
    console = request.console
    marks = await starred.glance(request)
    kind = kind_of(config)
    stats = await console.administration.present_stats(config.name)
    return Head(
        name=config.name,
        tab=tab,
        kind=kind,
        permission=config.permission,
        messages=stats.messages,
        readers=len(console.sampler.snapshot.readers(config.name)),
        group=group_of(config.name),
        is_system=kind in SYSTEM_KINDS,
        is_starred=config.name in marks.stars,
        has_note=config.name in marks.noted,
        unknown=stats.unknown,
    )
