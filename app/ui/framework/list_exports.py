"""Exports of whole lists: every matching row, with the figures of the last snapshot.

CSV, XLSX or NDJSON, at most `ROWS_MAX` rows; a response header and the last row of the file say if
there are more. An unknown figure is an empty cell with its reason in the last column but one; the
last column is the time of the figures. Empty settings of a topic are the broker's defaults.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from app.monitoring.sampler import Snapshot
from app.services.topic_kinds import kind_of
from app.ui.framework import cells, formats, pages
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.xlsx import Workbook
from engine.broker import GroupConfig, TopicConfig
from engine.errors import Invalid
from kitemq.model.spreadsheet_cells import Cell, guarded
from kitemq.model.topics import SETTINGS

ROWS_MAX = 100_000
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "ndjson": "application/x-ndjson",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
TOPIC_COLUMNS = (
    "topic", "type", *SETTINGS,
    "messages", "in_per_s", "groups", "worst_lag", "last_message", "unknown", "read_at",
)  # fmt: skip
GROUP_COLUMNS = (
    "group", "paused", "ordered", "unread", "oldest_unread", "in_flight", "retrying",
    "dead_letters", "acked_per_s", "unknown", "read_at",
)  # fmt: skip
NOT_READ = "newer than the figures"
NO_READER = "no group reads it"
NO_PLACE = "the group has no offset in any queue yet"

Row = Sequence[Cell]


@dataclass(frozen=True)
class Listing:
    """The content of a file; `rows` is consumed on the thread that writes the file."""

    name: str
    columns: Sequence[str]
    rows: Iterable[Row]
    total: int

    @property
    def cut(self) -> str:
        """The text of the last row if there are more rows; "" if the file is complete."""
        is_whole = self.total <= ROWS_MAX
        return "" if is_whole else f"cut: the first {ROWS_MAX} of {self.total} rows"


def file_kind(request: Request) -> str:
    """The format of a file in `?format=`; "" for a page."""
    kind = request.query_params.get("format", "")
    return kind if kind in MEDIA_TYPES else ""


def require_kind(request: Request, kinds: Sequence[str]) -> str:
    """The format in `?format=`, by default the first; raises Invalid for another one."""
    kind = request.query_params.get("format", kinds[0])
    if kind not in kinds:
        raise Invalid(
            _("%(kind)s is not a format", kind=f"{kind[:20]!r}"),
            field="format",
            remedy=_("choose %(choices)s", choices=", ".join(kinds)),
        )
    return kind


def encoded(kind: str, records: Iterable[Mapping[str, Any]]) -> bytes:
    """Records with the same fields as lines of NDJSON, or of CSV with their values as texts."""
    if kind == "ndjson":
        return b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    return cells.lines([_text(value) for value in record.values()] for record in records)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(value)
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else str(value)


def topics(configs: Sequence[TopicConfig], snapshot: Snapshot) -> Listing:
    """The file of topics; `topic_files.py` can import the definitions."""
    rows = (_topic(topic, snapshot) for topic in configs)
    return Listing("topics", TOPIC_COLUMNS, rows, len(configs))


def groups(configs: Sequence[GroupConfig], snapshot: Snapshot) -> Listing:
    """The file of groups."""
    rows = (_group(group, snapshot) for group in configs)
    return Listing("groups", GROUP_COLUMNS, rows, len(configs))


async def respond(console: Console, listing: Listing, kind: str) -> Response:
    """Respond with the file; raises Busy if too many exports are running."""
    with console.exports.taken():
        content = await console.render(lambda: WRITERS[kind](listing))
    headers = pages.as_file(f"{listing.name}.{kind}") | {
        "X-Result-Rows": str(min(listing.total, ROWS_MAX)),
        "X-Result-Truncated": listing.cut or "no",
    }
    return Response(content, media_type=MEDIA_TYPES[kind], headers=headers)


def _csv(listing: Listing) -> bytes:
    return cells.lines([listing.columns, *_rows(listing)])


def _ndjson(listing: Listing) -> bytes:
    rows = islice(listing.rows, ROWS_MAX)
    lines = encoded("ndjson", (dict(zip(listing.columns, row, strict=True)) for row in rows))
    return lines + encoded("ndjson", [{"cut": listing.cut}] if listing.cut else [])


def _xlsx(listing: Listing) -> bytes:
    file = io.BytesIO()
    with Workbook(file, listing.name.capitalize()) as book:
        book.add([listing.columns])
        book.add(list(map(guarded, row)) for row in _rows(listing))
    return file.getvalue()


WRITERS: dict[str, Callable[[Listing], bytes]] = {"csv": _csv, "ndjson": _ndjson, "xlsx": _xlsx}


def _rows(listing: Listing) -> Iterator[Row]:
    yield from islice(listing.rows, ROWS_MAX)
    if listing.cut:
        yield [listing.cut]


def _topic(topic: TopicConfig, snapshot: Snapshot) -> Row:
    figures = snapshot.topics.get(topic.name)
    settings = (_setting(getattr(topic, name)) for name in SETTINGS)
    known = (topic.name, kind_of(topic), *settings)
    read_at = _time(snapshot.taken_ms)
    if figures is None:
        why = snapshot.unknown_topics.get(topic.name, NOT_READ)
        return (*known, None, None, None, None, None, why, read_at)
    lag = snapshot.worst_lag(topic.name)
    return (
        *known,
        figures.messages,
        _rate(figures.rate),
        len(snapshot.readers(topic.name)),
        lag,
        _time(figures.last_ms),
        (snapshot.away or NO_READER) if lag is None else "",
        read_at,
    )


def _rate(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _setting(value: object) -> Cell:
    return value if value is None or isinstance(value, int) else str(value)


def _group(group: GroupConfig, snapshot: Snapshot) -> Row:
    figures = snapshot.groups.get(group.name)
    flags = ("no" if group.consume_enabled else "yes", "yes" if group.ordered else "no")
    known = (group.name, *flags)
    read_at = _time(snapshot.taken_ms)
    if figures is None:
        why = snapshot.unknown_groups.get(group.name, NOT_READ)
        return (*known, None, None, None, None, None, None, why, read_at)
    has_place = bool(figures.lag_by_topic)
    return (
        *known,
        figures.lag if has_place else None,
        _time(figures.oldest_ms),
        figures.inflight,
        figures.retry_waiting,
        figures.dead,
        _rate(figures.rate),
        "" if has_place else NO_PLACE,
        read_at,
    )


def _time(at_ms: int | None) -> str | None:
    return formats.iso(at_ms) if at_ms else None
