"""The search for messages: by filter, id, key, or offset.

A search runs for at most 1.5 seconds and then reports how far it came; its address holds the cursor
and continues from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.capabilities import require
from app.security.access import Principal
from app.security.message_rights import (
    all_visible,
    lacks_messages,
    looks_inside,
    missing_right,
    visible_matches,
)
from app.services.bodies import decompress_all
from app.services.search import SearchService, total_of
from app.ui.bodies import columns
from app.ui.bodies.columns import Columns, RowColumns
from app.ui.framework import pages, tables, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields
from app.ui.messages import browsing
from app.ui.messages import query as message_query
from app.ui.topics.messages import KEY_TOTAL_MAX, MessageRow, key_note, row_of
from engine.broker import ScanPage, ScanQuery
from engine.errors import EngineError, NotFound, QueueNotFound
from engine.message import StoredMessage
from kitemq.model.conversion import convert

BUDGET_S = 1.5
SUGGESTED_MAX = 200
ROWS_MAX = 1000  # that a search with a condition appends by itself
KEY_TOPICS_TOTAL_MAX = 1000  # matches of a key that are counted over all topics
OFFSET_MAX = 10**18
ALL_TIME = "all"
Text = Annotated[str, Meta(max_length=512)]


class WayFields(Fields, frozen=True):
    """The ways to find messages, besides the search through a topic, and the page."""

    by: Literal["search", "key", "id", "offset"] = "search"
    queue: Text = ""
    offset: Text = ""
    key: Text = ""
    id: Text = ""
    size: tables.Size = tables.SIZE_DEFAULT
    cursor: str = ""
    unreadable: int = 0  # of the pages before
    before: int = 0  # rows of the pages before, by key


@dataclass(frozen=True)
class ScanInfo:
    """The progress of a search over its pages; `next_href` continues it, "" at the end.

    A script continues it until `rows_max` rows are on the page.
    """

    scanned: int
    total: int
    matched: int
    unreadable: int
    reached_ms: int | None
    begin_ms: int
    is_first: bool
    is_newest_first: bool
    rows_max: int
    next_cursor: str
    next_href: str
    first_href: str
    here_href: str
    export_href: str


@dataclass(frozen=True)
class SearchAnswer:
    """The result of one kind of search."""

    messages: list[StoredMessage]
    scan: ScanInfo | None = None
    note: str = ""
    earlier: str = ""
    later: str = ""
    older: str = ""  # a cursor of the search by key
    # Topics with a key that was searched in all, with their messages, or more if they `are_least`.
    topics: Sequence[tuple[str, int]] = ()
    are_least: bool = False


@dataclass(frozen=True)
class MessageSearch:
    """The context of `messages.html`."""

    by: str
    form: Form
    size: int
    topics: list[str]
    rows: list[MessageRow]
    bodies: list[RowColumns]  # of the rows
    mark: str  # in the bodies: what was searched for
    paths: tuple[str, ...]  # the paths that are columns
    answer: SearchAnswer  # without its messages
    has_query: bool
    since: tuple[tuple[str, str], ...] = message_query.SINCE
    orders: tuple[tuple[str, str], ...] = message_query.ORDERS
    sizes: tuple[int, ...] = tables.SIZES
    views: tuple[tuple[str, str], ...] = columns.VIEWS
    unread: str = ""  # the missing right that conceals messages


async def show(request: PageRequest) -> Response:
    """GET /messages?by=search|key|id|offset"""
    console = request.console
    values = request.query_params
    way = typed_forms.query(values, WayFields)
    by = way.by
    since = ALL_TIME if by == "key" else message_query.SINCE_DEFAULT
    form, query = message_query.read(values, console.now_ms(), request.zone, since=since)
    form.values.update(queue=way.queue, offset=way.offset, key=way.key, id=way.id)
    shape = columns.read(values, form)
    has_query = bool({"id": way.id, "key": way.key}.get(by, query.topic))
    answer = SearchAnswer([])
    who = request.who
    unread = lacks_messages(who, query.topic) if query.topic else ""
    if unread and by != "id":
        _refuse_inside(form, by, query)
    if has_query and not form.is_wrong:
        try:
            answer = await _answer(request, way, form, query, shape)
        except EngineError as error:
            blame(form, error)
            if not form.errors:
                raise
    messages = await console.render(lambda: _visible(who, way, answer.messages))
    topics = [each for each in answer.topics if not lacks_messages(who, each[0])]
    names = [topic.name for topic in await console.administration.topics()]
    context = MessageSearch(
        by=by,
        form=form,
        size=way.size,
        topics=names[:SUGGESTED_MAX],
        rows=await console.render(lambda: [row_of(message) for message in messages]),
        bodies=await console.render(lambda: columns.show(messages, shape, query.contains)),
        mark=columns.mark_of(query.contains),
        paths=shape.paths,
        answer=replace(answer, messages=[], topics=topics),
        has_query=has_query,
        unread=unread or next(filter(None, map(missing_right, messages)), ""),
    )
    title = _("Messages")
    return await pages.respond(request, "messages.html", context, title=title)


def _refuse_inside(form: Form, by: str, query: ScanQuery) -> None:
    """Refuse a search whose result would reveal the content of messages."""
    reason = _("You do not have permission to read message bodies of this topic.")
    if by == "key":
        form.refuse("key", reason)
    elif by == "search" and query.contains:
        form.refuse("contains", reason)
    elif by == "search" and looks_inside(query.filter):
        form.refuse("filter", reason)


def _visible(
    who: Principal, way: WayFields, messages: Sequence[StoredMessage]
) -> list[StoredMessage]:
    is_by_key = way.by == "key"
    readable = visible_matches(who, way.key, messages) if is_by_key else all_visible(who, messages)
    decompress_all(readable)
    return readable


def blame(form: Form, error: EngineError) -> None:
    """Report an error of a search at its field."""
    if isinstance(error, NotFound):
        form.refuse(
            "queue" if isinstance(error, QueueNotFound) else "topic",
            _("Not found: %(detail)s.", detail=error.detail),
        )
    else:
        form.blame(error, {"expression": "filter"})


async def _answer(
    request: PageRequest, way: WayFields, form: Form, query: ScanQuery, shape: Columns
) -> SearchAnswer:
    search = request.services.search
    if way.by == "id":
        return SearchAnswer(await search.by_id(way.id))
    if way.by == "key":
        return await _by_key(search, query, way)
    if way.by == "offset":
        return await _along(request, form, query.topic, way.size)
    require(request.console.messaging.capabilities, "content_search", field="topic")
    page = await search.scan(query, count_max=way.size, cursor=way.cursor, budget_s=BUDGET_S)
    return SearchAnswer(page.items, _scan_info(query, page, way, shape))


def _scan_info(query: ScanQuery, page: ScanPage, way: WayFields, shape: Columns) -> ScanInfo:
    params: dict[str, object] = {**shape.query}
    if way.size != tables.SIZE_DEFAULT:
        params["size"] = way.size
    following = page.next_cursor or ""
    unreadable = way.unreadable + page.unreadable
    further = params | {"cursor": following, "unreadable": unreadable or ""}
    address = message_query.address
    has_condition = bool(query.contains) or query.filter != "*"
    return convert(
        page,
        ScanInfo,
        unreadable=unreadable,
        begin_ms=query.begin_ms,
        is_first=not way.cursor,
        is_newest_first=query.is_newest_first,
        rows_max=ROWS_MAX if has_condition else way.size,
        next_cursor=following,
        next_href=address(query, "/messages", **further) if following else "",
        first_href=address(query, "/messages", **params),
        here_href=address(query, "/messages", **params, cursor=way.cursor),
        export_href=address(query, "/messages/export"),
    )


async def _by_key(search: SearchService, query: ScanQuery, way: WayFields) -> SearchAnswer:
    begin_ms, end_ms = query.begin_ms, query.end_ms
    if query.topic:
        page = await search.by_key(
            query.topic,
            way.key,
            total_max=KEY_TOTAL_MAX,
            begin_ms=begin_ms,
            end_ms=end_ms,
            cursor=way.cursor,
        )
        return SearchAnswer(page.messages, note=key_note(page, way.before), older=page.next_cursor)
    lookup = await search.by_text(
        way.key, total_max=KEY_TOPICS_TOTAL_MAX, begin_ms=begin_ms, end_ms=end_ms
    )
    note = _("In all topics, by key and by id.")
    if lookup.is_cut:
        note += _(" There may be more: select a topic to see them.")
    topics = lookup.totals.most_common() if lookup.is_cut else ()
    __, are_least = total_of(lookup)
    return SearchAnswer(lookup.messages, note=note, topics=topics, are_least=are_least)


async def _along(request: PageRequest, form: Form, topic: str, size: int) -> SearchAnswer:
    console = request.console
    stats = (await console.administration.topic_stats(topic)).queues
    for name in ("queue", "offset"):
        form.values[name] = form.values[name] or "0"
    queue = form.number("queue", _("Queue"), 0, len(stats) - 1)
    offset = form.number("offset", _("Offset"), 0, OFFSET_MAX)
    if form.is_wrong:
        return SearchAnswer([])
    page = await browsing.along(
        console.messaging, topic, stats[queue], offset=offset, count_max=size
    )
    note = _(
        "Queue %(queue)s has %(stored)s messages. %(note)s",
        queue=queue,
        stored=f"{page.stored:,}",
        note=page.note,
    ).strip()
    return SearchAnswer(
        page.messages, note=note, earlier=page.previous_cursor, later=page.next_cursor
    )
