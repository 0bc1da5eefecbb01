"""The page of one group's lag: now, over time, and by queue."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from app.monitoring.forecast import Forecast
from app.monitoring.lag_reader import SPANS, LagOf, LagSpan
from app.monitoring.sampler import GroupFigures
from app.ui.framework import tables
from app.ui.framework.console import Console
from app.ui.framework.page_request import PageRequest
from app.ui.framework.tables import Cut, Query
from app.ui.framework.typed_forms import Fields
from app.ui.groups import lag_chart
from app.ui.groups.head import GroupTab, group_of, head_of, respond, topics_of_group
from app.ui.groups.lag_chart import SHAPES, LagChart, Shape
from engine.broker import RETRY_PREFIX, GroupConfig, LagBasis, LagHistoryRetention, QueueLag
from kitemq.model.conversion import convert


class LagChartQuery(Fields, frozen=True):
    """The history that a query asks for."""

    topic: str = ""
    queue: Annotated[int | None, Meta(ge=0, le=99_999)] = None
    range: str = ""
    show: str = ""


class QueueLagRow(QueueLag, frozen=True):
    """A group's progress in one queue."""

    done_share: float = 1.0


@dataclass(frozen=True)
class TopicProgress:
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
    chart: LagChart
    keeping: LagHistoryRetention
    choices: Sequence[str]
    topics: Sequence[TopicProgress]
    cut: Cut[QueueLagRow]
    query: Query


async def show(request: PageRequest) -> Response:
    """GET /groups/{group}"""
    console = request.console
    config = group_of(request)
    view = _view(request, config.name)
    history = await console.lags.read(view.whose, view.span)
    chart = await console.render(lambda: lag_chart.chart(history, view.shape))
    context = _page(console, config, view, chart, request)
    return await respond(request, "group.html", context, is_live=True)


def _page(
    console: Console, config: GroupConfig, view: LagView, chart: LagChart, request: PageRequest
) -> GroupOverview:
    lag = console.broker.lag(config.name)
    # The group's retry topic is listed once it has held a message.
    queues = [q for q in lag.queues if q.max_offset or q.topic != RETRY_PREFIX + config.name]
    query = tables.parse_query(request.query_params, ("lag", "topic", "oldest"), "-lag")
    snapshot = console.sampler.snapshot
    return GroupOverview(
        head=head_of(console, config, "lag", lag),
        config=config,
        figures=console.sampler.read(config.name, lag),
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


def _view(request: PageRequest, group: str) -> LagView:
    """Parse the view in a query; invalid values give the default, since people edit links."""
    query = request.read_query(LagChartQuery)
    return LagView(
        LagOf(group, query.topic, query.queue if query.topic else None),
        next((span for span in SPANS if span.name == query.range), SPANS[1]),
        next((shape for shape in SHAPES if shape.name == query.show), SHAPES[0]),
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
            inflight=sum(queue.inflight for queue in queues),
            oldest_ms=min((q.oldest_ms for q in queues if q.oldest_ms is not None), default=None),
            is_paused=name in config.paused_topics,
        )
        for name, queues in sorted(by_topic.items())
    ]
