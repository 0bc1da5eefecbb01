"""Exports of a search: all matching messages as a file, streamed by page.

The last line says how far the search came and whether the file is complete, because the status of
the response is sent before that is known.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.container import services_of
from app.security.access import principal_of
from app.security.message_rights import all_visible, require_messages
from app.ui.framework import cells, formats, list_exports, pages, preferences
from app.ui.framework.console import Console
from app.ui.framework.language import _
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


@dataclass(frozen=True)
class Format:
    """The format of a file: its head, rows and last line."""

    media_type: str
    head: bytes
    rows: Callable[[list[StoredMessage]], bytes]
    last: Callable[[Summary], bytes]


async def show(request: Request) -> Response:
    """GET /messages/export?format=ndjson|csv with the search of /messages"""
    console = pages.console_of(request)
    values = request.query_params
    name = list_exports.require_kind(request, tuple(FORMATS))
    form, query = message_query.read(values, console.now_ms(), preferences.read(request).zone)
    if form.is_wrong or not query.topic:
        detail = next(iter(form.errors.values()), _("no topic given"))
        raise Invalid(detail.rstrip("."), remedy=_("go back to the search and correct it"))
    require_messages(principal_of(request.scope), query.topic)
    console.exports.check()
    first = await services_of(request.scope).search.scan(
        query, count_max=PAGE_COUNT, budget_s=BUDGET_S
    )
    file = quote(f"{query.topic}.{name}", safe="-_.")
    return StreamingResponse(
        _parts(request, query, FORMATS[name], first),
        media_type=FORMATS[name].media_type,
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{file}",
            "Cache-Control": "no-store",
            "X-Total": str(first.total),
        },
    )


async def _parts(
    request: Request, query: ScanQuery, format_: Format, first: ScanPage
) -> AsyncIterator[bytes]:
    console = pages.console_of(request)
    summary = Summary(
        topic=query.topic,
        filter=query.filter,
        contains=query.contains,
        begins_at=formats.iso(query.begin_ms) if query.begin_ms else "",
        ends_at=formats.iso(query.end_ms) if query.end_ms != FOREVER_MS else "",
    )
    with console.exports.taken():
        yield format_.head
        page = first
        while True:
            summary = _counted(summary, page)
            if page.items:
                items = all_visible(principal_of(request.scope), page.items)
                yield await console.render(partial(format_.rows, items))
            if page.next_cursor is None:
                break
            try:
                page = await _next(request, console, query, page.next_cursor)
            except EngineError as error:
                summary = replace(summary, why=f"it broke off: {error.detail}")
                break
        yield format_.last(_ended(summary, page))


async def _next(request: Request, console: Console, query: ScanQuery, cursor: str) -> ScanPage:
    """The next page; retries a few times while too many searches are running."""
    search = services_of(request.scope).search
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


def _json_lines(messages: list[StoredMessage]) -> bytes:
    return b"".join(msgspec.json.encode(row_of(message)) + b"\n" for message in messages)


def _json_last(summary: Summary) -> bytes:
    return msgspec.json.encode({"export": asdict(summary)}) + b"\n"


def _csv_rows(messages: list[StoredMessage]) -> bytes:
    return cells.lines([_cell(name, row) for name in COLUMNS] for row in map(row_of, messages))


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if name == "keys":
        return " ".join(value)
    return msgspec.json.encode(value).decode() if name == "properties" else str(value)


def _csv_last(summary: Summary) -> bytes:
    summary_text = f"scanned {summary.scanned} of {summary.total}, {summary.matched} found, "
    summary_text += "whole" if summary.is_whole else f"NOT WHOLE: {summary.why}"
    return cells.lines([["# export", summary_text]])


FORMATS = {
    "ndjson": Format("application/x-ndjson", b"", _json_lines, _json_last),
    "csv": Format("text/csv; charset=utf-8", cells.lines([COLUMNS]), _csv_rows, _csv_last),
}
