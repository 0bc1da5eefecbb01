"""The engine: whether it is well, where disk and log stand, what holds old files, how it is set."""

from dataclasses import MISSING, Field, dataclass
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from app.heartbeat import Heartbeat
from app.services.alerts.webhook import host_of
from app.settings import Settings, settings_fields
from app.ui import pages
from app.ui.language import N_, _, translated
from engine.broker import (
    ROCKETMQ_LABELS,
    BrokerFigures,
    Health,
    LagKeeping,
    RetentionStatus,
    Spread,
    TraceStatus,
)

BARS_WIDTH = 650
BARS_HEIGHT = 110
HIDDEN = N_("hidden: it is a secret")
HIDDEN_PART = N_("hidden: it holds a password")


@dataclass(frozen=True)
class LatencyBar:
    """Sends whose storing took so long, in the last whole minute."""

    label: str
    count: int
    x: int
    y: float
    width: int
    height: float


@dataclass(frozen=True)
class SpreadRow:
    """How long sends took, in microseconds."""

    label: str
    spread: Spread


@dataclass(frozen=True)
class SettingRow:
    """A setting: its value now, its default, and what it is for."""

    name: str
    value: str
    default: str
    help: str
    is_set: bool


@dataclass(frozen=True)
class EnginePage:
    """The context of `engine.html`; `loop_delay_s` is the longest within the last minute."""

    health: Health
    database_failure: str
    retention: RetentionStatus
    held_bytes: int
    figures: BrokerFigures
    bars: list[LatencyBar]
    bars_total: int
    bars_width: int
    bars_height: int
    spreads: list[SpreadRow]
    loop_delay_ms: float
    loop_delay_ever_ms: float
    lag_keeping: LagKeeping
    traces: TraceStatus
    settings: list[SettingRow]
    settings_total: int
    settings_set: int
    is_every_setting: bool
    started_ms: int
    log_end: int


async def show(request: Request) -> Response:
    """GET /engine"""
    console, state = pages.console_of(request), request.app.state
    broker, heartbeat = console.broker, state.heartbeat
    assert isinstance(heartbeat, Heartbeat)
    retention, figures = broker.retention.status(), broker.statistics.broker()
    latency = figures.put_latency
    is_every = request.query_params.get("settings") == "all"
    rows = _settings(state.settings)
    shown = rows if is_every else [row for row in rows if row.is_set or row.name in KEY]
    held = min((holder.position for holder in retention.held_by), default=None)
    log_end = retention.oldest_position + retention.log_bytes
    context = EnginePage(
        health=broker.health(),
        database_failure=state.database.failure,
        retention=retention,
        held_bytes=0 if held is None else log_end - held,
        figures=figures,
        bars=_bars(latency.stored.distribution),
        bars_total=sum(latency.stored.distribution),
        bars_width=BARS_WIDTH,
        bars_height=BARS_HEIGHT,
        spreads=[
            SpreadRow(_("stored, last minutes"), latency.stored.recent),
            SpreadRow(_("stored, since the start"), latency.stored.ever),
            SpreadRow(_("on the disk, last minutes"), latency.flushed.recent),
            SpreadRow(_("on the disk, since the start"), latency.flushed.ever),
        ],
        # In steps of a tenth of a millisecond, so that an idle page stays the same.
        loop_delay_ms=round(heartbeat.worst_s * 1000, 1),
        loop_delay_ever_ms=round(heartbeat.worst_ever_s * 1000, 1),
        lag_keeping=broker.statistics.lag_keeping(),
        traces=broker.traces.status(),
        settings=shown,
        settings_total=len(rows),
        settings_set=sum(row.is_set for row in rows),
        is_every_setting=is_every,
        started_ms=console.started_ms,
        log_end=log_end,
    )
    return await pages.respond(
        request, "engine.html", context, title=_("Engine"), section="engine", is_live=True
    )


# What an operator looks for first; the others are shown when they are set, or on demand.
KEY = frozenset(
    """data host port promise flush_interval_s segment_bytes retention_h retention_bytes
    disk_expire_percent disk_force_percent disk_refuse_percent disk_enough_bytes
    disk_free_min_bytes retry_max inflight_max auto_create_topics auto_create_groups
    trace_sample lag_sample_s database_url""".split()
)


def _settings(settings: Settings) -> list[SettingRow]:
    rows = []
    for item in settings_fields():
        value, default = getattr(settings, item.name), _default(item)
        rows.append(
            SettingRow(
                name=item.name,
                value=_shown(item, value),
                default=_text(default),
                help=item.metadata["help"].replace("`", ""),
                is_set=value != default,
            )
        )
    return rows


def _default(item: Field[Any]) -> Any:
    return "" if item.default is MISSING else item.default


def _shown(item: Field[Any], value: Any) -> str:
    """A setting as anybody who may read may see it."""
    if item.metadata.get("is_secret") and value:
        return translated(HIDDEN)
    if item.name == "alert_webhooks":
        return _text(tuple(f"{host_of(url)}/…" for url in value))
    return translated(HIDDEN_PART) if _holds_password(value) else _text(value)


def _holds_password(value: Any) -> bool:
    if not isinstance(value, str) or "://" not in value:
        return False
    try:
        return urlsplit(value).password is not None or "password" in value.lower()
    except ValueError:
        return True


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Path):
        return str(value)
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def _bars(counts: tuple[int, ...]) -> list[LatencyBar]:
    top, width = max(counts) or 1, BARS_WIDTH // len(ROCKETMQ_LABELS)
    bars = []
    for number, (label, count) in enumerate(zip(ROCKETMQ_LABELS, counts, strict=True)):
        height = max(2.0, (BARS_HEIGHT - 4) * count / top) if count else 0.0
        left, above = number * width + 2, round(BARS_HEIGHT - height, 1)
        bars.append(LatencyBar(label, count, left, above, width - 4, round(height, 1)))
    return bars
