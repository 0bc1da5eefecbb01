"""Forms of a message for each kind of receiver: JSON for webhooks and chats, text for mail. Pure.

A message has one alert or, of a receiver that groups them or has quiet hours, several of one rule.
"""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from app.services.alerts.events import FIRING, RESOLVED, VERSION, EventRule, WebhookBody, iso
from kitemq.model.alerts import ReceiverKind, Severity
from kitemq.model.conversion import encoded, from_json

GROUP = "group"
ALERTS_MAX = 200  # of a group's body, as their number says
LINES_MAX = 20  # of a message that people read
TITLE_CHARS_MAX = 200
COLORS = {Severity.CRITICAL: "#c62828", Severity.WARNING: "#e08a00", Severity.INFO: "#3367d6"}
FINE_COLOR = "#2e7d32"
CARD = "application/vnd.microsoft.card.adaptive"
CARD_COLORS = {Severity.CRITICAL: "Attention", Severity.WARNING: "Warning", Severity.INFO: "Accent"}
CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


class GroupedAlert(msgspec.Struct, frozen=True):
    """One alert of a group."""

    id: str
    event: str
    at_ms: int
    at: str
    subject: str
    value: int | None
    text: str


class GroupBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of several alerts of one rule; `total` counts them, of which 200 are listed."""

    version: int = VERSION
    id: str
    event: str = GROUP
    at_ms: int
    at: str
    environment: str
    text: str
    rule: EventRule | None
    total: int
    alerts: list[GroupedAlert]


@dataclass(frozen=True)
class AlertMessage:
    """One message: its alerts, of one rule, the oldest first."""

    id: str
    bodies: tuple[WebhookBody, ...]
    at_ms: int

    @property
    def event(self) -> str:
        """The event of its alert; "group" for several."""
        return self.bodies[0].event if len(self.bodies) == 1 else GROUP

    @property
    def severity(self) -> str:
        """The severity of its rule; "" for a test."""
        rule = self.bodies[0].rule
        return rule.severity if rule else ""

    @property
    def title(self) -> str:
        """One line that says what it is about."""
        if len(self.bodies) == 1:
            return _line(self.bodies[0].text)
        rule = self.bodies[0].rule
        events = [body.event for body in self.bodies]
        counts = f"{events.count(FIRING)} firing, {events.count(RESOLVED)} resolved"
        return _line(f"{rule.name if rule else 'alerts'}: {counts}")

    @property
    def lines(self) -> list[str]:
        """The text of each alert, with a line for those beyond the limit."""
        lines = [_line(body.text) for body in self.bodies[:LINES_MAX]]
        rest = len(self.bodies) - len(lines)
        return [*lines, f"and {rest:,} more"] if rest else lines

    @property
    def is_fine(self) -> bool:
        """Whether it tells nothing but good."""
        return all(body.event != FIRING for body in self.bodies)


def message_of(message_id: str, bodies: list[str], at_ms: int) -> AlertMessage:
    """The message of some deliveries' bodies."""
    parsed = tuple(from_json(body.encode(), WebhookBody) for body in bodies)
    return AlertMessage(message_id, parsed, at_ms)


def content_of(message: AlertMessage, kind: ReceiverKind) -> bytes:
    """The JSON that a receiver of a kind is sent."""
    form = {ReceiverKind.SLACK: _slack, ReceiverKind.TEAMS: _teams}.get(kind, _webhook)
    return msgspec.json.encode(form(message), enc_hook=encoded)


def subject_of(message: AlertMessage) -> str:
    """The subject of a mail."""
    environment = message.bodies[0].environment
    prefix = f"[KiteMQ {environment}]" if environment else "[KiteMQ]"
    return f"{prefix} {message.title}"[:TITLE_CHARS_MAX]


def text_of(message: AlertMessage) -> str:
    """The text of a mail."""
    lines = [f"{body.at}  {_line(body.text)}" for body in message.bodies[:ALERTS_MAX]]
    if len(message.bodies) > ALERTS_MAX:
        lines.append(f"and {len(message.bodies) - ALERTS_MAX:,} more")
    rule = message.bodies[0].rule
    if rule is not None:
        threshold = f"more than {rule.threshold:,} {rule.unit}".rstrip()
        lines += ["", f"Rule: {rule.name} ({rule.kind}, {threshold}, {rule.severity})"]
    return "\n".join(lines) + "\n"


def _webhook(message: AlertMessage) -> WebhookBody | GroupBody:
    first = message.bodies[0]
    if len(message.bodies) == 1:
        return first
    return GroupBody(
        id=message.id,
        at_ms=message.at_ms,
        at=iso(message.at_ms),
        environment=first.environment,
        text=message.title,
        rule=first.rule,
        total=len(message.bodies),
        alerts=[
            GroupedAlert(each.id, each.event, each.at_ms, each.at, each.subject, each.value,
                         text=each.text)
            for each in message.bodies[:ALERTS_MAX]
        ],
    )  # fmt: skip


def _slack(message: AlertMessage) -> dict[str, Any]:
    color = COLORS.get(Severity(message.severity)) if message.severity else None
    text = "\n".join(map(_escaped, message.lines))
    return {
        "text": _escaped(subject_of(message)),
        "attachments": [
            {
                "color": FINE_COLOR if message.is_fine else color,
                "text": text,
                "fallback": text,
                "ts": message.at_ms // 1000,
            }
        ],
    }


def _teams(message: AlertMessage) -> dict[str, Any]:
    color = CARD_COLORS.get(Severity(message.severity)) if message.severity else "Default"
    title = {
        "type": "TextBlock", "text": _plain(subject_of(message)), "weight": "Bolder", "wrap": True,
        "color": "Good" if message.is_fine else color,
    }  # fmt: skip
    lines = [{"type": "TextBlock", "text": _plain(line), "wrap": True} for line in message.lines]
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [title, *lines]}
    return {"type": "message", "attachments": [{"contentType": CARD, "content": card}]}


def _line(text: str) -> str:
    """A text on one line, which cannot begin another header or paragraph."""
    return CONTROL.sub(" ", text)


def _escaped(text: str) -> str:
    """Text for Slack, where these three signs begin links and mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> str:
    """Text for Teams, which reads Markdown: signs of links and of emphasis stand for themselves."""
    return re.sub(r"([\\`*_\[\]])", r"\\\1", text)
