"""REST for alerts: rules, their states and history, silences, and deliveries."""

from dataclasses import replace
from operator import attrgetter

import msgspec

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Limit, NumberCursor, cursor_after, number_in
from app.db.alert_rows import DeliveryRow, RuleRow, SilenceRow, StateRow
from app.security.access import ADMINISTER_SERVER, READ_SERVER
from app.services.alerts.alerts import Alerts
from app.services.alerts.rules import ABOUT
from app.services.alerts.standing import RuleStatus
from app.services.alerts.webhook import host_of
from engine.errors import Invalid
from kitemq.model.alerts import (
    AlertChange,
    AlertDeliveries,
    AlertDelivery,
    AlertHistory,
    AlertRule,
    AlertRulePatch,
    AlertRules,
    AlertState,
    AlertStates,
    AlertSubject,
    NewAcknowledgement,
    NewAlertRule,
    NewSilence,
    RuleKind,
    RuleState,
    Silence,
    TestSent,
)
from kitemq.model.conversion import convert, set_fields
from kitemq.model.numbers import is_whole
from kitemq.model.values import Int64

operations = Operations("alerts")


class AlertPageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The page of deliveries or changes to list."""

    cursor: NumberCursor = ""
    limit: Limit = PAGE_DEFAULT


@operations.get("/alerts", needs=READ_SERVER)
async def get_alerts(call: Call[None, None]) -> AlertStates:
    """List the state of every rule, firing ones first, and the silences."""
    alerts = call.services.alerts
    items = [_state_out(alerts, standing) for standing in await alerts.standings()]
    return AlertStates(
        items,
        sum(item.state is RuleState.FIRING for item in items),
        [_silence_out(silence) for silence in await alerts.silences()],
        sum(each.is_enabled for each in alerts.receivers.all()),
        alerts.failure,
    )


@operations.get("/alerts/rules", needs=READ_SERVER)
async def list_alert_rules(call: Call[None, None]) -> AlertRules:
    """List the rules."""
    standings = await call.services.alerts.standings()
    rules = sorted((standing.rule for standing in standings), key=lambda rule: rule.name)
    return AlertRules([_rule_out(rule) for rule in rules])


@operations.post(
    "/alerts/rules",
    needs=ADMINISTER_SERVER,
    status=201,
    errors=(409,),
    example_body=(
        '{"name": "billing is behind", "kind": "lag", "group_pattern": "billing", "threshold": '
        '1000, "for_s": 60, "severity": "critical"}'
    ),
)
async def create_alert_rule(call: Call[None, NewAlertRule]) -> AlertRule:
    """Add a rule; it is evaluated within ten seconds."""
    new = call.body
    default = ABOUT[new.kind].default
    threshold = default if new.threshold is None else new.threshold
    receivers = tuple(map(parse_id, new.receivers))
    rule = convert(new, RuleRow, threshold=threshold, is_enabled=new.enabled, receivers=receivers)
    return _rule_out(await call.services.alerts.create(call.actor, rule))


@operations.get("/alerts/rules/{id}", needs=READ_SERVER)
async def get_alert_rule(call: Call[None, None]) -> AlertRule:
    """Get one rule."""
    standing = await call.services.alerts.standing(call.number("id"))
    return _rule_out(standing.rule)


@operations.patch(
    "/alerts/rules/{id}", needs=ADMINISTER_SERVER, errors=(409,), example_body='{"threshold": 5000}'
)
async def change_alert_rule(call: Call[None, AlertRulePatch]) -> AlertRule:
    """Change a rule. Disabling it resets it to ok; its firing alerts are notified as resolved."""
    alerts = call.services.alerts
    standing = await alerts.standing(call.number("id"))
    fields = set_fields(call.body)
    if "enabled" in fields:
        fields["is_enabled"] = fields.pop("enabled")
    if "receivers" in fields:
        fields["receivers"] = tuple(map(parse_id, fields["receivers"]))
    return _rule_out(await alerts.change(call.actor, replace(standing.rule, **fields)))


@operations.delete("/alerts/rules/{id}", needs=ADMINISTER_SERVER)
async def delete_alert_rule(call: Call[None, None]) -> None:
    """Delete a rule with its silences; its firing alerts are notified as resolved."""
    await call.services.alerts.delete(call.actor, call.number("id"))


@operations.get("/alerts/rules/{id}/history", needs=READ_SERVER, example="?limit=20")
async def list_alert_history(call: Call[AlertPageQuery, None]) -> AlertHistory:
    """List what a rule fired for and when, and who was notified or why not."""
    query, alerts = call.query, call.services.alerts
    rule = (await alerts.standing(call.number("id"))).rule
    changes = await alerts.history(rule.id, query.limit, number_in(query.cursor))
    next_cursor = cursor_after([change for change, _ in changes], query.limit, attrgetter("id"))
    items = [
        convert(change, AlertChange, deliveries=list(map(_delivery_out, rows)))
        for change, rows in changes
    ]
    return AlertHistory(items, next_cursor)


@operations.post(
    "/alerts/acknowledge",
    needs=ADMINISTER_SERVER,
    errors=(404, 409),
    example_body='{"rule_id": "1", "subject": "billing"}',
)
async def acknowledge_alert(call: Call[None, NewAcknowledgement]) -> AlertSubject:
    """Acknowledge an alert: a rule that fires for a subject.

    It goes on firing, with the name of the user who takes care of it. The first acknowledgement
    stays; it ends with the firing.
    """
    alerts = call.services.alerts
    rule_id = _rule_id(call.body.rule_id)
    row = await alerts.acknowledge(call.actor, rule_id, call.body.subject)
    return _subject_out(alerts, row)


@operations.post(
    "/alerts/silences",
    needs=ADMINISTER_SERVER,
    status=201,
    errors=(404, 409),
    example_body='{"rule_id": "1", "until_ms": 1893456000000, "note": "planned work"}',
)
async def create_silence(call: Call[None, NewSilence]) -> Silence:
    """Silence the receivers for a rule, or for one of its subjects, until a time.

    States go on changing. Alerts that still fire when the silence ends are notified then; the
    end of an alert that was notified before is notified at once.
    """
    new, actor = call.body, call.actor
    silence = await call.services.alerts.silence(
        actor, _rule_id(new.rule_id), new.subject, new.until_ms, new.note
    )
    return _silence_out(silence)


@operations.delete("/alerts/silences/{id}", needs=ADMINISTER_SERVER)
async def end_silence(call: Call[None, None]) -> None:
    """End a silence before its time."""
    await call.services.alerts.end_silence(call.actor, call.number("id"))


@operations.get("/alerts/deliveries", needs=READ_SERVER, example="?limit=20")
async def list_alert_deliveries(call: Call[AlertPageQuery, None]) -> AlertDeliveries:
    """List deliveries to receivers: sent, pending and failed."""
    query = call.query
    alerts = call.services.alerts
    deliveries = await alerts.deliveries(query.limit, number_in(query.cursor))
    next_cursor = cursor_after(deliveries, query.limit, attrgetter("id"))
    return AlertDeliveries(list(map(_delivery_out, deliveries)), next_cursor)


@operations.post("/alerts/test", needs=ADMINISTER_SERVER, status=202, errors=(409,))
async def test_alerts(call: Call[None, None]) -> TestSent:
    """Send every enabled receiver an event that says it is a test."""
    receivers = await call.services.alerts.loaded_receivers()
    return TestSent(await receivers.test(call.actor))


def parse_id(text: str) -> int:
    """The id of a receiver that a rule names; Invalid (`receivers`)."""
    if is_whole(text) and int(text):
        return int(text)
    raise Invalid("that is no receiver's id", field="receivers", remedy="give ids of receivers")


def _rule_id(text: str) -> int:
    if not text:
        return 0
    if is_whole(text) and int(text):
        return int(text)
    raise Invalid("that is no rule's id", field="rule_id", remedy="give the id of a rule")


def _rule_out(rule: RuleRow) -> AlertRule:
    unit = ABOUT[RuleKind(rule.kind)].unit
    receivers = tuple(Int64(each) for each in rule.receivers)
    return convert(rule, AlertRule, unit=unit, enabled=rule.is_enabled, receivers=receivers)


def _state_out(alerts: Alerts, standing: RuleStatus) -> AlertState:
    rule = standing.rule
    return convert(
        rule,
        AlertState,
        rule_id=rule.id,
        enabled=rule.is_enabled,
        state=standing.state,
        subjects=[_subject_out(alerts, row) for row in standing.states],
        subjects_checked=standing.checked,
        subjects_left_out=standing.left_out,
        evaluated_ms=standing.at_ms or None,
    )


def _subject_out(alerts: Alerts, row: StateRow) -> AlertSubject:
    return convert(
        row,
        AlertSubject,
        silenced=alerts.is_silent(row.rule_id, row.subject),
        acknowledged_by=row.acked_by,
        acknowledged_ms=row.acked_ms,
    )


def _silence_out(row: SilenceRow) -> Silence:
    return convert(row, Silence, rule_id=row.rule_id or None)


def _delivery_out(row: DeliveryRow) -> AlertDelivery:
    next_ms = row.next_ms if row.result == "waiting" else None
    webhook = host_of(row.url) if "://" in row.url else ""
    receiver = row.receiver or webhook  # those of before have no name
    return convert(
        row,
        AlertDelivery,
        receiver=receiver,
        webhook=webhook,
        rule=row.rule_name,
        next_ms=next_ms,
    )
