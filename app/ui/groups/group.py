"""The page of one group's lag: now, over time, and by queue."""

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta
from starlette.responses import Response

from app.monitoring.forecast import Forecast, Outlook
from app.monitoring.lag_reader import SPANS, LagOf, LagSpan, own_span
from app.monitoring.sampler import GroupFigures
from app.ui.framework import charts, tables
from app.ui.framework.charts import TIME, Canvas, Lead, messages_lead
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.tables import Cut, Query
from app.ui.framework.typed_forms import Fields, Moment
from app.ui.groups import lag_chart
from app.ui.groups.head import (
    GroupTab,
    group_of,
    head_of,
    path_of,
    respond,
    topics_of_group,
)
from app.ui.groups.lag_chart import SHAPES, LagChart, Shape
from engine.broker import (
    RETRY_PREFIX,
    GroupConfig,
    GroupLag,
    LagBasis,
    LagHistoryPage,
    LagHistoryRetention,
    QueueLag,
    total,
)
from kitemq.model.conversion import convert

QUEUE_LINES_MAX = 8
TOPIC_LEADS_MAX = 3


class LagChartQuery(Fields, frozen=True, rename={"from_ms": "from", "to_ms": "to"}):
    """The history that a query asks for; `from` and `to` go before `range`."""

    topic: str = ""
    queue: Annotated[int | None, Meta(ge=0, le=99_999)] = None
    range: str = ""
    show: str = ""
    split: Literal["", "queue"] = ""
    from_ms: Moment | None = None
    to_ms: Moment | None = None
    zone: str = ""


class QueueLagRow(QueueLag, frozen=True):
    """A group's progress in one queue."""

    done_share: float = 1.0


@dataclass(frozen=True)
class TopicProgress:
    """A group's progress in all queues of one topic."""

    topic: str
    queues: int
    lag: int
    inflight: int | None
    oldest_ms: int | None
    is_paused: bool


@dataclass(frozen=True)
class LagView:
    """The lag history to show: of which queues, over which span, in which measure.

    If it is split, each of the queues with the most unread messages has a line.
    """

    whose: LagOf
    span: LagSpan
    shape: Shape
    is_split: bool
    spans: Sequence[LagSpan] = SPANS
    shapes: Sequence[Shape] = SHAPES


@dataclass(frozen=True)
class GroupOverview(GroupTab):
    """The context of `group.html`; `choices` are the topics that a history can be asked of.

    The lag is unknown if the group has no offset yet.
    """

    config: GroupConfig
    figures: GroupFigures
    counts: LagBasis
    has_begun: bool
    forecast: Forecast
    growth: int
    view: LagView
    chart: LagChart | None  # None and no keeping where the engine has no history of lag
    keeping: LagHistoryRetention | None
    choices: Sequence[str]
    topics: Sequence[TopicProgress]
    cut: Cut[QueueLagRow]
    query: Query


async def show(request: PageRequest) -> Response:
    """GET /groups/{group}"""
    console = request.console
    config = await group_of(request)
    view = _view(request, config.name)
    lag = await console.administration.present_lag(config.name)
    choices = await topics_of_group(console, config, lag)
    is_kept = console.messaging.capabilities.lag_history
    chart = await _chart(request, view, lag, choices) if is_kept else None
    context = await _page(request, config, view, chart)
    return await respond(request, "group.html", context, is_live=True)


async def _chart(
    request: PageRequest, view: LagView, lag: GroupLag, choices: Sequence[str]
) -> LagChart:
    console = request.console
    history = await console.lags.read(view.whose, view.span)
    queues = await _queue_histories(console, view, lag) if view.is_split else {}
    canvas = Canvas(
        lag_chart.steps_of(history, console.now_ms()),
        request.zone.rules,
        charts.hidden_of(request.query_params),
        _leads(view.whose.group, [view.whose.topic] if view.whose.topic else choices),
    )
    return await console.render(lambda: lag_chart.chart(history, view.shape, canvas, queues))


