"""Finding messages in any topic: looking through it, by id, by key, from a place on.

A search works for a second and a half at most, then says how far it came; its address, with the
cursor, goes on from there and may be kept.
"""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.services.search import KEY_COUNT_MAX
from app.ui import browsing, columns, message_query, pages, preferences
from app.ui.columns import Columns, Shown
from app.ui.console import search_of
from app.ui.forms import Form
from app.ui.language import _
from app.ui.topic_messages import MessageRow, row_of
from engine.broker import ScanPage, ScanQuery
from engine.errors import EngineError, NotFound, QueueNotFound
from engine.message import StoredMessage

WAYS = ("search", "key", "id", "offset")
SIZES = (25, 50, 100, 200)
SIZE_DEFAULT = 50
BUDGET_S = 1.5
SUGGESTED_MAX = 200
OFFSET_MAX = 10**18
WHERE = ("queue", "offset", "key", "id")


@dataclass(frozen=True)
class Looked:
    """How far a search has come over all its pages; `next_href` goes on, "" at the end."""

    scanned: int
    total: int
    matched: int
    unreadable: int
    reached_ms: int | None
    begin_ms: int
    is_first: bool
    next_cursor: str
    next_href: str
    first_href: str
    here_href: str
    export_href: str


@dataclass(frozen=True)
class MessageSearch:
    """The context of `messages.html`."""

    by: str
    form: Form
    size: int
    topics: list[str]
    topics_total: int
    rows: list[MessageRow]
    shown: list[Shown]  # the bodies of the rows
    paths: tuple[str, ...]  # that are columns of their own
    looked: Looked | None
    note: str
    earlier_href: str
    later_href: str
    is_asked: bool
    since: tuple[tuple[str, str], ...] = message_query.SINCE
    sizes: tuple[int, ...] = SIZES
    views: tuple[tuple[str, str], ...] = columns.VIEWS


@dataclass(frozen=True)
class _Answer:
    """What one of the ways found."""

    messages: list[StoredMessage]
    looked: Looked | None = None
    note: str = ""
    earlier: str = ""
    later: str = ""


async def show(request: Request) -> Response:
    """GET /messages?by=search|key|id|offset"""
    console = pages.console_of(request)
    values = request.query_params
    by = values.get("by", "")
    by = by if by in WAYS else "search"
    form, query = message_query.read(values, console.now_ms(), preferences.read(request).zone)
    form.values.update({name: values.get(name, "").strip()[:512] for name in WHERE})
    chosen = columns.read(values, form)
    is_asked = bool(form.values["id"] if by == "id" else form.values["topic"])
    if by == "key":
        is_asked = bool(form.values["key"])
    answer = _Answer([])
    status = 200
    if is_asked and not form.is_wrong:
        try:
            answer = await _answer(request, by, form, query, chosen)
        except EngineError as error:
            _blame(form, error)
            if not form.errors:
                raise
    if form.is_wrong:
        status = 422
    names = [topic.name for topic in console.broker.topics()]
    context = MessageSearch(
        by=by,
        form=form,
        size=_size(request),
        topics=names[:SUGGESTED_MAX],
        topics_total=len(names),
        rows=await console.render(lambda: [row_of(message) for message in answer.messages]),
        shown=await console.render(lambda: columns.show(answer.messages, chosen)),
        paths=chosen.paths,
        looked=answer.looked,
        note=answer.note,
        earlier_href=answer.earlier,
        later_href=answer.later,
        is_asked=is_asked,
    )
    return await pages.respond(
        request, "messages.html", context, title=_("Messages"), section="messages", status=status
    )


def _blame(form: Form, error: EngineError) -> None:
    if isinstance(error, NotFound):
        form.refuse(
            "queue" if isinstance(error, QueueNotFound) else "topic",
            _("Not found: %(detail)s.", detail=error.detail),
        )
    else:
        form.blame(error, {"expression": "filter"})


def _size(request: Request) -> int:
    text = request.query_params.get("size", "")
    return next((size for size in SIZES if str(size) == text), SIZE_DEFAULT)


async def _answer(
    request: Request, by: str, form: Form, query: ScanQuery, chosen: Columns
) -> _Answer:
    if by == "id":
        return await _by_id(request, form.values["id"])
    if by == "key":
        return await _by_key(request, form.values["topic"], form.values["key"])
    if by == "offset":
        return _along(request, form)
    cursor = request.query_params.get("cursor", "")
    size = _size(request)
    page = await search_of(request).scan(query, count_max=size, cursor=cursor, budget_s=BUDGET_S)
    return _Answer(page.items, _looked(query, page, cursor, size, chosen))


def _looked(query: ScanQuery, page: ScanPage, cursor: str, size: int, chosen: Columns) -> Looked:
    kept: dict[str, object] = {**chosen.kept}
    if size != SIZE_DEFAULT:
        kept["size"] = size
    following = page.next_cursor or ""
    address = message_query.address
    return Looked(
        scanned=page.scanned,
        total=page.total,
        matched=page.matched,
        unreadable=page.unreadable,
        reached_ms=page.reached_ms,
        begin_ms=query.begin_ms,
        is_first=not cursor,
        next_cursor=following,
        next_href=address(query, "/messages", **kept, cursor=following) if following else "",
        first_href=address(query, "/messages", **kept),
        here_href=address(query, "/messages", **kept, cursor=cursor),
        export_href=address(query, "/messages/export"),
    )


async def _by_id(request: Request, text: str) -> _Answer:
    return _Answer(await search_of(request).by_id(text))


async def _by_key(request: Request, topic: str, key: str) -> _Answer:
    search = search_of(request)
    if topic:
        found = await search.by_key(topic, key)
        is_cut = len(found) >= KEY_COUNT_MAX
        note = (
            _(
                "The newest %(key_count_max)s are shown; the key has more.",
                key_count_max=KEY_COUNT_MAX,
            )
            if is_cut
            else ""
        )
        return _Answer(found, note=note)
    anything = await search.anything(key)
    note = _("In every topic, by key and by id.")
    if anything.is_cut:
        note += _(" There may be more: choose a topic to see them.")
    return _Answer(list(anything.messages), note=note)


def _along(request: Request, form: Form) -> _Answer:
    broker = pages.console_of(request).broker
    stats = broker.topic_stats(form.values["topic"]).queues
    for name in ("queue", "offset"):
        form.values[name] = form.values[name] or "0"
    queue = form.number("queue", _("Queue"), 0, len(stats) - 1)
    offset = form.number("offset", _("Offset"), 0, OFFSET_MAX)
    if form.is_wrong:
        return _Answer([])
    found = browsing.along(
        broker, form.values["topic"], stats[queue], offset=offset, count_max=_size(request)
    )
    note = _(
        "Queue %(queue)s keeps %(kept)s messages. %(note)s",
        queue=queue,
        kept=f"{found.kept:,}",
        note=found.note,
    ).strip()
    return _Answer(
        found.messages, note=note, earlier=found.previous_cursor, later=found.next_cursor
    )
