"""Rows of alerts: rules, receivers, states, transitions, deliveries and silences."""

from dataclasses import dataclass, field
from typing import Annotated


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """A rule as it was written; `services/alerts/rules.py` defines its fields."""

    id: int = 0
    name: Annotated[str, 128]
    kind: Annotated[str, 32]
    group_pattern: Annotated[str, 255] = "*"
    topic_pattern: Annotated[str, 255] = "*"
    threshold: int = 0
    window_s: int = 0
    for_s: int = 0
    severity: Annotated[str, 16] = "warning"
    is_enabled: bool = True
    created_ms: int = 0
    changed_ms: int = 0
    receivers: tuple[int, ...] = ()  # their ids; none stands for all


@dataclass(frozen=True, kw_only=True)
class ReceiverRow:
    """A receiver of notifications; `services/alerts/receiver_checks.py` defines its fields.

    Its secrets are left out of its text, so that no log can hold them. One of the settings has no
    id.
    """

    id: int = 0
    name: Annotated[str, 128]
    kind: Annotated[str, 16]
    url: Annotated[str, 2048] = field(default="", repr=False)
    signing_secret: Annotated[str, 255] = field(default="", repr=False)
    smtp_host: Annotated[str, 255] = ""
    smtp_port: int = 587
    smtp_security: Annotated[str, 16] = "starttls"
    smtp_username: Annotated[str, 255] = ""
    smtp_password: Annotated[str, 255] = field(default="", repr=False)
    mail_from: Annotated[str, 255] = ""
    mail_to: tuple[str, ...] = ()
    quiet_days: tuple[str, ...] = ()
    quiet_from: Annotated[str, 5] = "22:00"
    quiet_to: Annotated[str, 5] = "07:00"
    quiet_zone: Annotated[str, 64] = "UTC"
    critical_passes: bool = True
    group_s: int = 0
    is_enabled: bool = True
    created_ms: int = 0
    changed_ms: int = 0

    @property
    def key(self) -> str:
        """What stands in the place of the address in `DeliveryRow.url`, which is no secret."""
        return f"receiver:{self.id}" if self.id else self.url


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """The state of a rule for one subject, unless it is "ok".

    `event_id` is that of the transition to this state; `is_told` says whether it was sent to the
    webhooks.
    """

    rule_id: int
    subject: Annotated[str, 255]
    state: Annotated[str, 16]
    since_ms: int
    value: int | None
    detail: str
    event_id: Annotated[str, 64]
    is_told: bool = False
    acked_by: Annotated[str | None, 255] = None
    acked_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class TransitionRow:
    """One change of state."""

    id: int = 0
    event_id: Annotated[str, 64]
    at_ms: int
    rule_id: int
    rule_name: Annotated[str, 128]
    severity: Annotated[str, 16]
    subject: Annotated[str, 255]
    before: Annotated[str, 16]
    after: Annotated[str, 16]
    value: int | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class DeliveryRow:
    """One event for one receiver: `result` is waiting, delivered, failed or dropped.

    `url` is the receiver's key. Rows of one receiver with the same `message_id` are sent as one
    message.
    """

    id: int = 0
    event_id: Annotated[str, 64]
    event: Annotated[str, 16]
    url: Annotated[str, 2048]
    rule_name: Annotated[str, 128]
    subject: Annotated[str, 255]
    body_json: str
    result: Annotated[str, 16]
    attempts: int = 0
    status: int | None = None
    error: str = ""
    at_ms: int
    last_ms: int | None = None
    next_ms: int
    receiver: Annotated[str, 128] = ""
    message_id: Annotated[str, 64] = ""
    rule_id: int = 0


@dataclass(frozen=True, kw_only=True)
class SilenceRow:
    """Suppresses notifications of a rule (0: of all rules) or one of its subjects until a time."""

    id: int = 0
    rule_id: int
    subject: Annotated[str, 255]
    until_ms: int
    note: Annotated[str, 512]
    actor: Annotated[str, 255]
    at_ms: int


@dataclass(frozen=True)
class StateChanges:
    """The changes of one evaluation, written in one transaction."""

    states: tuple[StateRow, ...] = ()
    # Rule and subject of states that are "ok" again.
    ended: tuple[tuple[int, str], ...] = ()
    transitions: tuple[TransitionRow, ...] = ()
    deliveries: tuple[DeliveryRow, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.states or self.ended or self.transitions or self.deliveries)
