"""Whole lists as CSV: every row that matches, by the figures of the last walk over them.

A figure that is not known is an empty cell with its reason in the last column but one; the last
one says when the figures were read.
"""

from collections.abc import Iterable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.ui import cells, formats
from app.ui.console import Console
from app.ui.kinds import kind_of
from app.ui.sampler import Snapshot
from engine.broker import GroupConfig, TopicConfig

TOPIC_HEAD = (
    "topic,type,permission,queues,messages,in_per_s,groups,worst_lag,last_message,unknown,read_at"
)
GROUP_HEAD = (
    "group,paused,unread,oldest_unread,in_flight,retrying,dead_letters,acked_per_s,unknown,read_at"
)
NOT_READ = "newer than the figures"
NO_READER = "no group reads it"
NO_PLACE = "the group has no place in any queue yet"

Row = Sequence[str]


def is_csv(request: Request) -> bool:
    """Whether the list is wanted as `?format=csv`."""
    return request.query_params.get("format") == "csv"


async def topics(console: Console, chosen: Sequence[TopicConfig], snapshot: Snapshot) -> Response:
    """Topics as a file."""
    rows = (_topic(topic, snapshot) for topic in chosen)
    return await _file(console, "topics", TOPIC_HEAD, rows)


async def groups(console: Console, chosen: Sequence[GroupConfig], snapshot: Snapshot) -> Response:
    """Groups as a file."""
    rows = (_group(group, snapshot) for group in chosen)
    return await _file(console, "groups", GROUP_HEAD, rows)


async def _file(console: Console, name: str, head: str, rows: Iterable[Row]) -> Response:
    content = await console.render(lambda: cells.lines([head.split(","), *rows]))
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.csv"',
        "Cache-Control": "no-store",
    }
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)


def _topic(topic: TopicConfig, snapshot: Snapshot) -> Row:
    figures = snapshot.topics.get(topic.name)
    known = (topic.name, kind_of(topic), str(topic.permission), str(topic.read_queues))
    read_at = _time(snapshot.taken_ms)
    if figures is None:
        return (*known, "", "", "", "", "", NOT_READ, read_at)
    lag = snapshot.worst_lag(topic.name)
    return (
        *known,
        str(figures.messages),
        f"{figures.rate:.2f}",
        str(len(snapshot.readers(topic.name))),
        "" if lag is None else str(lag),
        _time(figures.last_ms),
        NO_READER if lag is None else "",
        read_at,
    )


def _group(group: GroupConfig, snapshot: Snapshot) -> Row:
    figures = snapshot.groups.get(group.name)
    known = (group.name, "no" if group.consume_enabled else "yes")
    read_at = _time(snapshot.taken_ms)
    if figures is None:
        return (*known, "", "", "", "", "", "", NOT_READ, read_at)
    has_place = bool(figures.lag_by_topic)
    return (
        *known,
        str(figures.lag) if has_place else "",
        _time(figures.oldest_ms),
        str(figures.inflight),
        str(figures.retry_waiting),
        str(figures.dead),
        f"{figures.rate:.2f}",
        "" if has_place else NO_PLACE,
        read_at,
    )


def _time(at_ms: int | None) -> str:
    return formats.iso(at_ms) if at_ms else ""
