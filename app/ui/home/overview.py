"""The first page: concerns, traffic, and the busiest topics and groups."""

import heapq
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.monitoring.meter import Traffic
from app.monitoring.sampler import GroupFigures, Snapshot, TopicFigures
from app.monitoring.sparkline import Sparkline, line
from app.services.topic_kinds import USER_KINDS
from app.ui.framework import pages
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.home import attention
from app.ui.home.attention import Concern
from app.ui.home.watch import Watch, look
from engine.broker import Health

AGE_MAX_MS = 2_000
TOP = 10

Figures = TypeVar("Figures")


@dataclass(frozen=True)
class Top(Generic[Figures]):
    """A topic or a group of a top list."""

    name: str
    figures: Figures
    history: Sparkline


@dataclass(frozen=True)
class SnapshotTotals:
    """Sums over the snapshot."""

    topics: int
    groups: int
    messages: int
    lag: int
    lag_unknown: int  # groups that have no offset in any queue yet
    inflight: int
    retry_waiting: int
    dead: int


@dataclass(frozen=True)
class Overview:
    """The context of `overview.html`; `as_of_ms` is 0 until the first figures were read.

    `p99_ms` is the time from a message's birth to its acknowledgement; None if unknown.
    """

    as_of_ms: int
    concerns: list[Concern]
    accepted_rate: float
    delivered_rate: float
    traffic: Traffic
    totals: SnapshotTotals
    p99_ms: int | None
    topics: list[Top[TopicFigures]]
    groups: list[Top[GroupFigures]]
    health: Health
    started_ms: int
    accepted_line: Sparkline
    delivered_line: Sparkline


@dataclass(frozen=True)
class Digest:
    """The figures and concerns of a snapshot."""

    totals: SnapshotTotals
    concerns: list[Concern]
    topics: list[str]
    groups: list[str]


async def show(request: Request) -> Response:
    """GET /"""
    console = pages.console_of(request)
    snapshot = await console.sampler.fresh(AGE_MAX_MS)
    health = console.broker.health()
    now_ms = console.now_ms()
    watch = await look(console, services_of(request.scope).alerts)
    digest = await console.render(lambda: _digest(snapshot, health, watch, now_ms))
    traffic, meter = console.meter.traffic(), console.meter
    topics = [
        Top(name, snapshot.topics[name], line(meter.topic_history(name))) for name in digest.topics
    ]
    groups = [
        Top(name, snapshot.groups[name], line(console.sampler.lag_history(name)))
        for name in digest.groups
    ]
    context = Overview(
        as_of_ms=snapshot.taken_ms,
        concerns=digest.concerns,
        accepted_rate=console.meter.accepted_rate(),
        delivered_rate=console.meter.delivered_rate(),
        traffic=traffic,
        totals=digest.totals,
        p99_ms=_p99_ms(console),
        topics=topics,
        groups=groups,
        health=health,
        started_ms=console.started_ms,
        accepted_line=line(traffic.accepted, 720, 160),
        delivered_line=line(traffic.delivered, 720, 160),
    )
    return await pages.respond(request, "overview.html", context, title=_("Overview"), is_live=True)


def _p99_ms(console: Console) -> int | None:
    spread = console.broker.statistics.end_to_end()
    return round(spread.p99 / 1000) if spread.count else None


def _digest(snapshot: Snapshot, health: Health, watch: Watch, now_ms: int) -> Digest:
    """Sums, concerns and the tops of both lists; pure, because it runs on another thread."""
    topics, groups = snapshot.topics, snapshot.groups
    own = [name for name in topics if topics[name].kind in USER_KINDS]
    return Digest(
        totals=_totals(snapshot, len(own)),
        concerns=_concerns(snapshot, health, watch, now_ms),
        # By the rate of the last minute, then by size.
        topics=heapq.nlargest(
            TOP, own, key=lambda name: (topics[name].rate, topics[name].messages)
        ),
        # By lag, then by dead letters.
        groups=heapq.nlargest(
            TOP, groups, key=lambda name: (groups[name].lag, groups[name].dead, name)
        ),
    )


def _concerns(snapshot: Snapshot, health: Health, watch: Watch, now_ms: int) -> list[Concern]:
    return [
        *attention.alerts(watch),
        *attention.services(health.failures),
        *attention.disk(health.disk_free_bytes, health.disk_free_min_bytes),
        *attention.damage(len(health.damages)),
        *attention.warnings(
            {name: text for name, text in health.warnings.items() if name != "damage"}
        ),
        *attention.given_up(watch),
        *attention.conflicts(watch),
        *attention.dead_letters(snapshot.groups),
        *attention.growing(snapshot.groups, snapshot.growth),
        *attention.old_unread(snapshot.groups, snapshot.growth, now_ms),
        *attention.paused(watch),
        *attention.unknown(snapshot.groups),
        *attention.traces(watch),
    ]


def _totals(snapshot: Snapshot, own_topics: int) -> SnapshotTotals:
    groups = snapshot.groups.values()
    return SnapshotTotals(
        topics=own_topics,
        groups=len(groups),
        messages=sum(figures.messages for figures in snapshot.topics.values()),
        lag=sum(figures.lag for figures in groups),
        lag_unknown=sum(not figures.lag_by_topic for figures in groups),
        inflight=sum(figures.inflight for figures in groups),
        retry_waiting=sum(figures.retry_waiting for figures in groups),
        dead=sum(figures.dead for figures in groups),
    )
