"""The engine's page: health, disk and log, retention, latency of sends, and settings."""

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response

from app import replication_settings
from app.monitoring import sparkline
from app.monitoring.sparkline import Bar
from app.services import settings_view
from app.services.settings_view import Hidden
from app.services.standbys import Standbys
from app.settings import Settings
from app.ui.framework import pages
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from engine.broker import (
    BrokerMetrics,
    Health,
    LagHistoryRetention,
    RetentionStatus,
    Spread,
    TraceStatus,
)
from engine.replication.tail import TailFile
from kitemq.model.conversion import convert
from kitemq.model.server import SelfCheck

BARS_WIDTH = 650
BARS_HEIGHT = 110
BARS_GAP = 4
HIDDEN = {
    Hidden.SECRET: N_("hidden: secret"),
    Hidden.PASSWORD: N_("hidden: contains a password"),
}
CHECKS = {
    "engine": N_("The engine's services"),
    "recovery": N_("Recovery at startup"),
    "disk": N_("Disk space"),
    "data_directory": N_("Data directory writes"),
    "database": N_("Database and schema"),
    "event_loop": N_("Event loop"),
    "clock": N_("Clock"),
    "traces": N_("Trace recording"),
    "lag_history": N_("Lag history"),
    "connections": N_("Connections"),
    "exposure": N_("Authentication"),
}
SOURCES = {
    settings_view.DEFAULT: "",
    settings_view.PROGRAM: N_("embedding program"),
    "environment": N_("environment"),
    "command line": N_("command line"),
}
TONES = {"ok": "ok", "warning": "warn", "failed": "bad", "unknown": ""}
OUTCOMES = {
    "ok": N_("ok"),
    "warning": N_("warning"),
    "failed": N_("failed"),
    "unknown": N_("unknown"),
}


@dataclass(frozen=True)
class SpreadRow:
    """A latency distribution of sends, in microseconds."""

    label: str
    spread: Spread


@dataclass(frozen=True)
class SettingRow:
    """A setting: its value, its default, its origin (`set_by` in words), and its help text."""

    name: str
    value: str
    default: str
    source: str
    set_by: str
    help: str
    is_set: bool


class CheckRow(SelfCheck, frozen=True):
    """A self-check as a row of the table."""

    name: str
    outcome_text: str
    tone: str


@dataclass(frozen=True)
class EnginePage:
    """The context of `engine.html`; `loop_delay_s` is the longest within the last minute."""

    health: Health
    database_failure: str
    retention: RetentionStatus
    held_bytes: int
    figures: BrokerMetrics
    bars: list[tuple[str, Bar]]  # the number of sends by latency, in the last whole minute
    bars_total: int
    spreads: list[SpreadRow]
    loop_delay_ms: float
    loop_delay_ever_ms: float
    lag_keeping: LagHistoryRetention
    traces: TraceStatus
    settings: list[SettingRow]
    settings_total: int
    settings_set: int
    is_every_setting: bool
    only_different: bool
    checks: list[CheckRow]
    started_ms: int
    log_end: int
    standbys: Standbys
    has_standby_port: bool
    epoch: int
    heir: str  # the standby that was told to take over, until that is known
    tails: list[TailFile]
    bars_width: int = BARS_WIDTH
    bars_height: int = BARS_HEIGHT


async def show(request: PageRequest) -> Response:
    """GET /engine"""
    console, services = request.console, request.services
    statistics, heartbeat = console.host.broker.statistics, services.heartbeat

    retention, figures = await services.purges.status(), statistics.broker()
    latency = statistics.put_latency()
    distribution = latency.stored.distribution
    room = BARS_WIDTH // len(distribution)
    bars = sparkline.bars(list(distribution.values()), room, BARS_HEIGHT, BARS_GAP)
    checks = services.self_checks
    choice = request.query_params.get("settings", "")
    is_every, only_different = choice == "all", choice == "different"
    rows = _settings(services.settings, services.origins)
    visible_rows = [
        row for row in rows if is_every or row.is_set or (row.name in KEY and not only_different)
    ]
    held = min((holder.position for holder in retention.held_by), default=None)
    log_end = retention.oldest_position + retention.log_bytes
    context = EnginePage(
        health=await request.administration.health(),
        database_failure=services.database.failure,
        retention=retention,
        held_bytes=0 if held is None else log_end - held,
        figures=figures,
        bars=list(zip(distribution, bars, strict=True)),
        bars_total=sum(distribution.values()),
        spreads=[
            SpreadRow(_("stored, last minutes"), latency.stored.recent),
            SpreadRow(_("stored, since startup"), latency.stored.ever),
            SpreadRow(_("flushed, last minutes"), latency.flushed.recent),
            SpreadRow(_("flushed, since startup"), latency.flushed.ever),
        ],
        # Rounded to a tenth of a millisecond, so that an idle page does not change.
        loop_delay_ms=round(heartbeat.worst_s * 1000, 1),
        loop_delay_ever_ms=round(heartbeat.worst_ever_s * 1000, 1),
        lag_keeping=statistics.lag_keeping(),
        traces=await services.journeys.status(),
        settings=visible_rows,
        settings_total=len(rows),
        settings_set=sum(row.is_set for row in rows),
        is_every_setting=is_every,
        only_different=only_different,
        checks=[_check_row(each) for each in await checks.glance()],
        started_ms=console.started_ms,
        log_end=log_end,
        standbys=services.standbys,
        has_standby_port=bool(replication_settings.listen_at(services.settings, "")),
        epoch=services.leadership.state.epoch,
        heir=services.leadership.state.heir,
        tails=await services.leadership.tails(),
    )
    return await pages.respond(request, "engine.html", context, title=_("Engine"), is_live=True)


# The settings that are always shown; the others appear if they are set, or on demand.
KEY = frozenset(
    """data host port durability flush_interval_s segment_bytes retention_h retention_bytes
    disk_expire_percent disk_force_percent disk_refuse_percent disk_enough_bytes
    disk_free_min_bytes retry_max inflight_max auto_create_topics auto_create_groups
    trace_sample lag_sample_s database_url""".split()
)


def _settings(settings: Settings, origins: Mapping[str, str]) -> list[SettingRow]:
    return [
        convert(
            each,
            SettingRow,
            value=translated(HIDDEN[each.hidden]) if each.hidden else each.value,
            set_by=translated(SOURCES.get(each.source, each.source)),
        )
        for each in settings_view.describe_settings(settings, origins)
    ]


def _check_row(check: SelfCheck) -> CheckRow:
    return convert(
        check,
        CheckRow,
        name=translated(CHECKS[check.code]),
        outcome_text=translated(OUTCOMES[check.outcome]),
        tone=TONES[check.outcome],
    )
