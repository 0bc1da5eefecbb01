"""Webhook notifications: body, signature and the row that waits for delivery. Pure."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from app.db.alert_rows import DeliveryRow, RuleRow, StateRow
from app.services.alerts.rules import ABOUT
from kitemq.model.alerts import RuleKind
from kitemq.model.conversion import convert, encoded
from kitemq.model.values import Int64

VERSION = 1
FIRING = "firing"
RESOLVED = "resolved"
TEST = "test"

WAITING = "waiting"
DELIVERED = "delivered"
FAILED = "failed"


class EventRule(msgspec.Struct, frozen=True):
    """The rule as it was when the event happened."""

    id: Int64
    name: str
    kind: str
    severity: str
    group_pattern: str
    topic_pattern: str
    threshold: int
    unit: str
    for_s: int


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a notification, see docs/alerts.md. Bodies with the same `id` are duplicates."""

    version: int = VERSION
    id: str
    event: str
    at_ms: int
    at: str
    environment: str
    subject: str = ""
    value: int | None = None
    text: str
    rule: EventRule | None = None


@dataclass(frozen=True)
class Teller:
    """Makes deliveries of events, one for each address."""

    urls: tuple[str, ...]
    environment: str

    def event(
        self, event: str, event_id: str, rule: RuleRow, state: StateRow, at_ms: int
    ) -> tuple[DeliveryRow, ...]:
        """Tell that a rule fires, or no longer does."""
        verb = "fires" if event == FIRING else "is resolved"
        about = f" for {state.subject}" if state.subject else ""
        body = WebhookBody(
            id=event_id,
            event=event,
            at_ms=at_ms,
            at=_iso(at_ms),
            environment=self.environment,
            subject=state.subject,
            value=state.value,
            text=f"{rule.name} {verb}{about}: {state.detail}",
            rule=convert(rule, EventRule, unit=ABOUT[RuleKind(rule.kind)].unit),
        )
        return self._rows(body)

    def test(self, event_id: str, at_ms: int) -> tuple[DeliveryRow, ...]:
        """A test notification without an alert."""
        body = WebhookBody(
            id=event_id,
            event=TEST,
            at_ms=at_ms,
            at=_iso(at_ms),
            environment=self.environment,
            text="This is a test of KiteMQ's alerts; nothing is wrong.",
        )
        return self._rows(body)

    def _rows(self, body: WebhookBody) -> tuple[DeliveryRow, ...]:
        return tuple(
            DeliveryRow(
                event_id=body.id,
                event=body.event,
                url=url,
                rule_name=body.rule.name if body.rule else "",
                subject=body.subject,
                body_json=msgspec.json.encode(body, enc_hook=encoded).decode(),
                result=WAITING,
                at_ms=body.at_ms,
                next_ms=body.at_ms,
            )
            for url in self.urls
        )


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over "timestamp.body", as "sha256=" and hex digits."""
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
