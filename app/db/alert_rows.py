"""Rows of alerts: rules, states, transitions, deliveries and silences."""

from dataclasses import dataclass
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
    """One event for one address: `result` is waiting, delivered, failed or dropped."""

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
