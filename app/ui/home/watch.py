"""State for the overview's concerns that is read on demand, in small steps."""

from dataclasses import dataclass

from app.pause import Pause
from app.services.alerts.alerts import Alerts
from app.ui.alerts.alerts import place_of
from app.ui.framework.console import Console
from app.ui.groups.head import is_differing
from kitemq.model.alerts import RuleKind, RuleState


@dataclass(frozen=True)
class Firing:
    """An unsilenced alert that fires for one subject."""

    rule: str
    severity: str
    subject: str
    detail: str
    href: str
    acked_by: str | None = None


@dataclass(frozen=True)
class Watch:
    """The state that was read; `paused` counts topics, 0 for a whole group."""

    firing: list[Firing]
    alerts_failure: str
    paused: list[tuple[str, int]]
    conflicts: list[str]
    traces_dropped: int
    traces_refusal: str
    given_up: int


async def look(console: Console, alerts: Alerts) -> Watch:
    """Read the state once, with pauses between groups."""
    broker = console.broker
    paused: list[tuple[str, int]] = []
    conflicts: list[str] = []
    pause = Pause()
    for group in broker.groups():
        if not group.consume_enabled or group.paused_topics:
            topics = len(group.paused_topics) if group.consume_enabled else 0
            paused.append((group.name, topics))
        if is_differing(console, group.name):
            conflicts.append(group.name)
        await pause.when_due()
    traces = broker.traces.status()
    given_up = await console.messaging.transactions.given_up(count_max=1)
    return Watch(
        firing=_firing(alerts),
        alerts_failure=alerts.failure,
        paused=paused,
        conflicts=conflicts,
        traces_dropped=traces.dropped,
        traces_refusal=traces.refusal,
        given_up=given_up.count,
    )


def _firing(alerts: Alerts) -> list[Firing]:
    return [
        Firing(
            rule=standing.rule.name,
            severity=standing.rule.severity,
            subject=row.subject,
            detail=row.detail,
            acked_by=row.acked_by,
            href=place_of(RuleKind(standing.rule.kind), row.subject),
        )
        for standing in alerts.firing()
        for row in standing.states
        if row.state == RuleState.FIRING and not alerts.is_silent(standing.rule.id, row.subject)
    ]
