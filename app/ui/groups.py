"""The list of consumer groups, and one group with its place in every queue."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.ui import charts, pages, tables
from app.ui.charts import Line
from app.ui.console import Console
from app.ui.kinds import DEAD_LETTER_PREFIX, RETRY_PREFIX
from app.ui.pause import Pause
from app.ui.sampler import GroupFigures, Snapshot, group_figures
from app.ui.tables import Cut, Query
from engine.broker import GroupConfig, QueueLag
from engine.errors import NotFound

SORTS = ("name", "lag", "oldest", "inflight", "retry", "dead", "rate")
AGE_MAX_MS = 5_000
QUEUES_SHOWN_MAX = 200


@dataclass(frozen=True)
class GroupRow:
    """A line of the list, read when the page was."""

    name: str
    is_paused: bool
    topics: int
    lag: int
    history: Line
    oldest_ms: int | None
    inflight: int
    retry_waiting: int
    dead: int
    rate: float
    dead_topic: str


@dataclass(frozen=True)
class GroupList:
    """The context of `groups.html`; lists are sorted by figures read at `as_of_ms`."""

    cut: Cut[GroupRow]
    query: Query
    as_of_ms: int
    is_any: bool


@dataclass(frozen=True)
class QueueRow:
    """A group's place in one queue."""

    topic: str
    queue: int
    min_offset: int
    max_offset: int
    committed: int
    lag: int
    inflight: int
    oldest_ms: int | None
    done_share: float


@dataclass(frozen=True)
class TopicRow:
    """A group's place in all queues of one topic."""

    topic: str
    queues: int
    lag: int
    inflight: int
    oldest_ms: int | None


@dataclass(frozen=True)
class GroupPage:
    """The context of `group.html`."""

    name: str
    config: GroupConfig
    figures: GroupFigures
    growth: int
    history: Line
    topics: list[TopicRow]
    cut: Cut[QueueRow]
    query: Query
    dead_topic: str
    retry_topic: str
    has_dead_topic: bool
    has_retry_topic: bool


async def show(request: Request) -> Response:
    """GET /groups"""
    console = pages.console_of(request)
    query = tables.parse_query(request.query_params, SORTS, "-lag")
    snapshot = await console.sampler.fresh(AGE_MAX_MS)
    everything = list(console.broker.groups())
    page = await console.render(lambda: _select(everything, snapshot, query))
    rows: list[GroupRow] = []
    pause = Pause()
    for group in page.rows:
        with contextlib.suppress(NotFound):  # deleted while the others were read
            rows.append(_row(console, group))
        await pause.when_due()
    context = GroupList(
        cut=Cut(rows, page.total, page.first, page.last, page.page, page.pages, page.size),
        query=query,
        as_of_ms=snapshot.taken_ms,
        is_any=bool(everything),
    )
    return await pages.respond(
        request, "groups.html", context, title="Groups", section="groups", is_live=True
    )


def _select(everything: list[GroupConfig], snapshot: Snapshot, query: Query) -> Cut[GroupConfig]:
    """Filter, sort and cut; pure, as another thread does it."""
    words = query.text.lower().split()
    chosen = [g for g in everything if all(word in g.name.lower() for word in words)]
    tables.order(chosen, _key(snapshot, query.sort), lambda g: g.name, down=query.is_downward)
    return tables.cut(chosen, query)


def _key(snapshot: Snapshot, sort: str) -> Callable[[GroupConfig], Any]:
    """What a list is sorted by; None for a group that is newer than the snapshot."""
    if sort == "name":
        return lambda group: group.name
    field = {"oldest": "oldest_ms", "retry": "retry_waiting"}.get(sort, sort)
    return lambda group: getattr(snapshot.groups.get(group.name), field, None)


def _row(console: Console, group: GroupConfig) -> GroupRow:
    rate = console.meter.group_rate(group.name)
    figures = group_figures(console.broker.lag(group.name), rate, console.now_ms())
    return GroupRow(
        name=group.name,
        is_paused=not group.consume_enabled,
        topics=sum(name != RETRY_PREFIX + group.name for name in figures.lag_by_topic),
        lag=figures.lag,
        history=charts.line(console.sampler.lag_history(group.name)),
        oldest_ms=figures.oldest_ms,
        inflight=figures.inflight,
        retry_waiting=figures.retry_waiting,
        dead=figures.dead,
        rate=rate,
        dead_topic=DEAD_LETTER_PREFIX + group.name,
    )


async def detail(request: Request) -> Response:
    """GET /groups/{group}"""
    console = pages.console_of(request)
    config = console.broker.group(request.path_params["group"])
    lag = console.broker.lag(config.name)
    query = tables.parse_query(request.query_params, ("lag", "topic", "oldest"), "-lag")
    # The group's own retry topic is a place like any other, once it has held something.
    queues = [q for q in lag.queues if q.max_offset or q.topic != RETRY_PREFIX + config.name]
    rows = [_queue_row(queue) for queue in queues]
    keys: dict[str, Callable[[QueueRow], Any]] = {
        "lag": lambda row: row.lag,
        "topic": lambda row: (row.topic, row.queue),
        "oldest": lambda row: row.oldest_ms,
    }
    tables.order(
        rows, keys[query.sort], lambda row: f"{row.topic}\0{row.queue:06}", down=query.is_downward
    )
    dead_topic, retry_topic = DEAD_LETTER_PREFIX + config.name, RETRY_PREFIX + config.name
    context = GroupPage(
        name=config.name,
        config=config,
        figures=group_figures(lag, console.meter.group_rate(config.name), console.now_ms()),
        growth=console.sampler.snapshot.growth.get(config.name, 0),
        history=charts.line(console.sampler.lag_history(config.name), 240, 48),
        topics=_topics(queues),
        cut=tables.cut(rows, query),
        query=query,
        dead_topic=dead_topic,
        retry_topic=retry_topic,
        has_dead_topic=_has_topic(console, dead_topic),
        has_retry_topic=_has_topic(console, retry_topic),
    )
    return await pages.respond(
        request, "group.html", context, title=config.name, section="groups", is_live=True
    )


def _has_topic(console: Console, name: str) -> bool:
    try:
        console.broker.topic(name)
    except NotFound:
        return False
    return True


def _queue_row(queue: QueueLag) -> QueueRow:
    kept = queue.max_offset - queue.min_offset
    return QueueRow(
        topic=queue.topic,
        queue=queue.queue,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        committed=queue.committed,
        lag=queue.count,
        inflight=queue.inflight,
        oldest_ms=queue.oldest_ms,
        done_share=min(1.0, max(0.0, 1 - queue.count / kept)) if kept else 1.0,
    )


def _topics(everywhere: Sequence[QueueLag]) -> list[TopicRow]:
    by_topic: dict[str, list[QueueLag]] = {}
    for queue in everywhere:
        by_topic.setdefault(queue.topic, []).append(queue)
    return [
        TopicRow(
            topic=name,
            queues=len(queues),
            lag=sum(queue.count for queue in queues),
            inflight=sum(queue.inflight for queue in queues),
            oldest_ms=min((q.oldest_ms for q in queues if q.oldest_ms is not None), default=None),
        )
        for name, queues in sorted(by_topic.items())
    ]
