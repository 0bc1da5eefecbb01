"""The form of an alert rule: create, try, change and delete it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.alert_rows import RuleRow
from app.db.rows import actor_at
from app.services.alerts.machine import Reading
from app.services.alerts.rules import (
    ABOUT,
    FOR_MAX_S,
    NUMBER_MAX,
    WINDOW_MAX_S,
    WINDOW_MIN_S,
    About,
)
from app.services.alerts.standing import RuleStatus
from app.ui.alerts.alerts import parse_id
from app.ui.framework import forms, pages
from app.ui.framework.console import client_of
from app.ui.framework.forms import Form, Posted
from app.ui.framework.language import _, translated
from engine.errors import Conflict, Invalid, Refused
from kitemq.model.alerts import RuleKind, Severity

FIELDS = (
    "name",
    "kind",
    "group_pattern",
    "topic_pattern",
    "threshold",
    "window_s",
    "for_s",
    "severity",
    "is_enabled",
)
TRIED_SHOWN_MAX = 10
ON = "on"
KINDS = tuple((kind.value, about.label) for kind, about in ABOUT.items())


@dataclass(frozen=True)
class Trial:
    """The readings of a rule if it were evaluated now."""

    checked: int
    over: int
    unknown: int
    shown: list[Reading]


@dataclass(frozen=True)
class RuleForm:
    """The context of `alert_form.html`; `rule_id` is 0 for a new rule."""

    rule_id: int
    form: Form
    about: list[tuple[str, About]]
    trial: Trial | None
    kinds: tuple[tuple[str, str], ...] = KINDS
    severities: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class RuleDeletion:
    """The context of `alert_delete.html`: the alerts that end with the rule."""

    rule_id: int
    name: str
    firing: list[str]
    firing_total: int
    silences: int
    form: Form


async def new(request: Request) -> Response:
    """GET /alerts/new: the form, filled in from the query."""
    return await _page(request, 0, _prefilled(request.query_params))


async def create(request: Request) -> Response:
    """POST /alerts/new: create a rule, or with `try` evaluate it once."""
    return await _take(request, 0)


async def edit(request: Request) -> Response:
    """GET /alerts/rules/{id}"""
    standing = await _standing(request)
    return await _page(request, standing.rule.id, _form_of(standing.rule))


async def change(request: Request) -> Response:
    """POST /alerts/rules/{id}"""
    standing = await _standing(request)
    return await _take(request, standing.rule.id)


async def delete_page(request: Request) -> Response:
    """GET /alerts/rules/{id}/delete"""
    return await _deletion(request, Form({"confirm": ""}), 200)


async def delete(request: Request) -> Response:
    """POST /alerts/rules/{id}/delete: delete the rule if the form repeats its name."""
    standing = await _standing(request)
    form = forms.fill(await forms.read(request), ("confirm",))
    if form.values["confirm"].strip() != standing.rule.name:
        form.refuse("confirm", _("That is not the rule's name."))
        return await _deletion(request, form, 422)
    await services_of(request.scope).alerts.delete(actor_at(client_of(request)), standing.rule.id)
    return forms.go(request, "/alerts?done=deleted")


async def _take(request: Request, rule_id: int) -> Response:
    posted = await forms.read(request)
    form = forms.fill(posted, FIELDS)
    rule = _read(form, rule_id)
    if form.is_wrong:
        return await _page(request, rule_id, form, status=422)
    alerts, actor = services_of(request.scope).alerts, actor_at(client_of(request))
    try:
        if _is_trial(posted):
            return await _page(request, rule_id, form, trial=_trial(await alerts.preview(rule)))
        await (alerts.change(actor, rule) if rule_id else alerts.create(actor, rule))
    except (Invalid, Conflict, Refused) as error:
        form.blame(error)
        status = 422 if isinstance(error, Invalid) else 409
        return await _page(request, rule_id, form, status=status)
    return forms.go(request, f"/alerts?done={'changed' if rule_id else 'created'}")


def _is_trial(posted: Posted) -> bool:
    return posted.one("do") == "try"


def _trial(readings: list[Reading]) -> Trial:
    over = [reading for reading in readings if reading.is_over]
    unknown = [reading for reading in readings if reading.is_over is None]
    rest = [reading for reading in readings if reading.is_over is False]
    rest.sort(key=lambda reading: -(reading.value or 0))
    return Trial(len(readings), len(over), len(unknown), [*over, *unknown, *rest][:TRIED_SHOWN_MAX])


def _prefilled(query: Mapping[str, str]) -> Form:
    """The form of a new rule; other pages link to it with `?kind=lag&group=billing`."""
    kind = query.get("kind", "")
    kind = kind if kind in set(RuleKind) else RuleKind.LAG.value
    about = ABOUT[RuleKind(kind)]
    group, topic = query.get("group", "") or "*", query.get("topic", "") or "*"
    subject = next((name for name in (group, topic) if name != "*"), "")
    return Form(
        {
            "name": _("%(label)s of %(subject)s", label=about.label, subject=subject)
            if subject
            else "",
            "kind": kind,
            "group_pattern": group,
            "topic_pattern": topic,
            "threshold": query.get("threshold", "") or str(about.default),
            "window_s": "300",
            "for_s": "60",
            "severity": Severity.WARNING.value,
            "is_enabled": ON,
        }
    )


def _form_of(rule: RuleRow) -> Form:
    return Form(
        {
            "name": rule.name,
            "kind": rule.kind,
            "group_pattern": rule.group_pattern,
            "topic_pattern": rule.topic_pattern,
            "threshold": str(rule.threshold),
            "window_s": str(rule.window_s or 300),
            "for_s": str(rule.for_s),
            "severity": rule.severity,
            "is_enabled": ON if rule.is_enabled else "",
        }
    )


def _read(form: Form, rule_id: int) -> RuleRow:
    """The rule in a form; errors are reported at their fields."""
    kind = form.choice("kind", _("What"), tuple(kind.value for kind in RuleKind))
    about = ABOUT[RuleKind(kind)]
    if not form.values["name"].strip():
        form.refuse("name", _("A rule needs a name."))
    return RuleRow(
        id=rule_id,
        name=form.values["name"].strip(),
        kind=kind,
        group_pattern=form.values["group_pattern"].strip() or "*",
        topic_pattern=form.values["topic_pattern"].strip() or "*",
        threshold=form.number("threshold", _("Threshold"), 0, min(about.threshold_max, NUMBER_MAX)),
        window_s=(
            form.number("window_s", _("Window"), WINDOW_MIN_S, WINDOW_MAX_S)
            if about.has_window
            else 0
        ),
        for_s=form.number("for_s", _("For"), 0, FOR_MAX_S),
        severity=form.choice("severity", _("Severity"), tuple(s.value for s in Severity)),
        is_enabled=form.values["is_enabled"] == ON,
    )


async def _standing(request: Request) -> RuleStatus:
    return await services_of(request.scope).alerts.standing(parse_id(request.path_params["id"]))


async def _page(
    request: Request, rule_id: int, form: Form, *, trial: Trial | None = None, status: int = 200
) -> Response:
    about = [(kind.value, about) for kind, about in ABOUT.items()]
    severities = [(severity.value, translated(severity.value)) for severity in Severity]
    context = RuleForm(rule_id, form, about, trial, severities=severities)
    title = _("Change a rule") if rule_id else _("New alert rule")
    return await pages.respond(
        request, "alert_form.html", context, title=title, section="alerts", status=status
    )


async def _deletion(request: Request, form: Form, status: int) -> Response:
    standing = await _standing(request)
    firing = [row.subject for row in standing.states if row.state == "firing"]
    silences = await services_of(request.scope).alerts.silences()
    context = RuleDeletion(
        rule_id=standing.rule.id,
        name=standing.rule.name,
        firing=firing[:TRIED_SHOWN_MAX],
        firing_total=len(firing),
        silences=sum(silence.rule_id == standing.rule.id for silence in silences),
        form=form,
    )
    return await pages.respond(
        request,
        "alert_delete.html",
        context,
        title=_("Delete a rule"),
        section="alerts",
        status=status,
    )
