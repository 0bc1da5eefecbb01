"""The form of an alert rule: create, try, change and delete it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from app.db.alert_rows import ReceiverRow, RuleRow, TransitionRow
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
from app.ui.alerts.alerts import AlertsQuery, parse_id
from app.ui.alerts.details import detail_of
from app.ui.alerts.notifications import AlertDeliveryRow, delivery_row
from app.ui.framework import forms, pages, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, InvalidField, Verbatim
from engine.errors import Conflict, Invalid, NotFound, Refused
from kitemq.model.alerts import RuleKind, Severity
from kitemq.model.conversion import convert

READINGS_SHOWN_MAX = 10
CHANGES_SHOWN = 20
ON = "on"
KINDS = tuple((kind.value, about.label) for kind, about in ABOUT.items())


def parse_rule_name(text: str) -> str:
    if not text.strip():
        raise InvalidField(_("Enter a name for the rule."))
    return text.strip()


def parse_pattern(text: str) -> str:
    return text.strip() or "*"


class RuleFields(Fields, frozen=True, kw_only=True):
    """The fields of a rule; the highest threshold follows from the kind."""

    name: Annotated[str, parse_rule_name] = ""
    kind: Annotated[RuleKind, Meta(title=N_("What"))]
    group_pattern: Annotated[str, parse_pattern]
    topic_pattern: Annotated[str, parse_pattern]
    threshold: Verbatim
    window_s: Verbatim
    for_s: Annotated[int, Meta(title=N_("For"), le=FOR_MAX_S)]
    severity: Annotated[Severity, Meta(title=N_("Severity"))]
    is_enabled: bool
    receivers: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """The readings of a rule if it were evaluated now."""

    checked: int
    over: int
    unknown: int
    readings: list[Reading]  # those over the threshold first


@dataclass(frozen=True)
class AlertChangeLine:
    """A change of the rule's states, and the deliveries that tell it."""

    change: TransitionRow
    deliveries: list[AlertDeliveryRow]


@dataclass(frozen=True)
class RuleForm:
    """The context of `alert_form.html`; `rule_id` is 0 for a new rule."""

    rule_id: int
    form: Form
    trial: Trial | None
    severities: Sequence[tuple[str, str]]
    receivers: list[ReceiverRow]  # those that a rule can name
    history: list[AlertChangeLine]
    older: int | None
    about: Mapping[RuleKind, About] = field(default_factory=lambda: ABOUT)
    kinds: tuple[tuple[str, str], ...] = KINDS


@dataclass(frozen=True)
class RuleDeletion:
    """The context of `alert_delete.html`: the alerts that end with the rule."""

    rule: RuleRow
    firing: list[str]
    firing_total: int
    silences: int
    form: Form


async def new(request: PageRequest) -> Response:
    """GET /alerts/new: the form, filled in from the query."""
    return await _page(request, 0, _prefilled(request.query_params))


async def create(request: PageRequest) -> Response:
    """POST /alerts/new: create a rule, or with `try` evaluate it once."""
    return await _take(request, 0)


async def edit(request: PageRequest) -> Response:
    """GET /alerts/rules/{id}"""
    standing = await _standing(request)
    return await _page(request, standing.rule.id, _form_of(standing.rule))


async def change(request: PageRequest) -> Response:
    """POST /alerts/rules/{id}"""
    standing = await _standing(request)
    return await _take(request, standing.rule.id)


async def delete(request: PageRequest) -> Response:
    """POST /alerts/rules/{id}/delete: delete the rule if the form repeats its name."""
    rule = (await _standing(request)).rule
    form = await forms.confirmation(request, rule.name, _("That is not the name of the rule."))
    if form.is_wrong:
        return await delete_page(request, form)
    await request.services.alerts.delete(request.actor, rule.id)
    return forms.go(request, "/alerts?done=deleted")


