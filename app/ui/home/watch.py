"""State for the overview's concerns that is read on demand, in small steps."""

from contextlib import suppress
from dataclasses import dataclass

from app.container import Services
from app.pause import Pause
from app.services.alerts.alerts import Alerts
from app.services.alerts.rules import ABOUT
from app.ui.framework.console import Console
from app.ui.groups.head import is_differing
from engine.errors import EngineError
from kitemq.model.alerts import RuleKind, RuleState


@dataclass(frozen=True)
class Firing:
    """An unsilenced alert that fires for one subject, which is of a `kind` of thing."""

    kind: str
    rule: str
    severity: str
    subject: str
    detail: str
    acked_by: str | None = None


@dataclass(frozen=True)
class Watch:
    """The state that was read; `conflicts` are groups whose consumers' subscriptions differ."""

    firing: list[Firing]
    alerts_failure: str
    left_out: int  # objects that no alert watches, for lack of memory
    conflicts: list[str]
    traces_dropped: int
    traces_refusal: str
    given_up: int


async def look(console: Console, services: Services) -> Watch:
    """Read the state once, with pauses between groups."""
    alerts = services.alerts
    conflicts: list[str] = []
    pause = Pause()
    for group in await console.administration.groups():
        if await is_differing(console, group.name):
            conflicts.append(group.name)
        await pause.when_due()
    has = console.messaging.capabilities
    traces = await services.journeys.status() if has.delivery_records else None
    transactions = console.messaging.transactions
    given_up = None
    with suppress(EngineError):  # the page of transactions says why
        if has.transaction_queries:
            given_up = await transactions.given_up(count_max=1)
    return Watch(
        firing=_firing(alerts),
        alerts_failure=alerts.failure,
        left_out=alerts.left_out,
        conflicts=conflicts,
        traces_dropped=traces.dropped if traces else 0,
        traces_refusal=traces.refusal if traces else "",
        given_up=given_up.count if given_up else 0,
    )


def _firing(alerts: Alerts) -> list[Firing]:
    return [
        Firing(
            # What has no name of its own is told of the alerts themselves.
            kind=_kind(RuleKind(standing.rule.kind)) if row.subject else "broker",
            rule=standing.rule.name,
            severity=standing.rule.severity,
            subject=row.subject or "alerts",
            detail=row.detail,
            acked_by=row.acked_by,
        )
        for standing in alerts.firing()
        for row in standing.states
        if row.state == RuleState.FIRING and not alerts.is_silent(standing.rule.id, row.subject)
    ]


def _kind(kind: RuleKind) -> str:
    if kind in (RuleKind.REPORT_FAILED, RuleKind.REPORT_AGE):
        return "report"
    about = ABOUT[kind]
    return "group" if about.has_groups else "topic" if about.has_topics else "broker"
