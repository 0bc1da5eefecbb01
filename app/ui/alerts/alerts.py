"""The alerts page: firing alerts, rules, receivers, silences and deliveries."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from starlette.responses import Response

from app.db.alert_rows import ReceiverRow, RuleRow, SilenceRow, StateRow, TransitionRow
from app.services.alerts.alerts import Alerts
from app.services.alerts.rules import ABOUT
from app.services.alerts.standing import RuleStatus
from app.ui.alerts.details import detail_of
from app.ui.alerts.notifications import (
    AlertDeliveryRow,
    ReceiverLine,
    delivery_row,
    receiver_line,
)
from app.ui.framework import formats, forms, pages
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.errors import NotFound
from kitemq.model.alerts import RuleKind, RuleState
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole

SUBJECTS_SHOWN_MAX = 50
DELIVERIES_SHOWN = 20
CHANGES_SHOWN = 20
SILENCE_CHOICES = (
    ("1", N_("for 1 hour")),
    ("8", N_("for 8 hours")),
    ("24", N_("for 1 day")),
    ("168", N_("for 1 week")),
)
HOUR_MS = 3_600_000
ID_DIGITS_MAX = 18


def parse_id(text: str) -> int:
    """Parse the id of a rule or a silence; raises NotFound if it is no id."""
    number = int(text) if is_whole(text, ID_DIGITS_MAX) else 0
    if not number:
        raise NotFound(
            _("no alert has the id %(text)s", text=f"{text[:40]!r}"),
            remedy=_("choose one from the list of alerts"),
        )
    return number


class AlertsQuery(Fields, frozen=True):
    """The delivery before which the page of deliveries begins."""

    before: int | None = None


class SubjectFields(Fields, frozen=True):
    """A rule, and what it fires for."""

    rule_id: Annotated[int, parse_id]
    subject: Verbatim


class SilenceFields(SubjectFields, frozen=True):
    """A silence of so many hours, with a note."""

    hours: Literal[1, 8, 24, 168]
    note: str


@dataclass(frozen=True, kw_only=True)
class Subject(StateRow):
    """A topic, group or other object for which a rule fires or is pending."""

    rule: str
    severity: str
    href: str
    is_silent: bool


@dataclass(frozen=True, kw_only=True)
class Rule(RuleRow):
    """A line of the table of rules; `evaluated_ms` is None before the first evaluation."""

    label: str
    condition: str
    scope: str
    state: str
    subjects: int
    checked: int
    left_out: int
    evaluated_ms: int | None
    notifies: str  # names of its receivers; "" for all


@dataclass(frozen=True)
class AlertsPage:
    """The context of `alerts.html`."""

    subjects: list[Subject]
    subjects_total: int
    firing: int
    rules: list[Rule]
    evaluated_ms: int | None
    silences: list[tuple[SilenceRow, str]]
    deliveries: list[AlertDeliveryRow]
    older: int | None
    changes: list[TransitionRow]
    receivers: list[ReceiverLine]
    is_notifying: bool  # whether a receiver is enabled
    failure: str
    silence_choices: tuple[tuple[str, str], ...] = SILENCE_CHOICES


async def show(request: PageRequest) -> Response:
    """GET /alerts"""
    alerts = request.services.alerts
    standings = await alerts.standings()
    receivers = alerts.receivers.all()
    names = {standing.rule.id: standing.rule.name for standing in standings}
    subjects = [subject for standing in standings for subject in _subjects(alerts, standing)]
    subjects.sort(key=_urgency)
    before = request.read_query(AlertsQuery).before
    deliveries = await alerts.deliveries(DELIVERIES_SHOWN, before or None)
    context = AlertsPage(
        subjects=subjects[:SUBJECTS_SHOWN_MAX],
        subjects_total=len(subjects),
        firing=sum(subject.state == RuleState.FIRING for subject in subjects),
        rules=[_rule(standing, receivers) for standing in standings],
        evaluated_ms=max((s.at_ms for s in standings), default=0) or None,
        silences=[(one, names.get(one.rule_id, _("all rules"))) for one in await alerts.silences()],
        deliveries=list(map(delivery_row, deliveries)),
        older=deliveries[-1].id if len(deliveries) == DELIVERIES_SHOWN else None,
        changes=[
            replace(change, detail=detail_of(change.detail))
            for change in await alerts.transitions(CHANGES_SHOWN)
        ],
        receivers=list(map(receiver_line, receivers)),
        is_notifying=any(each.is_enabled for each in receivers),
        failure=alerts.failure,
    )
    return await pages.respond(request, "alerts.html", context, title=_("Alerts"), is_live=True)


def _urgency(one: Subject) -> tuple[bool, bool, bool, int]:
    """The sort key of a subject: firing, unsilenced and unacknowledged ones come first."""
    return one.state != RuleState.FIRING, one.is_silent, bool(one.acked_by), -one.since_ms


def _subjects(alerts: Alerts, standing: RuleStatus) -> list[Subject]:
    rule = standing.rule
    return [
        convert(
            row,
            Subject,
            rule=rule.name,
            severity=rule.severity,
            href=place_of(RuleKind(rule.kind), row.subject),
            is_silent=alerts.is_silent(rule.id, row.subject),
            detail=detail_of(row.detail),
        )
        for row in standing.states
    ]


def place_of(kind: RuleKind, subject: str) -> str:
    """The page of what a rule is about; "" where there is none."""
    about = ABOUT[kind]
    if not subject or not (about.has_groups or about.has_topics):
        return ""
    folder = "groups" if about.has_groups else "topics"
    folder = "dlq" if kind is RuleKind.DEAD_LETTERS else folder
    return f"/{folder}/{segment(subject)}"


def _rule(standing: RuleStatus, receivers: list[ReceiverRow]) -> Rule:
    rule = standing.rule
    about = ABOUT[RuleKind(rule.kind)]
    parts = [_("any")]
    if about.has_threshold:
        amount = f"{rule.threshold:,} {translated(about.unit)}"
        if about.unit == "seconds":
            amount = formats.say_length(rule.threshold * 1000)
        parts = [_("more than %(amount)s", amount=amount)]
    if about.has_window:
        parts.append(_("within %(window_s)s", window_s=formats.duration(rule.window_s * 1000)))
    if rule.for_s:
        parts.append(_("for %(for_s)s", for_s=formats.duration(rule.for_s * 1000)))
    scopes = [rule.group_pattern] if about.has_groups else []
    if about.has_topics and (not about.has_groups or rule.topic_pattern != "*"):
        scopes.append(rule.topic_pattern)
    return convert(
        rule,
        Rule,
        label=translated(about.label),
        condition=" ".join(parts),
        scope=_(" on ").join(scopes) or _("this server"),
        state=standing.state,
        subjects=sum(row.state == standing.state for row in standing.states),
        checked=standing.checked,
        left_out=standing.left_out,
        evaluated_ms=standing.at_ms or None,
        notifies=", ".join(each.name for each in receivers if each.id in rule.receivers),
    )


async def acknowledge(request: PageRequest) -> Response:
    """POST /alerts/acknowledge: mark a firing alert as seen."""
    __, fields = await request.read_form(SubjectFields)
    await request.services.alerts.acknowledge(request.actor, fields.rule_id, fields.subject)
    return forms.go(request, "/alerts?done=acknowledged")


async def silence(request: PageRequest) -> Response:
    """POST /alerts/silences: silence a rule for a subject for some hours."""
    __, fields = await request.read_form(SilenceFields)
    until_ms = request.console.now_ms() + fields.hours * HOUR_MS
    await request.services.alerts.silence(
        request.actor, fields.rule_id, fields.subject, until_ms, fields.note
    )
    return forms.go(request, "/alerts?done=silenced")


async def end_silence(request: PageRequest) -> Response:
    """POST /alerts/silences/{id}/end"""
    silence_id = parse_id(request.path_params["id"])
    await request.services.alerts.end_silence(request.actor, silence_id)
    return forms.go(request, "/alerts?done=unsilenced")


async def test(request: PageRequest) -> Response:
    """POST /alerts/test: send a test event to every enabled receiver."""
    receivers = await request.services.alerts.loaded_receivers()
    await receivers.test(request.actor)
    return forms.go(request, "/alerts?done=tested#deliveries")
