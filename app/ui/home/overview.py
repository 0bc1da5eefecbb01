"""The first page: what needs attention, totals, traffic, and the busiest topics and groups."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.responses import Response

from app.administration import FIGURES_UNKNOWN
from app.monitoring.meter import STEPS, Traffic
from app.monitoring.sampler import GroupFigures, Snapshot, TopicFigures, Totals
from app.monitoring.sparkline import Sparkline, line
from app.services.topic_kinds import USER_KINDS
from app.ui.framework import charts, formats, pages, preferences
from app.ui.framework.chart_axes import EvenSteps
from app.ui.framework.charts import TIME, Canvas, Chart, Lead, Series, Words, messages_lead
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.preferences import Guide
from app.ui.framework.typed_forms import Fields, Moment
from app.ui.groups.status import StatusView, view_of
from app.ui.home import start
from app.ui.home.attention import Attention, attention
from app.ui.home.start import StartGuide
from app.ui.home.watch import look
from engine.broker import Health
from engine.errors import NotFound

AGE_MAX_MS = 2_000
TOP = 10
TOPIC_LEADS_MAX = 3
TILES = ("lag", "inflight", "dead", "p99_ms", "log_bytes", "disk_free_bytes")

Figures = TypeVar("Figures")


class TrafficQuery(Fields, frozen=True, rename={"from_ms": "from", "to_ms": "to"}):
    """The part of the last quarter of an hour to show."""

    from_ms: Moment | None = None
    to_ms: Moment | None = None
    zone: str = ""


@dataclass(frozen=True)
class Top(Generic[Figures]):
    """A topic or a group of a top list; `status` is a group's."""

    name: str
    figures: Figures
    history: Sparkline
    status: StatusView | None = None


@dataclass(frozen=True)
class Overview:
    """The context of `overview.html`; `as_of_ms` is 0 until the first figures were read.

    `lines` are the sparklines of the tiles by name.
    """

    as_of_ms: int
    attention: Attention
    accepted_rate: float | None
    delivered_rate: float | None
    traffic: Traffic | None
    totals: Totals
    lines: dict[str, Sparkline]
    topics: list[Top[TopicFigures]]
    groups: list[Top[GroupFigures]]
    health: Health
    started_ms: int
    chart: Chart | None
    guide: StartGuide | None  # of a server without topics, unless it was closed


@dataclass(frozen=True)
class Digest:
    """What a snapshot amounts to: attention and the tops of both lists."""

    attention: Attention
    topics: list[str]
    groups: list[str]


async def show(request: PageRequest) -> Response:
    """GET /"""
    console = request.console
    snapshot = await console.sampler.fresh(AGE_MAX_MS)
    configs = list(await console.administration.groups())
    health = await console.administration.health()
    watch = await look(console, request.services)

    def digest() -> Digest:
        return Digest(
            attention(snapshot, configs, health, watch), _busiest(snapshot), _furthest(snapshot)
        )

    tops = await console.render(digest)
    traffic, meter = console.meter.traffic(), console.meter
    topics = [
        Top(name, snapshot.topics[name], line(meter.topic_history(name))) for name in tops.topics
    ]
    context = Overview(
        as_of_ms=snapshot.taken_ms,
        attention=tops.attention,
        accepted_rate=meter.accepted_rate(),
        delivered_rate=meter.delivered_rate(),
        traffic=traffic,
        totals=snapshot.totals,
        lines=_lines(console.sampler.totals_history(), traffic),
        topics=topics,
        groups=[await _top_group(console, snapshot, name) for name in tops.groups],
        health=health,
        started_ms=console.started_ms,
        chart=_traffic_chart(request, traffic, tops.topics) if traffic else None,
        guide=await _guide(request),
    )
    return await pages.respond(request, "overview.html", context, title=_("Overview"), is_live=True)


async def _guide(request: PageRequest) -> StartGuide | None:
    is_open = preferences.read(request).guide is Guide.OPEN
    return await start.guide(request) if is_open and await start.is_new(request) else None


def _traffic_chart(request: PageRequest, traffic: Traffic, topics: Sequence[str]) -> Chart:
    """Traffic over the last quarter of an hour, or the part of it that the query names.

    Nothing is known of the time before the server started.
    """
    step_ms, query = traffic.step_ms, request.read_query(TrafficQuery)
    end_ms = traffic.start_ms + len(traffic.accepted) * step_ms
    span = EvenSteps(end_ms - STEPS * step_ms, end_ms, step_ms)
    begin_ms = max(query.from_ms or 0, span.from_ms) // step_ms * step_ms
    until_ms = min(-(-(query.to_ms or end_ms) // step_ms) * step_ms, end_ms)
    if begin_ms < until_ms:
        span = EvenSteps(begin_ms, until_ms, step_ms)
    first = (span.from_ms - traffic.start_ms) // step_ms

    def values(rates: Sequence[float]) -> list[float | None]:
        steps = range(first, first + span.steps)
        return [rates[n] if 0 <= n < len(rates) else None for n in steps]

    series = [
        Series("in", _("in"), values(traffic.accepted)),
        Series("out", _("out"), values(traffic.delivered)),
    ]
    leads = [messages_lead(name) for name in topics[:TOPIC_LEADS_MAX]]
    leads.append(Lead(_("Throughput of that hour"), f"/reports/throughput?range=own&{TIME}"))
    says = _("Messages per second in and out.")
    words = Words("traffic", _("Traffic"), says, exactly=formats.rate)
    canvas = Canvas(span, request.zone.rules, charts.hidden_of(request.query_params), leads)
    return charts.lines(canvas, series, words, charts.RATES)


def _lines(history: Sequence[Totals], traffic: Traffic | None) -> dict[str, Sparkline]:
    """The sparklines of the tiles; times of an unknown figure are gaps."""
    series = {name: [getattr(each, name) for each in history] for name in TILES}
    lines = {name: line(values) for name, values in series.items()}
    if traffic is None:
        return lines
    return lines | {"in": line(traffic.accepted), "out": line(traffic.delivered)}


def _busiest(snapshot: Snapshot) -> list[str]:
    """Topics by the rate of the last minute, then by size."""
    topics = snapshot.topics
    own = [name for name in topics if topics[name].kind in USER_KINDS]
    return heapq.nlargest(
        TOP, own, key=lambda name: (topics[name].rate or 0, topics[name].messages)
    )


def _furthest(snapshot: Snapshot) -> list[str]:
    """Groups by lag, then by dead letters; idle ones are left out."""
    groups = snapshot.groups
    behind = [name for name in groups if groups[name].lag or groups[name].dead]
    return heapq.nlargest(TOP, behind, key=lambda name: (groups[name].lag, groups[name].dead, name))


async def _top_group(console: Console, snapshot: Snapshot, name: str) -> Top[GroupFigures]:
    try:
        status = view_of(name, snapshot.standing(await console.administration.group(name)))
    except (NotFound, *FIGURES_UNKNOWN):  # deleted since the snapshot, or unknown just now
        status = None
    return Top(name, snapshot.groups[name], line(console.sampler.lag_history(name)), status)
