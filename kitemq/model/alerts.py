"""Alerts: rules, receivers, states, silences, and deliveries."""

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


RuleReceivers = Annotated[
    tuple[Int64, ...],
    Meta(max_length=50, description="Ids of the receivers that are notified; none means all."),
]


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
    receivers: RuleReceivers
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
    receivers: RuleReceivers = ()


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
    receivers: RuleReceivers | UnsetType = UNSET


class ReceiverKind(StrEnum):
    """How a receiver is notified."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    EMAIL = "email"


class SmtpSecurity(StrEnum):
    """How the connection to an SMTP server is protected."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class Weekday(StrEnum):
    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


Url = Annotated[str, Meta(description="Address of webhook, slack or teams; never shown again.")]
SigningSecret = Annotated[
    str, Meta(description="Key of a webhook's HMAC-SHA256, never shown again; empty signs nothing.")
]
SmtpHost = Annotated[str, Meta(description="Mail server of email.")]
SmtpPort = Annotated[int, Meta(ge=1, le=65_535)]
Security = Annotated[
    SmtpSecurity, Meta(description="starttls (as on port 587), tls (as on port 465) or none.")
]
SmtpUsername = Annotated[str, Meta(description="Empty means no login.")]
SmtpPassword = Annotated[
    str, Meta(description="Never shown again; needed anew if the server or the login changes.")
]
MailFrom = Annotated[str, Meta(description="Address of the sender.")]
MailTo = Annotated[tuple[str, ...], Meta(max_length=50, description="Addresses of recipients.")]
QuietDays = Annotated[
    tuple[Weekday, ...],
    Meta(max_length=7, description="Days on which quiet hours begin; none means no quiet hours."),
]
QuietTime = Annotated[str, Meta(description="As 22:00; an end before the begin is the next day's.")]
QuietZone = Annotated[str, Meta(description="IANA name, as Europe/Berlin.")]
CriticalPasses = Annotated[bool, Meta(description="Critical alerts are sent in quiet hours too.")]
GroupTime = Annotated[
    int,
    Meta(ge=0, le=3600, description="Alerts of a rule within so many seconds are one message."),
]
Enabled = Annotated[bool, Meta(description="A disabled receiver gets tests only.")]


class ReceiverSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What changes of a receiver; what is left out stays. Its kind cannot be changed."""

    url: Url | UnsetType = UNSET
    signing_secret: SigningSecret | UnsetType = UNSET
    smtp_host: SmtpHost | UnsetType = UNSET
    smtp_port: SmtpPort | UnsetType = UNSET
    smtp_security: Security | UnsetType = UNSET
    smtp_username: SmtpUsername | UnsetType = UNSET
    smtp_password: SmtpPassword | UnsetType = UNSET
    mail_from: MailFrom | UnsetType = UNSET
    mail_to: MailTo | UnsetType = UNSET
    quiet_days: QuietDays | UnsetType = UNSET
    quiet_from: QuietTime | UnsetType = UNSET
    quiet_to: QuietTime | UnsetType = UNSET
    quiet_zone: QuietZone | UnsetType = UNSET
    critical_passes: CriticalPasses | UnsetType = UNSET
    group_s: GroupTime | UnsetType = UNSET
    enabled: Enabled | UnsetType = UNSET


class ReceiverPatch(ReceiverSettings, frozen=True):
    """Changes of a receiver; absent fields stay."""

    name: str | UnsetType = UNSET


class NewAlertReceiver(ReceiverSettings, frozen=True, kw_only=True):
    """A receiver to be added. What is left out has its default."""

    name: str
    kind: ReceiverKind


class AlertReceiver(msgspec.Struct, frozen=True):
    """A receiver of notifications, without its secrets."""

    id: Annotated[Int64 | None, Meta(description="Null for one of the setting alert_webhooks.")]
    name: str
    kind: ReceiverKind
    address: Annotated[str, Meta(description="Host of its address, or mail server and port.")]
    has_signing_secret: bool
    has_smtp_password: bool
    smtp_host: str
    smtp_port: int
    smtp_security: SmtpSecurity
    smtp_username: str
    mail_from: str
    mail_to: tuple[str, ...]
    quiet_days: tuple[Weekday, ...]
    quiet_from: str
    quiet_to: str
    quiet_zone: str
    critical_passes: bool
    group_s: int
    enabled: bool
    created_ms: Milliseconds
    changed_ms: Milliseconds


class AlertReceivers(msgspec.Struct, frozen=True):
    """All receivers: those of the setting, then the others by name; 50 of these at most."""

    items: list[AlertReceiver]


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
    webhooks: Annotated[int, Meta(description="How many receivers are enabled.")]
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
    """An event for one receiver: waiting, delivered, failed (given up), or dropped (too many)."""

    id: Int64
    event_id: str
    message_id: Annotated[str, Meta(description="Events sent together have the same.")]
    event: Annotated[str, Meta(description="firing, resolved or test")]
    receiver: Annotated[str, Meta(description="Its name; the host of a webhook by setting.")]
    webhook: Annotated[str, Meta(description="Host of a webhook by setting; empty for others.")]
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


class AlertChange(msgspec.Struct, frozen=True):
    """A change of a rule's state for one subject, with the deliveries that tell it."""

    id: Int64
    event_id: str
    at_ms: Milliseconds
    subject: str
    before: RuleState
    after: RuleState
    value: Annotated[int | None, Meta(description="Null where it is not known.")]
    detail: str
    deliveries: list[AlertDelivery]


class AlertHistory(msgspec.Struct, frozen=True):
    """Changes of a rule's states, the newest first; 10,000 of all rules are kept."""

    items: list[AlertChange]
    next_cursor: str | None


class TestSent(msgspec.Struct, frozen=True):
    """The event that is sent to receivers now; the deliveries tell what became of it."""

    event_id: str
