"""Exports of a search: all matching messages as a file, streamed by page.

The last line says how far the search came and whether the file is complete, because the status of
the response is sent before that is known.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from app.security.message_rights import all_visible, require_messages
from app.ui.framework import cells, formats, list_exports, pages
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.messages import query as message_query
from engine.broker import FOREVER_MS, ScanPage, ScanQuery
from engine.errors import Busy, EngineError, Invalid
from engine.message import RESERVED, StoredMessage

PAGE_COUNT = 200
BUDGET_S = 0.5
BUSY_TRIES = 5
COLUMNS = (
    "topic queue offset message_id offset_id stored_at born_at born_host tag keys message_group "
    "attempt properties body body_encoding"
).split()


@dataclass(frozen=True)
class Summary:
    """The last line: the extent of the search, and why the file is incomplete."""

    topic: str
    filter: str
    contains: str
    begins_at: str
    ends_at: str
    scanned: int = 0
    total: int = 0
    matched: int = 0
    unreadable: int = 0
    is_whole: bool = False
    why: str = ""


async def show(request: PageRequest) -> Response:
    """GET /messages/export?format=ndjson|csv with the search of /messages"""
    console = request.console
    values = request.query_params
    kind = list_exports.require_kind(request, ("ndjson", "csv"))
    form, query = message_query.read(values, console.now_ms(), request.zone)
    if form.is_wrong or not query.topic:
        detail = next(iter(form.errors.values()), _("no topic given"))
        raise Invalid(detail.rstrip("."), remedy=_("go back to the search and correct it"))
    require_messages(request.who, query.topic)
    console.exports.check()
    query = msgspec.structs.replace(query, is_newest_first=False)  # a file reads in its order
    first = await request.services.search.scan(query, count_max=PAGE_COUNT, budget_s=BUDGET_S)
    headers = pages.as_file(f"{query.topic}.{kind}", is_free=True)
    return StreamingResponse(
        _parts(request, query, kind, first),
        media_type=list_exports.MEDIA_TYPES[kind],
        headers=headers | {"X-Total": str(first.total)},
    )


async def _parts(
    request: PageRequest, query: ScanQuery, kind: str, first: ScanPage
) -> AsyncIterator[bytes]:
    console = request.console
    summary = Summary(
        topic=query.topic,
        filter=query.filter,
        contains=query.contains,
        begins_at=formats.iso(query.begin_ms) if query.begin_ms else "",
        ends_at=formats.iso(query.end_ms) if query.end_ms != FOREVER_MS else "",
    )
    with console.exports.taken():
        if kind == "csv":
            yield cells.lines([COLUMNS])
        page = first
        while True:
            summary = _counted(summary, page)
            if page.items:
                items = all_visible(request.who, page.items)
                yield await console.render(partial(_lines, kind, items))
            if page.next_cursor is None:
                break
            try:
                page = await _next(request, console, query, page.next_cursor)
            except EngineError as error:
                summary = replace(summary, why=f"it broke off: {error.detail}")
                break
        yield _last(kind, _ended(summary, page))


async def _next(request: PageRequest, console: Console, query: ScanQuery, cursor: str) -> ScanPage:
    """The next page; retries a few times while too many searches are running."""
    search = request.services.search
    for __ in range(BUSY_TRIES):
        if not console.host.is_ready:
            break
        try:
            return await search.scan(query, count_max=PAGE_COUNT, cursor=cursor, budget_s=BUDGET_S)
        except Busy as error:
            await asyncio.sleep(error.retry_after_s)
    raise Busy("the server is stopping, or too many search at once")


def _counted(summary: Summary, page: ScanPage) -> Summary:
    return replace(
        summary,
        scanned=page.scanned,
        total=page.total,
        matched=page.matched,
        unreadable=summary.unreadable + page.unreadable,
    )


def _ended(summary: Summary, page: ScanPage) -> Summary:
    if summary.why or page.next_cursor is not None:
        return summary
    if summary.unreadable:
        return replace(summary, why=f"{summary.unreadable} messages are damaged or gone")
    return replace(summary, is_whole=True)


def row_of(message: StoredMessage) -> dict[str, Any]:
    """A message by the names in COLUMNS; a binary body is base64.

    For a body that could not be decompressed the encoding has its codec: "base64;zlib".
    """
    plain = message.plain
    try:
        body, encoding = plain.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, encoding = b64encode(plain.body).decode(), "base64"
    encoding += f";{plain.codec}" if plain.why_raw else ""
    message.decompressed = None  # a page of them would take much memory
    return {
        "topic": message.topic,
        "queue": message.queue,
        "offset": str(message.offset),
        "message_id": message.message_id,
        "offset_id": message.offset_id,
        "stored_at": formats.iso(message.stored_ms),
        "born_at": formats.iso(message.born_ms),
        "born_host": message.born_host,
        "tag": message.tag,
        "keys": message.keys,
        "message_group": message.message_group,
        "attempt": message.attempt,
        "properties": {k: v for k, v in message.properties.items() if k not in RESERVED},
        "body": body,
        "body_encoding": encoding,
    }


def _lines(kind: str, messages: list[StoredMessage]) -> bytes:
    return list_exports.encoded(kind, map(row_of, messages))


def _last(kind: str, summary: Summary) -> bytes:
    if kind == "ndjson":
        return list_exports.encoded(kind, [{"export": asdict(summary)}])
    summary_text = f"scanned {summary.scanned} of {summary.total}, {summary.matched} found, "
    summary_text += "whole" if summary.is_whole else f"NOT WHOLE: {summary.why}"
    return cells.lines([["# export", summary_text]])
