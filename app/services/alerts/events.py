"""Notifications: body, signature and the rows that wait for delivery. Pure."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from app.db.alert_rows import DeliveryRow, ReceiverRow, RuleRow, StateRow
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
    """Makes deliveries of events, one for each receiver."""

    receivers: tuple[ReceiverRow, ...]
    environment: str

    def receivers_of(self, rule: RuleRow) -> list[ReceiverRow]:
        """The enabled receivers that a rule names; all of them if it names none."""
        return [
            each
            for each in self.receivers
            if each.is_enabled and (not rule.receivers or each.id in rule.receivers)
        ]

    def event(
        self, event: str, event_id: str, rule: RuleRow, state: StateRow, *, at_ms: int, now_ms: int
    ) -> tuple[DeliveryRow, ...]:
        """Tell that a rule fires since `at_ms`, or no longer does."""
        verb = "fires" if event == FIRING else "is resolved"
        about = f" for {state.subject}" if state.subject else ""
        body = WebhookBody(
            id=event_id,
            event=event,
            at_ms=at_ms,
            at=iso(at_ms),
            environment=self.environment,
            subject=state.subject,
            value=state.value,
            text=f"{rule.name} {verb}{about}: {state.detail}",
            rule=convert(rule, EventRule, unit=ABOUT[RuleKind(rule.kind)].unit),
        )
        return tuple(_row(body, each, rule.id, now_ms) for each in self.receivers_of(rule))

    def test(
        self, event_id: str, at_ms: int, receivers: Sequence[ReceiverRow] | None = None
    ) -> tuple[DeliveryRow, ...]:
        """A test notification without an alert, to some receivers or to all enabled ones."""
        body = WebhookBody(
            id=event_id,
            event=TEST,
            at_ms=at_ms,
            at=iso(at_ms),
            environment=self.environment,
            text="This is a test of KiteMQ's alerts; nothing is wrong.",
        )
        enabled = [each for each in self.receivers if each.is_enabled]
        to = enabled if receivers is None else receivers
        return tuple(_row(body, each, 0, at_ms) for each in to)


def _row(body: WebhookBody, receiver: ReceiverRow, rule_id: int, now_ms: int) -> DeliveryRow:
    # What may be held becomes part of a message of its rule when it is stored.
    may_be_held = rule_id and (receiver.group_s or receiver.quiet_days)
    return DeliveryRow(
        event_id=body.id,
        event=body.event,
        url=receiver.key,
        receiver=receiver.name,
        message_id="" if may_be_held else body.id,
        rule_id=rule_id,
        rule_name=body.rule.name if body.rule else "",
        subject=body.subject,
        body_json=msgspec.json.encode(body, enc_hook=encoded).decode(),
        result=WAITING,
        at_ms=body.at_ms,
        next_ms=now_ms + (receiver.group_s * 1000 if may_be_held else 0),
    )


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over "timestamp.body", as "sha256=" and hex digits."""
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
