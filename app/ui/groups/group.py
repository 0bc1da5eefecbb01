"""The page of one group's lag: now, over time, and by queue."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.monitoring.forecast import Forecast
from app.monitoring.lag_reader import SPANS, LagOf, LagSpan
from app.monitoring.sampler import GroupFigures, group_figures
from app.ui.framework import pages, tables
from app.ui.framework.console import Console
from app.ui.framework.tables import Cut, Query
from app.ui.groups import lag_chart
from app.ui.groups.head import GroupHead, head_of, topics_of_group
from app.ui.groups.lag_chart import SHAPES, LagChart, Shape
from engine.broker import RETRY_PREFIX, GroupConfig, LagBasis, LagHistoryRetention, QueueLag
from kitemq.model.numbers import is_whole


@dataclass(frozen=True)
class QueueRow:
    """A group's progress in one queue."""

    topic: str
    queue: int
    min_offset: int
    max_offset: int
    committed: int
    lag: int
    counts: LagBasis
    inflight: int
    oldest_ms: int | None
    done_share: float


@dataclass(frozen=True)
class TopicRow:
    """A group's progress in all queues of one topic."""

    topic: str
    queues: int
    lag: int
    inflight: int
    oldest_ms: int | None
    is_paused: bool


@dataclass(frozen=True)
class LagView:
    """The lag history to show: of which queues, over which span, in which measure."""

    whose: LagOf
    span: LagSpan
    shape: Shape
    spans: Sequence[LagSpan] = SPANS
    shapes: Sequence[Shape] = SHAPES


@dataclass(frozen=True)
class GroupPage:
    """The context of `group.html`; `choices` are the topics that a history can be asked of.

    The lag is unknown if the group has no offset yet.
    """

    head: GroupHead
    tab: str
    config: GroupConfig
    figures: GroupFigures
    counts: LagBasis
    has_begun: bool
    forecast: Forecast
    growth: int
    view: LagView
    chart: LagChart
    keeping: LagHistoryRetention
    choices: Sequence[str]
    topics: Sequence[TopicRow]
    cut: Cut[QueueRow]
    query: Query


async def show(request: Request) -> Response:
    """GET /groups/{group}"""
    console = pages.console_of(request)
    config = console.broker.group(request.path_params["group"])
    view = _view(request, config.name)
    history = await console.lags.read(view.whose, view.span)
    chart = await console.render(lambda: lag_chart.chart(history, view.shape))
    context = _page(console, config, view, chart, request)
    return await pages.respond(
        request, "group.html", context, title=config.name, section="groups", is_live=True
    )


def _page(
    console: Console, config: GroupConfig, view: LagView, chart: LagChart, request: Request
) -> GroupPage:
    lag = console.broker.lag(config.name)
    # The group's retry topic is listed once it has held a message.
    queues = [q for q in lag.queues if q.max_offset or q.topic != RETRY_PREFIX + config.name]
    query = tables.parse_query(request.query_params, ("lag", "topic", "oldest"), "-lag")
    rate = console.meter.group_rate(config.name)
    snapshot = console.sampler.snapshot
    return GroupPage(
        head=head_of(console, config, lag),
        tab="lag",
        config=config,
        figures=group_figures(lag, rate),
        counts=lag.counts,
        has_begun=bool(lag.queues),
        forecast=snapshot.forecast(config.name).of_lag(lag.count if lag.queues else None),
        growth=snapshot.growth.get(config.name, 0),
        view=view,
        chart=chart,
        keeping=console.lags.keeping(),
        choices=topics_of_group(console, config, lag),
        topics=_topics(queues, config),
        cut=tables.cut(_queues(queues, query), query),
        query=query,
    )


def _view(request: Request, group: str) -> LagView:
    """Parse the view in a query; invalid values give the default, since people edit links."""
    query = request.query_params
    topic, queue = query.get("topic", ""), query.get("queue", "").strip()
    is_number = is_whole(queue, 5)
    return LagView(
        LagOf(group, topic, int(queue) if topic and is_number else None),
        next((span for span in SPANS if span.name == query.get("range")), SPANS[1]),
        next((shape for shape in SHAPES if shape.name == query.get("show")), SHAPES[0]),
    )


def _queues(queues: Sequence[QueueLag], query: Query) -> list[QueueRow]:
    rows = [_queue_row(queue) for queue in queues]
    keys: dict[str, Callable[[QueueRow], Any]] = {
        "lag": lambda row: row.lag,
        "topic": lambda row: (row.topic, row.queue),
        "oldest": lambda row: row.oldest_ms,
    }
    tables.order(
        rows, keys[query.sort], lambda row: f"{row.topic}\0{row.queue:06}", down=query.is_downward
    )
    return rows


def _queue_row(queue: QueueLag) -> QueueRow:
    messages = queue.max_offset - queue.min_offset
    return QueueRow(
        topic=queue.topic,
        queue=queue.queue,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        committed=queue.committed,
        lag=queue.count,
        counts=queue.counts,
        inflight=queue.inflight,
        oldest_ms=queue.oldest_ms,
        done_share=min(1.0, max(0.0, 1 - queue.count / messages)) if messages else 1.0,
    )


def _topics(everywhere: Sequence[QueueLag], config: GroupConfig) -> list[TopicRow]:
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
            is_paused=name in config.paused_topics,
        )
        for name, queues in sorted(by_topic.items())
    ]