async def _queue_histories(
    console: Console, view: LagView, lag: GroupLag
) -> Mapping[str, LagHistoryPage]:
    """The history of the queues with the most unread messages, by name."""
    whose = view.whose
    queues = [
        queue
        for queue in lag.queues
        if queue.topic == whose.topic or not (whose.topic or queue.topic.startswith(RETRY_PREFIX))
    ]
    fullest = heapq.nlargest(QUEUE_LINES_MAX, queues, key=lambda queue: (queue.count, -queue.queue))
    fullest.sort(key=lambda queue: (queue.topic, queue.queue))
    pages = await asyncio.gather(
        *(
            console.lags.read(LagOf(whose.group, queue.topic, queue.queue), view.span)
            for queue in fullest
        )
    )
    topics = len({queue.topic for queue in fullest})
    names = [
        _("queue %(queue)s", queue=queue.queue)
        if topics == 1
        else _("%(topic)s queue %(queue)s", topic=queue.topic, queue=queue.queue)
        for queue in fullest
    ]
    return dict(zip(names, pages, strict=True))


def _leads(group: str, topics: Sequence[str]) -> list[Lead]:
    """What a moment of the chart leads to: the messages of the first topics, and the members."""
    leads = [messages_lead(topic) for topic in topics[:TOPIC_LEADS_MAX]]
    return [*leads, Lead(_("Members then"), f"{path_of(group)}/history?{TIME}#members-then")]


async def _page(
    request: PageRequest, config: GroupConfig, view: LagView, chart: LagChart | None
) -> GroupOverview:
    console = request.console
    lag = await console.administration.present_lag(config.name)
    # The group's retry topic is listed once it has held a message.
    queues = [q for q in lag.queues if q.max_offset or q.topic != RETRY_PREFIX + config.name]
    query = tables.parse_query(request.query_params, ("lag", "topic", "oldest"), "-lag")
    snapshot = console.sampler.snapshot
    return GroupOverview(
        head=await head_of(console, config, "lag", lag),
        config=config,
        figures=await console.sampler.read(config.name, lag),
        counts=lag.counts,
        has_begun=bool(lag.queues or lag.unknown),
        forecast=Forecast(Outlook.UNKNOWN, reason=lag.unknown)
        if lag.unknown
        else snapshot.forecast(config.name).of_lag(lag.count if lag.queues else None),
        growth=0 if lag.unknown else snapshot.growth.get(config.name, 0),
        view=view,
        chart=chart,
        keeping=console.lags.keeping() if chart else None,
        choices=await topics_of_group(console, config, lag),
        topics=_topics(queues, config),
        cut=tables.cut(_queues(queues, query), query),
        query=query,
    )


def _view(request: PageRequest, group: str) -> LagView:
    """Parse the view in a query; invalid values give the default, since people edit links."""
    query = request.read_query(LagChartQuery)
    span = next((span for span in SPANS if span.name == query.range), SPANS[1])
    if query.from_ms and query.to_ms:
        to_ms = min(query.to_ms, request.console.now_ms())
        if query.from_ms < to_ms:
            span = own_span(query.from_ms, to_ms, _("custom range"))
    queue = query.queue if query.topic else None
    return LagView(
        LagOf(group, query.topic, queue),
        span,
        next((shape for shape in SHAPES if shape.name == query.show), SHAPES[0]),
        is_split=query.split == "queue" and queue is None,
    )


def _queues(queues: Sequence[QueueLag], query: Query) -> list[QueueLagRow]:
    rows = [convert(queue, QueueLagRow, done_share=_done_share(queue)) for queue in queues]
    keys: dict[str, Callable[[QueueLagRow], Any]] = {
        "lag": lambda row: row.count,
        "topic": lambda row: (row.topic, row.queue),
        "oldest": lambda row: row.oldest_ms,
    }
    tables.order(
        rows, keys[query.sort], lambda row: f"{row.topic}\0{row.queue:06}", down=query.is_downward
    )
    return rows


def _done_share(queue: QueueLag) -> float:
    messages = queue.max_offset - queue.min_offset
    return min(1.0, max(0.0, 1 - queue.count / messages)) if messages else 1.0


def _topics(everywhere: Sequence[QueueLag], config: GroupConfig) -> list[TopicProgress]:
    by_topic: dict[str, list[QueueLag]] = {}
    for queue in everywhere:
        by_topic.setdefault(queue.topic, []).append(queue)
    return [
        TopicProgress(
            topic=name,
            queues=len(queues),
            lag=sum(queue.count for queue in queues),
            inflight=total(queue.inflight for queue in queues),
            oldest_ms=min((q.oldest_ms for q in queues if q.oldest_ms is not None), default=None),
            is_paused=name in config.paused_topics,
        )
        for name, queues in sorted(by_topic.items())
    ]
