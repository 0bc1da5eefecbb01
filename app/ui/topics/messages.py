"""A topic's messages: newest first, along a queue, by id, by key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.security.access import Principal
from app.security.message_rights import all_visible, lacks_messages, missing_right
from app.services.bodies import decompress_all
from app.services.search import KeyPage
from app.ui.bodies.bodies import preview_of
from app.ui.framework import formats
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields
from app.ui.messages import browsing
from app.ui.messages.browsing import BrowsePage
from app.ui.topics.head import TopicTab, head_of, respond, topic_of
from engine.broker import TopicStats
from engine.errors import NotFound
from engine.message import FAILED_ERROR, FAILED_REASON, StoredMessage
from kitemq.model.conversion import convert

BY_KEY_MAX = 64
KEY_TOTAL_MAX = 10_000  # matches of a key that are counted
ERROR_CHARS_MAX = 120
Text = Annotated[str, Meta(max_length=512)]


@dataclass(frozen=True)
class MessageRow:
    """A line of the list; `offset` is shown, `href` leads to the whole message."""

    topic: str
    queue: int
    offset: int
    message_id: str
    tag: str
    keys: tuple[str, ...]
    message_group: str
    attempt: int
    stored_ms: int
    size_bytes: int
    preview: str
    origin_topic: str
    reason: str
    error: str


class TopicMessagesQuery(Fields, frozen=True):
    """The search in a query; without a `queue` all of them, or the first along which to go."""

    by: Literal["newest", "offset", "id", "key"] = "newest"
    queue: int | None = None
    offset: int = 0
    id: Text = ""
    key: Text = ""
    size: Literal[25, 50, 100] = 50
    cursor: str = ""
    before: int = 0  # rows of the pages before, by key


@dataclass(frozen=True)
class TopicMessages(TopicTab):
    """The context of `topic_messages.html`."""

    search: TopicMessagesQuery
    queues: list[int]
    rows: list[MessageRow]
    page: BrowsePage  # without its messages
    unread: str  # the missing right that conceals messages, or ""


def row_of(message: StoredMessage) -> MessageRow:
    properties = message.properties
    return convert(
        message,
        MessageRow,
        size_bytes=message.size_bytes if missing_right(message) else len(message.plain.body),
        preview=preview_of(message),
        origin_topic=message.origin_topic if message.origin_topic != message.topic else "",
        reason=properties.get(FAILED_REASON, ""),
        error=properties.get(FAILED_ERROR, "")[:ERROR_CHARS_MAX],
    )


def rows_of(who: Principal, messages: Sequence[StoredMessage]) -> list[MessageRow]:
    """The lines of a list that `who` sees."""
    readable = all_visible(who, messages)
    decompress_all(readable)
    return [row_of(message) for message in readable]


async def show(request: PageRequest) -> Response:
    """GET /topics/{topic}/messages?by=newest|offset|id|key"""
    console = request.console
    config = await topic_of(request)
    search = request.read_query(TopicMessagesQuery)
    stats = await console.administration.present_stats(config.name)
    who = request.who
    unread = lacks_messages(who, config.name)
    page = BrowsePage([])
    if not (unread and search.by == "key"):  # a match would reveal the keys
        page = await _find(request, config.name, stats, search)
    context = TopicMessages(
        head=await head_of(request, config, "messages"),
        search=search,
        queues=[queue.queue for queue in stats.queues],
        rows=await console.render(partial(rows_of, who, page.messages)),
        page=replace(page, messages=[]),
        unread=unread,
    )
    is_live = search.by == "newest" and not search.cursor
    return await respond(request, "topic_messages.html", context, is_live=is_live)


async def _find(
    request: PageRequest, topic: str, stats: TopicStats, search: TopicMessagesQuery
) -> BrowsePage:
    if search.by == "id":
        return await _by_id(request, topic, search.id)
    if search.by == "key":
        return await _by_key(request, topic, search) if search.key else BrowsePage([])
    messaging = request.console.messaging
    chosen = [each for each in stats.queues if each.queue == search.queue]
    queues = chosen or stats.queues
    if stats.unknown and search.queue is not None and not chosen:
        return BrowsePage([], note=stats.unknown)
    if search.by == "newest":
        cursor = search.cursor
        return await browsing.newest(messaging, topic, queues, cursor=cursor, count_max=search.size)
    if not queues:
        return BrowsePage([])
    return await browsing.along(
        messaging, topic, queues[0], offset=search.offset, count_max=search.size
    )


async def _by_id(request: PageRequest, topic: str, text: str) -> BrowsePage:
    try:
        messages = await request.services.search.by_id(text) if text else []
    except NotFound:
        messages = []
    here = [message for message in messages if message.topic == topic]
    elsewhere = len(messages) - len(here)
    note = (
        _("%(elsewhere)s more in other topics: see the message's page.", elsewhere=elsewhere)
        if elsewhere
        else ""
    )
    return BrowsePage(here, len(messages), note=note)


async def _by_key(request: PageRequest, topic: str, search: TopicMessagesQuery) -> BrowsePage:
    page = await request.services.search.by_key(
        topic, search.key, count_max=BY_KEY_MAX, total_max=KEY_TOTAL_MAX, cursor=search.cursor
    )
    return BrowsePage(
        page.messages,
        len(page.messages),
        next_cursor=page.next_cursor,
        note=key_note(page, search.before),
    )


def key_note(page: KeyPage, before: int) -> str:
    """Which of the messages with a key these are, where `before` came on the pages before."""
    if not page.messages:
        return ""
    values = {
        "first": formats.count(before + 1),
        "last": formats.count(before + len(page.messages)),
        "total": formats.count(before + page.total),
    }
    note = (
        _("%(first)s to %(last)s of at least %(total)s messages with this key.", **values)
        if page.is_least
        else _("%(first)s to %(last)s of %(total)s messages with this key.", **values)
    )
    return note + (_(" This key has older messages.") if page.next_cursor else "")
