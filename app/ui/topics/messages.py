"""A topic's messages: newest first, along a queue, by id, by key."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.security.access import Principal, principal_of
from app.security.message_rights import all_visible, lacks_messages, missing_right
from app.services.bodies import decompress_all
from app.ui.bodies.preview import preview_of
from app.ui.framework import pages
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.messages import browsing
from app.ui.messages.browsing import BrowsePage
from app.ui.topics.head import Head, head_of
from engine.broker import QueueStats
from engine.errors import NotFound
from engine.message import FAILED_ERROR, FAILED_REASON, StoredMessage
from kitemq.model.numbers import is_whole

WAYS = ("newest", "offset", "id", "key")
SIZES = (25, 50, 100)
SIZE_DEFAULT = 50
BY_KEY_MAX = 64
TEXT_MAX = 512
ERROR_CHARS_MAX = 120


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


@dataclass(frozen=True)
class Search:
    """The values of the search form."""

    by: str
    queue: str
    offset: str
    id: str
    key: str


@dataclass(frozen=True)
class TopicMessages:
    """The context of `topic_messages.html`."""

    head: Head
    tab: str
    search: Search
    queues: list[int]
    rows: list[MessageRow]
    scanned: int
    kept: int
    queues_read: int
    next_cursor: str
    previous_cursor: str
    note: str
    unread: str  # the missing right that conceals messages, or ""


def row_of(message: StoredMessage) -> MessageRow:
    properties = message.properties
    return MessageRow(
        topic=message.topic,
        queue=message.queue,
        offset=message.offset,
        message_id=message.message_id,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        attempt=message.attempt,
        stored_ms=message.stored_ms,
        size_bytes=message.size_bytes if missing_right(message) else len(message.plain.body),
        preview=preview_of(message),
        origin_topic=message.origin_topic if message.origin_topic != message.topic else "",
        reason=properties.get(FAILED_REASON, ""),
        error=properties.get(FAILED_ERROR, "")[:ERROR_CHARS_MAX],
    )


def _rows(who: Principal, messages: Sequence[StoredMessage]) -> list[MessageRow]:
    readable = all_visible(who, messages)
    decompress_all(readable)
    return [row_of(message) for message in readable]


async def show(request: Request) -> Response:
    """GET /topics/{topic}/messages?by=newest|offset|id|key"""
    console = pages.console_of(request)
    config = console.broker.topic(request.path_params["topic"])
    search = _search(request)
    stats = console.broker.topic_stats(config.name).queues
    who = principal_of(request.scope)
    unread = lacks_messages(who, config.name)
    page = BrowsePage([], 0, 0, 0)
    if not (unread and search.by == "key"):  # a match would reveal the keys
        page = await _find(console, config.name, stats, search, request)
    context = TopicMessages(
        head=await head_of(request, config),
        tab="messages",
        search=search,
        queues=[queue.queue for queue in stats],
        rows=await console.render(partial(_rows, who, page.messages)),
        scanned=page.scanned,
        kept=page.stored,
        queues_read=page.queues,
        next_cursor=page.next_cursor,
        previous_cursor=page.previous_cursor,
        note=page.note,
        unread=unread,
    )
    return await pages.respond(
        request,
        "topic_messages.html",
        context,
        title=config.name,
        section="topics",
        is_live=search.by == "newest" and "cursor" not in request.query_params,
    )


def _search(request: Request) -> Search:
    values = request.query_params
    by = values.get("by", "")
    return Search(
        by=by if by in WAYS else "newest",
        queue=values.get("queue", "")[:TEXT_MAX],
        offset=values.get("offset", "")[:TEXT_MAX],
        id=values.get("id", "").strip()[:TEXT_MAX],
        key=values.get("key", "").strip()[:TEXT_MAX],
    )


async def _find(
    console: Console, topic: str, stats: Sequence[QueueStats], search: Search, request: Request
) -> BrowsePage:
    if search.by == "id":
        return await _by_id(request, topic, search.id)
    if search.by == "key":
        return await _by_key(request, topic, search.key) if search.key else BrowsePage([], 0, 0, 0)
    size = request.query_params.get("size", "")
    count_max = next((s for s in SIZES if str(s) == size), SIZE_DEFAULT)
    chosen = [queue for queue in stats if str(queue.queue) == search.queue]
    if search.by == "offset":
        if not stats:
            return BrowsePage([], 0, 0, 0)
        is_number = is_whole(search.offset)
        offset = int(search.offset) if is_number else 0
        queue = chosen[0] if chosen else stats[0]
        return await browsing.along(
            console.messaging, topic, queue, offset=offset, count_max=count_max
        )
    cursor = request.query_params.get("cursor", "")
    return await browsing.newest(
        console.messaging, topic, chosen or stats, cursor=cursor, count_max=count_max
    )


async def _by_id(request: Request, topic: str, text: str) -> BrowsePage:
    try:
        messages = await services_of(request.scope).search.by_id(text) if text else []
    except NotFound:
        messages = []
    here = [message for message in messages if message.topic == topic]
    elsewhere = len(messages) - len(here)
    note = (
        _("%(elsewhere)s more in other topics: see the message's own page.", elsewhere=elsewhere)
        if elsewhere
        else ""
    )
    return BrowsePage(here, len(messages), 0, 0, note=note)


async def _by_key(request: Request, topic: str, key: str) -> BrowsePage:
    cursor = request.query_params.get("cursor", "")
    page = await services_of(request.scope).search.by_key(
        topic, key, count_max=BY_KEY_MAX, cursor=cursor
    )
    note = _("The key has more messages, older ones.") if page.next_cursor else ""
    return BrowsePage(
        page.messages, len(page.messages), 0, 0, next_cursor=page.next_cursor, note=note
    )
