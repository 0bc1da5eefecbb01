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


class WebhookBody(msgspec.Struct, frozen=True):
    """The body of a notification, see docs/alerts.md. Bodies with the same `id` are duplicates."""

    version: int
    id: str
    event: str
    at_ms: int
    at: str
    environment: str
    subject: str
    value: int | None
    text: str
    rule: EventRule | None


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
            version=VERSION,
            id=event_id,
            event=event,
            at_ms=at_ms,
            at=_iso(at_ms),
            environment=self.environment,
            subject=state.subject,
            value=state.value,
            text=f"{rule.name} {verb}{about}: {state.detail}",
            rule=_rule(rule),
        )
        return self._rows(body, rule.name)

    def test(self, event_id: str, at_ms: int) -> tuple[DeliveryRow, ...]:
        """A test notification without an alert."""
        text = "This is a test of KiteMQ's alerts; nothing is wrong."
        body = WebhookBody(
            version=VERSION,
            id=event_id,
            event=TEST,
            at_ms=at_ms,
            at=_iso(at_ms),
            environment=self.environment,
            subject="",
            value=None,
            text=text,
            rule=None,
        )
        return self._rows(body, "")

    def _rows(self, body: WebhookBody, rule_name: str) -> tuple[DeliveryRow, ...]:
        return tuple(
            DeliveryRow(
                event_id=body.id,
                event=body.event,
                url=url,
                rule_name=rule_name,
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


def _rule(rule: RuleRow) -> EventRule:
    return convert(rule, EventRule, unit=ABOUT[RuleKind(rule.kind)].unit)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
