"""Live tail: messages of several topics as they are stored, by Server-Sent Events.

The page shows the newest messages; the stream continues exactly where the page ends, and after a
reconnect where the last event ended, since an event's id holds the offset of every queue.
"""

import math
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from starlette.responses import RedirectResponse, Response, StreamingResponse

from app.capabilities import require as require_capability
from app.pause import Pause
from app.security.access import READ_SERVER, Principal, require
from app.security.message_rights import all_visible, looks_inside, require_messages
from app.services.bodies import decompress_all
from app.services.tail import TOPICS_MAX, Tail, TailBatch
from app.ui.framework import formats, pages, typed_forms
from app.ui.framework.console import Console
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields
from app.ui.messages.message import address
from app.ui.messages.messages import blame
from app.ui.topics.messages import MessageRow, row_of
from engine.errors import EngineError, Forbidden
from engine.message import StoredMessage

ROWS = (50, 100, 200, 500, 1000, 2000)
FIRST_ROWS = 50
FIRST_READS_MAX = 20
KEYS_SHOWN = 3
TICK_S = 0.2
HEARTBEAT_S = 5.0
RETRY_MS = 1000
TEXT_MAX = 4200
SUGGESTED_MAX = 200
SEPARATORS = re.compile(r"[\s,]+")


@dataclass(frozen=True)
class TailPage:
    """The context of `tail.html`; without topics there is nothing to follow yet.

    `begin` is the mark before the rows, `mark` after them; `permalink` with `begin` repeats them.
    `unknown` says why some queues are left out.
    """

    form: Form
    topics: list[str]
    rows_max: int
    rows: list[MessageRow]
    mark: str
    begin: str
    unknown: str
    stream: str
    permalink: str
    suggested: list[str]
    choices: tuple[int, ...] = ROWS
    topics_max: int = TOPICS_MAX


class TailQuery(Fields, frozen=True, rename={"mark": "from"}):
    """The topics and the filter in a query, and the mark at which to begin."""

    topic: tuple[str, ...] = ()
    add: str = ""
    filter: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    rows: Literal[50, 100, 200, 500, 1000, 2000] = 200
    mark: str = ""

    @property
    def topics(self) -> list[str]:
        """The names in all the texts, each once."""
        text = " ".join([*self.topic, self.add])[:TEXT_MAX]
        return list(dict.fromkeys(name for name in SEPARATORS.split(text) if name))

    @property
    def expression(self) -> str:
        """The filter, "*" without one."""
        return self.filter or "*"


async def show(request: PageRequest) -> Response:
    """GET /tail?topic=a,b&filter=…&rows=…; several `topic` lead to the one that lists them.

    With `from=` it begins at that mark instead of at the newest messages.
    """
    console = request.console
    values = request.query_params
    query = typed_forms.query(values, TailQuery)
    if len(values.getlist("topic")) > 1 or query.add:
        params = {name: values[name] for name in ("filter", "rows", "format") if values.get(name)}
        return RedirectResponse(_link("/tail", query.topics, params), status_code=302)
    who = request.who
    form = Form({"topic": ", ".join(query.topics), "filter": query.filter})
    first = _First([], "", "")
    if query.topics:
        try:
            _check_filter(who, query)
            _check_engine(console, query)
            first = await (_since(console, query) if query.mark else _newest(console, query))
        except EngineError as error:
            blame(form, error)
    params = {"filter": query.filter, "rows": str(query.rows)}
    names = [topic.name for topic in await console.administration.topics()]
    context = TailPage(
        form=form,
        topics=query.topics if first.mark else [],
        rows_max=query.rows,
        rows=await console.render(partial(_rows, who, first.messages)),
        mark=first.mark,
        begin=first.begin,
        unknown=first.unknown,
        permalink=_link("/tail", query.topics, params),
        stream=_link("/tail/stream", query.topics, {"filter": query.filter}),
        suggested=names[:SUGGESTED_MAX],
    )
    title = _("Live tail")
    return await pages.respond(request, "tail.html", context, title=title)


