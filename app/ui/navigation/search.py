"""The search box: redirects to an exact match, or lists similar names."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import RedirectResponse, Response

from app.security.message_rights import all_visible
from app.services.bodies import decompress
from app.ui.framework import pages
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.topics.messages import MessageRow, row_of
from engine.broker import GroupConfig, TopicConfig
from engine.errors import EngineError, NotFound
from engine.message import StoredMessage

TEXT_MAX = 512
NAMES_MAX = 50


@dataclass(frozen=True)
class FindPage:
    """The context of `search.html`."""

    text: str
    messages: list[MessageRow]
    topics: list[str]
    topics_total: int
    groups: list[str]
    groups_total: int
    topic: str
    key: str


async def show(request: PageRequest) -> Response:
    """GET /search?q=; a single exact match redirects to its page."""
    console = request.console
    text = request.query_params.get("q", "").strip()[:TEXT_MAX]
    topic = request.query_params.get("topic", "").strip()[:TEXT_MAX]
    key = request.query_params.get("key", "").strip()[:TEXT_MAX]
    if topic and key:
        return _go(f"/topics/{segment(topic)}/messages?by=key&key={segment(key)}")
    messages = await _messages(request, text)
    exact = _exact(console, text) + ([f"/m/{segment(text)}"] if messages else [])
    if len(exact) == 1:
        return _go(exact[0])
    topics = console.broker.topics(system=True) if text else []
    groups = console.broker.groups() if text else []
    near_topics = await console.render(lambda: _near(topics, text))
    near_groups = await console.render(lambda: _near(groups, text))
    context = FindPage(
        text=text,
        messages=messages[:NAMES_MAX],
        topics=near_topics[:NAMES_MAX],
        topics_total=len(near_topics),
        groups=near_groups[:NAMES_MAX],
        groups_total=len(near_groups),
        topic=topic,
        key=key,
    )
    return await pages.respond(request, "search.html", context, title=_("Find"))


async def _messages(request: PageRequest, text: str) -> list[MessageRow]:
    try:
        messages = await _by_id(request, text) if text else []
        await decompress(messages)
        return [row_of(message) for message in messages]
    except EngineError:
        return []  # the text is no id


async def _by_id(request: PageRequest, text: str) -> list[StoredMessage]:
    return all_visible(request.who, await request.services.search.by_id(text))


def _exact(console: Console, text: str) -> list[str]:
    """The pages of the topic and the group of exactly this name."""
    hrefs = []
    with contextlib.suppress(NotFound):
        hrefs.append(f"/topics/{segment(console.broker.topic(text).name)}")
    with contextlib.suppress(NotFound):
        hrefs.append(f"/groups/{segment(console.broker.group(text).name)}")
    return hrefs


def _near(configs: Sequence[TopicConfig] | Sequence[GroupConfig], text: str) -> list[str]:
    """The names that contain every word of `text`; pure, because it runs on another thread."""
    words = text.lower().split()
    return [one.name for one in configs if all(word in one.name.lower() for word in words)]


def _go(path: str) -> Response:
    return RedirectResponse(path, status_code=302)
