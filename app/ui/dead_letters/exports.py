"""Exports of dead letters: CSV and NDJSON are streamed, XLSX uses a temporary file.

Memory is bounded: a chunk of dead letters is read when the client has received the one before.
Formatting runs on the pages' thread.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import IO
from urllib.parse import quote

import msgspec
from starlette.responses import Response, StreamingResponse

from app.monitoring import dead_index
from app.pause import Pause
from app.security.message_rights import require_messages
from app.ui.dead_letters import filters as dead_filter
from app.ui.dead_letters.dead_letters import check_ticked, criteria_of, view_of
from app.ui.dead_letters.filters import Criteria
from app.ui.framework import cells, formats, list_exports
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.xlsx import CELL_CHARS_MAX, Workbook
from engine.broker import DEAD_LETTER_PREFIX, DeadLetter
from engine.errors import GroupNotFound, MessageNotFound
from kitemq.model.spreadsheet_cells import Cell, guarded

STEP = 50
STEP_BYTES = 256 * 1024
CHUNK_BYTES = 64 * 1024
XLSX_ROWS_MAX = 50_000
SPOOL_BYTES_MAX = 4 * 1024 * 1024
WHOLE_S = 20.0
CUT_NOTE = (
    f"Cut here: the workbook holds {XLSX_ROWS_MAX:,} dead letters, there are more."
    " Choose fewer, or export as CSV or NDJSON, which are whole."
)
COLUMNS = (
    "group", "offset", "died_at", "message_id", "keys", "tag", "origin_topic", "origin_id",
    "state", "reason", "error_class", "error", "client", "failures",
    "redriven_by", "redriven_from", "redrive_count",
    "dismissed_at", "dismissed_by", "dismiss_note",
    "born_at", "message_group", "properties", "body_encoding", "body",
)  # fmt: skip
Letters = AsyncIterator[list[DeadLetter]]


async def export(request: PageRequest) -> Response:
    """GET /dlq/{group}/export?format=csv|ndjson|xlsx: the dead letters that meet the criteria."""
    console = request.console
    group = request.path_params["group"]
    kind = list_exports.require_kind(request, ("csv", "ndjson", "xlsx"))
    check_ticked(request, _("go back and select some"))
    require_messages(request.who, DEAD_LETTER_PREFIX + group)
    await console.administration.dead_letters.page(group, count_max=1)  # GroupNotFound
    criteria = criteria_of(request).settled(console.now_ms())
    letters = await _chosen(request, console, group, criteria)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{_file_name(group, kind)}",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    if kind == "xlsx":
        return await _workbook(console, group, letters, headers)
    steps = _csv(console, group, letters) if kind == "csv" else _ndjson(console, group, letters)
    return StreamingResponse(steps, media_type=list_exports.MEDIA_TYPES[kind], headers=headers)


def _file_name(group: str, kind: str) -> str:
    return quote(f"dead-letters-{group}.{kind}", safe="-_.%")


async def _chosen(
    request: PageRequest, console: Console, group: str, criteria: Criteria
) -> Letters:
    """Choose the dead letters to export, newest first, without those that arrive later."""
    if criteria.offsets or criteria.id or criteria.key:
        view = await view_of(request, group, criteria, console.now_ms(), WHOLE_S)
        return _letters(console, group, view.selection.offsets, Criteria(state=dead_filter.ALL))
    low, end = await console.administration.dead_letters.bounds(group)
    return _letters(console, group, range(end - 1, low - 1, -1), criteria)


async def _letters(
    console: Console, group: str, offsets: Sequence[int], criteria: Criteria
) -> Letters:
    """Read the dead letters at the offsets that meet the criteria, in chunks."""
    chunk: list[DeadLetter] = []
    size_bytes = 0
    now_ms = console.now_ms()
    pause = Pause()
    for offset in offsets:
        await pause.when_due()
        try:
            letter = await console.administration.dead_letters.get(group, offset)
        except (MessageNotFound, GroupNotFound):  # deleted by retention or with its topic
            continue
        row = dead_index.row_of(letter.message)
        if not dead_filter.meets(row, criteria, now_ms, letter.state):
            continue
        chunk.append(letter)
        size_bytes += len(letter.message.body)
        if len(chunk) == STEP or size_bytes >= STEP_BYTES:
            yield chunk
            chunk, size_bytes = [], 0
    yield chunk


async def _csv(console: Console, group: str, letters: Letters) -> AsyncIterator[bytes]:
    yield cells.lines([COLUMNS])
    async for chunk in _formatted(console, letters, partial(_csv_rows, group)):
        yield chunk


async def _ndjson(console: Console, group: str, letters: Letters) -> AsyncIterator[bytes]:
    async for chunk in _formatted(console, letters, partial(_json_lines, group)):
        yield chunk


async def _formatted(
    console: Console, letters: Letters, text_of: Callable[[list[DeadLetter]], bytes]
) -> AsyncIterator[bytes]:
    """The text of the chunks, in pieces of at least CHUNK_BYTES."""
    waiting = bytearray()
    async for chunk in letters:
        waiting += await console.render(partial(text_of, chunk))
        if len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _csv_rows(group: str, letters: list[DeadLetter]) -> bytes:
    return cells.lines(_row(group, letter) for letter in letters)


def _json_lines(group: str, letters: list[DeadLetter]) -> bytes:
    lines = bytearray()
    for letter in letters:
        values: dict[str, object] = dict(zip(COLUMNS, _row(group, letter), strict=True))
        values["offset"] = str(letter.message.offset)
        values["keys"] = letter.message.keys
        values["redriven_by"] = letter.redriven_by
        values["properties"] = letter.message.properties
        lines += msgspec.json.encode(values) + b"\n"
    return bytes(lines)


def _row(group: str, letter: DeadLetter) -> list[Cell]:
    message = letter.message
    plain = message.plain
    encoding, body = _body(plain.body)
    encoding += f";{plain.codec}" if plain.why_raw else ""
    message.decompressed = None  # a step of them would take much memory
    rest = letter.dismissed
    return [
        group, message.offset, formats.iso(message.stored_ms), message.message_id,
        " ".join(message.keys), message.tag, letter.origin_topic, letter.origin_id,
        letter.state.value, letter.reason, letter.error_class, letter.error, letter.client,
        letter.failures,
        " ".join(letter.redriven_by), letter.redriven_from, letter.redrive_count,
        *((formats.iso(rest.at_ms), rest.by, rest.note) if rest else ("", "", "")),
        formats.iso(message.born_ms), message.message_group,
        msgspec.json.encode(message.properties).decode(), encoding, body,
    ]  # fmt: skip


def _body(body: bytes) -> tuple[str, str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "base64", _base64(body)
    return ("base64", _base64(body)) if "\0" in text else ("text", text)


def _base64(body: bytes) -> str:
    text: str = msgspec.to_builtins(body)
    return text


async def _workbook(
    console: Console, group: str, letters: Letters, headers: dict[str, str]
) -> Response:
    """Respond with a workbook, completed first so that a header can say if it is cut."""
    file: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL_BYTES_MAX)  # noqa: SIM115
    try:
        book = await console.render(lambda: Workbook(file))
        rows, is_more = await _fill(console, book, group, letters)
        await console.render(lambda: book.__exit__(None, None, None))
    except BaseException:
        file.close()
        raise
    headers["X-Result-Rows"] = str(rows)
    headers["X-Result-Truncated"] = f"rows over {XLSX_ROWS_MAX}" if is_more else "no"
    return StreamingResponse(
        _sent(console, file), media_type=list_exports.MEDIA_TYPES["xlsx"], headers=headers
    )


async def _fill(console: Console, book: Workbook, group: str, letters: Letters) -> tuple[int, bool]:
    """Write the rows; returns their number and whether rows beyond XLSX_ROWS_MAX are missing."""
    await console.render(lambda: book.add([[*COLUMNS, "cut"]]))
    rows = 0
    async for chunk in letters:
        room = XLSX_ROWS_MAX - rows
        rows += min(room, len(chunk))
        await console.render(partial(_add, book, group, chunk[:room]))
        if room < len(chunk):
            await console.render(lambda: book.add([[CUT_NOTE]]))
            return rows, True
    return rows, False


def _add(book: Workbook, group: str, letters: list[DeadLetter]) -> None:
    book.add(_cells(group, letters))


def _cells(group: str, letters: list[DeadLetter]) -> list[list[Cell]]:
    """The rows, with a last column that names truncated cells."""
    rows: list[list[Cell]] = []
    for letter in letters:
        values = list(map(guarded, _row(group, letter)))
        long = [
            name
            for name, value in zip(COLUMNS, values, strict=True)
            if isinstance(value, str) and len(value) > CELL_CHARS_MAX
        ]
        rows.append([*values, " ".join(long)])
    return rows


async def _sent(console: Console, file: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        await console.render(lambda: file.seek(0))
        while chunk := await console.render(lambda: file.read(CHUNK_BYTES)):
            yield chunk
    finally:
        file.close()