async def stream(request: PageRequest) -> Response:
    """GET /tail/stream?topic=…&filter=…&from=…: events from `Last-Event-ID`, else from `from`."""
    console = request.console
    query = request.read_query(TailQuery)
    mark = request.headers.get("last-event-id", "") or query.mark
    _check_filter(request.who, query)
    _check_engine(console, query)
    console.tails.check()
    tail = await _begin(console, query, mark=mark)
    return StreamingResponse(
        _events(console, tail, request.zone.rules, _stays(request, query)),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _check_filter(who: Principal, query: TailQuery) -> None:
    """Raise RightMissing if the filter would reveal content that the user may not read."""
    if looks_inside(query.expression):
        for topic in query.topics:
            require_messages(who, topic)


def _check_engine(console: Console, query: TailQuery) -> None:
    if looks_inside(query.expression):
        require_capability(console.messaging.capabilities, "sql_filters", field="filter")


def _stays(request: PageRequest, query: TailQuery) -> Callable[[], Principal]:
    """A check that gives the stream's current user; raises Forbidden after a revocation."""
    authenticator = request.services.authenticator

    def check() -> Principal:
        who = authenticator.reauthenticate(request.scope)
        if who is None:
            raise Forbidden(_("the session or token has ended"), remedy=_("log in again"))
        require(who, READ_SERVER.action, READ_SERVER.kind)
        _check_filter(who, query)
        return who

    return check


async def _events(
    console: Console, tail: Tail, zone: tzinfo, check: Callable[[], Principal]
) -> AsyncIterator[bytes]:
    """Batches as events, with heartbeats in between, until the server stops.

    `check` runs before each of them.
    """
    unknown = ""
    with console.tails.taken():
        yield b"retry: %d\n\n" % RETRY_MS
        while console.host.is_ready:
            try:
                who = check()
                batch = await tail.read()
                if batch.has_news or batch.unknown != unknown:
                    unknown = batch.unknown
                    yield await console.render(partial(_event, who, batch, zone))
                if batch.has_news or batch.is_behind:
                    await console.host.wait(_Nothing, TICK_S)
                elif not await console.host.wait(tail.park, HEARTBEAT_S):
                    yield f": nothing new\nid: {tail.mark}\n\n".encode()
            except EngineError as error:
                # A retry would fail the same way, so the page shows the reason.
                text = msgspec.json.encode({"detail": error.detail, "remedy": error.remedy})
                yield b"event: over\ndata: " + text + b"\n\n"
                return


class _Nothing:
    """A source to wait on for a pause that also ends when the server stops."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is never called."""

    def cancel(self) -> None:
        """Do nothing: there is nothing to cancel."""


def _event(who: Principal, batch: TailBatch, zone: tzinfo) -> bytes:
    """A batch as one event; pure, because it runs on another thread."""
    decompress_all(batch.messages)
    data: dict[str, Any] = {
        "rows": [_row(message, zone) for message in all_visible(who, batch.messages)],
        "looked": batch.looked,
        "skipped": batch.skipped,
        "gone": batch.gone,
        "unknown": batch.unknown,
    }
    return b"id: %s\nevent: rows\ndata: %s\n\n" % (batch.mark.encode(), msgspec.json.encode(data))


def _rows(who: Principal, messages: list[StoredMessage]) -> list[MessageRow]:
    """The rows of the page, newest first; for a thread."""
    decompress_all(messages)
    return [row_of(each) for each in all_visible(who, reversed(messages))]


def _row(message: StoredMessage, zone: tzinfo) -> dict[str, Any]:
    row = row_of(message)
    return {
        "topic": row.topic,
        "place": f"{row.queue}:{row.offset}",
        "href": address(row.topic, row.queue, row.offset),
        "at": formats.iso(row.stored_ms),
        "clock": formats.absolute(row.stored_ms, zone)[11:23],
        "tag": row.tag,
        "keys": " ".join(row.keys[:KEYS_SHOWN]),
        "attempt": row.attempt,
        "body": row.preview,
        "size": formats.size(row.size_bytes),
    }


@dataclass(frozen=True)
class _First:
    """The messages of the page, oldest first, with the marks before and after them.

    `unknown` says why some queues are left out.
    """

    messages: list[StoredMessage]
    begin: str
    mark: str
    unknown: str = ""


async def _since(console: Console, query: TailQuery) -> _First:
    """The messages since a mark, at most `rows` of the query; the stream delivers the rest."""
    tail = await _begin(console, query, mark=query.mark)
    messages, unknown = await _read_ahead(tail, query.rows)
    mark = tail.mark_before(messages[query.rows :])
    return _First(messages[: query.rows], query.mark, mark, unknown)


async def _newest(console: Console, query: TailQuery) -> _First:
    """The newest messages."""
    tail = await _begin(console, query, lookback=FIRST_ROWS)
    messages, unknown = await _read_ahead(tail)
    newest = messages[-FIRST_ROWS:]
    return _First(newest, tail.mark_before(newest), tail.mark, unknown)


async def _begin(console: Console, query: TailQuery, *, mark: str = "", lookback: int = 0) -> Tail:
    return await Tail.begin(
        console.messaging,
        query.topics,
        query.expression,
        mark=mark,
        lookback=lookback,
        now_ms=console.now_ms(),
    )


async def _read_ahead(tail: Tail, count_max: float = math.inf) -> tuple[list[StoredMessage], str]:
    """Read until the end, `count_max` messages or the limit on reads; why queues are left out."""
    messages, unknown = list[StoredMessage](), ""
    pause = Pause()
    for __ in range(FIRST_READS_MAX):
        batch = await tail.read()
        messages += batch.messages
        unknown = batch.unknown
        if not batch.is_behind or len(messages) >= count_max:
            break
        await pause.when_due()
    return messages, unknown


def _link(path: str, topics: list[str], values: dict[str, str]) -> str:
    params = {name: value for name, value in values.items() if value not in ("", "*")}
    return f"{path}?{urlencode({'topic': ','.join(topics), **params}, safe=',')}"
