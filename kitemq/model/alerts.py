"""Alerts: rules, their states, silences, and webhook deliveries."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kitemq.model.values import Int64, Milliseconds


class RuleKind(StrEnum):
    """The figure that a rule reads."""

    LAG = "lag"
    LAG_AGE = "lag_age"
    DEAD_LETTERS = "dead_letters"
    DISK = "disk"
    ENGINE = "engine"
    NO_DATA = "no_data"
    REPORT_FAILED = "report_failed"
    REPORT_AGE = "report_age"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class RuleState(StrEnum):
    """The state of a rule; pending is over its threshold, but not yet for long enough."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    NO_DATA = "no_data"


WatchedKind = Annotated[
    RuleKind,
    Meta(
        description="lag (messages), lag_age (seconds), dead_letters (new ones within window_s), "
        "disk (percent), engine (any warning), no_data (seconds since a topic's last message), "
        "report_failed (runs in a row), report_age (seconds)."
    ),
]
Threshold = Annotated[int, Meta(ge=0, description="More than this fires; the kind says of what.")]
Pattern = Annotated[str, Meta(description="A name; `*` for anything, `?` for one character.")]
Window = Annotated[int, Meta(ge=0, description="Of dead_letters only: 60 to 86,400 s.")]
For = Annotated[int, Meta(ge=0, description="It has to be over the threshold for so long.")]


class AlertRule(msgspec.Struct, frozen=True):
    """What somebody wants to be told of."""

    id: Int64
    name: str
    kind: RuleKind
    group_pattern: str
    topic_pattern: str
    threshold: int
    unit: str
    window_s: int
    for_s: int
    severity: Severity
    enabled: bool
    created_ms: Milliseconds
    changed_ms: Milliseconds


class AlertRules(msgspec.Struct, frozen=True):
    """All rules by name; there are 200 at most."""

    items: list[AlertRule]


class NewAlertRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule to be added."""

    name: str
    kind: WatchedKind
    threshold: Annotated[Threshold | None, Meta(description="Left out: the kind's default.")] = None
    group_pattern: Pattern = "*"
    topic_pattern: Pattern = "*"
    window_s: Window = 300
    for_s: For = 60
    severity: Severity = Severity.WARNING
    enabled: bool = True


class AlertRulePatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a rule; absent fields stay."""

    name: str | UnsetType = UNSET
    kind: WatchedKind | UnsetType = UNSET
    threshold: Threshold | UnsetType = UNSET
    group_pattern: Pattern | UnsetType = UNSET
    topic_pattern: Pattern | UnsetType = UNSET
    window_s: Window | UnsetType = UNSET
    for_s: For | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class AlertSubject(msgspec.Struct, frozen=True):
    """A group, a topic, or a part of the server for which a rule does not stand at ok."""

    subject: str
    state: RuleState
    since_ms: Milliseconds
    value: Annotated[int | None, Meta(description="Null where it is not known.")]
    detail: str
    silenced: bool
    acknowledged_by: Annotated[str | None, Meta(description="Who has seen it; null for nobody.")]
    acknowledged_ms: int | None


class AlertState(msgspec.Struct, frozen=True):
    """The state of a rule: the worst of its subjects. `evaluated_ms` is null before the first."""

    rule_id: Int64
    name: str
    severity: Severity
    enabled: bool
    state: RuleState
    subjects: list[AlertSubject]
    subjects_checked: int
    subjects_left_out: Annotated[int, Meta(description="Not watched, for lack of memory.")]
    evaluated_ms: int | None


class Silence(msgspec.Struct, frozen=True):
    """A silence of a rule, or of one of its subjects, until a time."""

    id: Int64
    rule_id: Annotated[Int64 | None, Meta(description="Null means every rule.")]
    subject: Annotated[str, Meta(description="Empty means all of them.")]
    until_ms: Milliseconds
    note: str
    actor: str
    at_ms: Milliseconds


class AlertStates(msgspec.Struct, frozen=True):
    """Every rule, what fires first. `failure` says why the last evaluation was not kept."""

    items: list[AlertState]
    firing: int
    silences: list[Silence]
    webhooks: Annotated[int, Meta(description="How many addresses are told.")]
    failure: str


class NewSilence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A silence to begin now."""

    until_ms: Milliseconds
    rule_id: Annotated[str, Meta(description="Left out: every rule.")] = ""
    subject: str = ""
    note: str = ""


class NewAcknowledgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An acknowledged alert: a rule that fires for a subject."""

    rule_id: str
    subject: str = ""


class AlertDelivery(msgspec.Struct, frozen=True):
    """An event for one webhook: waiting, delivered, failed (given up), or dropped (too many)."""

    id: Int64
    event_id: str
    event: Annotated[str, Meta(description="firing, resolved or test")]
    webhook: Annotated[str, Meta(description="Its address without path and query.")]
    rule: str
    subject: str
    result: str
    attempts: int
    status: int | None
    error: str
    at_ms: Milliseconds
    last_ms: int | None
    next_ms: Annotated[int | None, Meta(description="When it is tried next; null if never.")]


class AlertDeliveries(msgspec.Struct, frozen=True):
    """Deliveries, the newest first; the newest 10,000 are kept."""

    items: list[AlertDelivery]
    next_cursor: str | None


class TestSent(msgspec.Struct, frozen=True):
    """The event that every webhook is sent now; the deliveries tell what became of it."""

    event_id: str
