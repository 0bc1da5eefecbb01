"""REST for receivers of alerts: made, changed, tested and deleted. Secrets are write-only."""

from dataclasses import replace
from typing import Any

import msgspec

from app.api.framework.operation import Call, Operations
from app.db.alert_rows import ReceiverRow
from app.security.access import ADMINISTER_SERVER, READ_SERVER
from app.services.alerts.receivers import shown
from kitemq.model.alerts import (
    AlertReceiver,
    AlertReceivers,
    NewAlertReceiver,
    ReceiverPatch,
    TestSent,
)
from kitemq.model.conversion import set_fields

operations = Operations("alerts")

WEBHOOK = '{"name": "on call", "kind": "webhook", "url": "https://hooks.example.org/kitemq"}'


@operations.get("/alerts/receivers", needs=READ_SERVER)
async def list_alert_receivers(call: Call[None, None]) -> AlertReceivers:
    """List the receivers: those of the setting `alert_webhooks`, then the others by name."""
    receivers = await call.services.alerts.loaded_receivers()
    return AlertReceivers([shown(row) for row in receivers.all()])


@operations.post(
    "/alerts/receivers",
    needs=ADMINISTER_SERVER,
    status=201,
    errors=(409,),
    example_body=WEBHOOK,
)
async def create_alert_receiver(call: Call[None, NewAlertReceiver]) -> AlertReceiver:
    """Add a receiver: a webhook, Slack, Teams or mail. Rules that name none notify it at once."""
    receivers = await call.services.alerts.loaded_receivers()
    return shown(await receivers.create(call.actor, ReceiverRow(**_row_fields(call.body))))


@operations.get("/alerts/receivers/{id}", needs=READ_SERVER)
async def get_alert_receiver(call: Call[None, None]) -> AlertReceiver:
    """Get one receiver, without its secrets."""
    receivers = await call.services.alerts.loaded_receivers()
    return shown(receivers.get(call.number("id")))


@operations.patch(
    "/alerts/receivers/{id}",
    needs=ADMINISTER_SERVER,
    errors=(409,),
    example_body='{"quiet_days": ["sat", "sun"], "quiet_from": "00:00", "quiet_to": "00:00"}',
)
async def change_alert_receiver(call: Call[None, ReceiverPatch]) -> AlertReceiver:
    """Change a receiver. Another mail server or login needs the password again."""
    receivers = await call.services.alerts.loaded_receivers()
    fields = _row_fields(call.body)
    row = replace(receivers.get(call.number("id")), **fields)
    has_password = "smtp_password" in fields
    return shown(await receivers.change(call.actor, row, has_password=has_password))


@operations.delete("/alerts/receivers/{id}", needs=ADMINISTER_SERVER, errors=(409,))
async def delete_alert_receiver(call: Call[None, None]) -> None:
    """Delete a receiver that no rule names; what waits for it is not sent."""
    receivers = await call.services.alerts.loaded_receivers()
    await receivers.delete(call.actor, call.number("id"))


@operations.post("/alerts/receivers/{id}/test", needs=ADMINISTER_SERVER, status=202, errors=(409,))
async def test_alert_receiver(call: Call[None, None]) -> TestSent:
    """Send one receiver an event that says it is a test, also if it is disabled."""
    receivers = await call.services.alerts.loaded_receivers()
    return TestSent(await receivers.test(call.actor, call.number("id")))


def _row_fields(body: msgspec.Struct) -> dict[str, Any]:
    """The fields of a row that a request gives."""
    fields = set_fields(body)
    if "enabled" in fields:
        fields["is_enabled"] = fields.pop("enabled")
    return fields