async def _take(request: PageRequest, rule_id: int) -> Response:
    posted = await forms.read(request)
    form, fields = typed_forms.read(posted, RuleFields)
    rule = _rule_of(form, fields, rule_id)
    if form.is_wrong:
        return await _page(request, rule_id, form)
    alerts, actor = request.services.alerts, request.actor
    try:
        if posted.one("do") == "try":
            return await _page(request, rule_id, form, trial=_trial(await alerts.preview(rule)))
        await (alerts.change(actor, rule) if rule_id else alerts.create(actor, rule))
    except (Invalid, Conflict, Refused, NotFound) as error:
        form.blame(error)
        return await _page(request, rule_id, form)
    return forms.go(request, f"/alerts?done={'changed' if rule_id else 'created'}")


def _trial(readings: list[Reading]) -> Trial:
    over = [reading for reading in readings if reading.is_over]
    unknown = [reading for reading in readings if reading.is_over is None]
    rest = [reading for reading in readings if reading.is_over is False]
    rest.sort(key=lambda reading: -(reading.value or 0))
    shown = [
        replace(reading, detail=detail_of(reading.detail))
        for reading in [*over, *unknown, *rest][:READINGS_SHOWN_MAX]
    ]
    return Trial(len(readings), len(over), len(unknown), shown)


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
    values = {name: str(getattr(rule, name)) for name in RuleFields.__struct_fields__}
    own = {"window_s": str(rule.window_s or 300), "is_enabled": ON if rule.is_enabled else ""}
    form = Form(values | own)
    form.lists["receivers"] = tuple(map(str, rule.receivers))
    return form


def _rule_of(form: Form, fields: RuleFields, rule_id: int) -> RuleRow:
    """The rule in a form; errors are reported at their fields."""
    about = ABOUT[fields.kind]
    window_s = 0
    if about.has_window:
        window_s = form.number("window_s", _("Window"), WINDOW_MIN_S, WINDOW_MAX_S)
    threshold_max = min(about.threshold_max, NUMBER_MAX)
    threshold = form.number("threshold", _("Threshold"), 0, threshold_max)
    receivers = tuple(map(parse_id, fields.receivers))
    return convert(
        fields, RuleRow, id=rule_id, threshold=threshold, window_s=window_s, receivers=receivers
    )


async def _standing(request: PageRequest) -> RuleStatus:
    return await request.services.alerts.standing(parse_id(request.path_params["id"]))


async def _page(
    request: PageRequest, rule_id: int, form: Form, *, trial: Trial | None = None
) -> Response:
    alerts = request.services.alerts
    receivers = [row for row in (await alerts.loaded_receivers()).all() if row.id]
    before = request.read_query(AlertsQuery).before
    changes = await alerts.history(rule_id, CHANGES_SHOWN, before) if rule_id else []
    context = RuleForm(
        rule_id=rule_id,
        form=form,
        trial=trial,
        severities=[(severity.value, translated(severity.value)) for severity in Severity],
        receivers=receivers,
        history=[
            AlertChangeLine(
                replace(one, detail=detail_of(one.detail)), list(map(delivery_row, rows))
            )
            for one, rows in changes
        ],
        older=changes[-1][0].id if len(changes) == CHANGES_SHOWN else None,
    )
    title = _("Edit rule") if rule_id else _("New alert rule")
    return await pages.respond(
        request, "alert_form.html", context, title=title, is_live=bool(rule_id)
    )


async def delete_page(request: PageRequest, form: Form | None = None) -> Response:
    """GET /alerts/rules/{id}/delete"""
    standing = await _standing(request)
    firing = [row.subject for row in standing.states if row.state == "firing"]
    silences = await request.services.alerts.silences()
    context = RuleDeletion(
        rule=standing.rule,
        firing=firing[:READINGS_SHOWN_MAX],
        firing_total=len(firing),
        silences=sum(silence.rule_id == standing.rule.id for silence in silences),
        form=form or Form({"confirm": ""}),
    )
    return await pages.respond(request, "alert_delete.html", context, title=_("Delete rule"))
