"""The tables: typed columns, named constraints, times as UTC milliseconds in BIGINT.

`HEAD` is the revision of `migrations/versions` that these tables stand for; a test compares both.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Named,
    String,
    Table,
    Text,
    TypedColumns,
    UniqueConstraint,
    text,
)
from sqlalchemy import Column as C

HEAD = "20261123_lag_evaluated"

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = MetaData(naming_convention=NAMING)

# SQLite numbers rows by itself only for a column that it calls INTEGER.
ROW_ID = BigInteger().with_variant(Integer(), "sqlite")


class AuditColumns(TypedColumns):
    """The audit trail, written before and after each change."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    at_ms: Named[int] = C(BigInteger, nullable=False)
    actor: Named[str] = C(String(255), nullable=False)
    action: Named[str] = C(String(64), nullable=False)
    object_kind: Named[str] = C(String(32), nullable=False)
    object_name: Named[str] = C(String(512), nullable=False)
    before_json: Named[str] = C(Text, nullable=False)
    after_json: Named[str] = C(Text, nullable=False)
    result: Named[str] = C(String(64), nullable=False)
    request_id: Named[str] = C(String(64), nullable=False)
    address: Named[str] = C(String(64), nullable=False, server_default=text("''"))


audit = Table(
    "audit",
    metadata,
    AuditColumns,
    Index("ix_audit_at_ms", "at_ms"),
    Index("ix_audit_object_kind_object_name", "object_kind", "object_name"),
)


class AlertRuleColumns(TypedColumns):
    """Alert rules."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    name: Named[str] = C(String(128), nullable=False)
    kind: Named[str] = C(String(32), nullable=False)
    group_pattern: Named[str] = C(String(255), nullable=False)
    topic_pattern: Named[str] = C(String(255), nullable=False)
    threshold: Named[int] = C(BigInteger, nullable=False)
    window_s: Named[int] = C(BigInteger, nullable=False)
    for_s: Named[int] = C(BigInteger, nullable=False)
    severity: Named[str] = C(String(16), nullable=False)
    is_enabled: Named[bool] = C(Boolean, nullable=False)
    created_ms: Named[int] = C(BigInteger, nullable=False)
    changed_ms: Named[int] = C(BigInteger, nullable=False)


class AlertStateColumns(TypedColumns):
    """States of rules other than "ok", by subject."""

    rule_id: Named[int] = C(BigInteger, primary_key=True, autoincrement=False)
    subject: Named[str] = C(String(255), primary_key=True)
    state: Named[str] = C(String(16), nullable=False)
    since_ms: Named[int] = C(BigInteger, nullable=False)
    value: Named[int | None] = C(BigInteger, nullable=True)
    detail: Named[str] = C(Text, nullable=False)
    event_id: Named[str] = C(String(64), nullable=False)
    is_told: Named[bool] = C(Boolean, nullable=False)
    acked_by: Named[str | None] = C(String(255), nullable=True)
    acked_ms: Named[int | None] = C(BigInteger, nullable=True)


class AlertTransitionColumns(TypedColumns):
    """Every change of state; a rule's name is kept, as the rule itself may go."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    event_id: Named[str] = C(String(64), nullable=False)
    at_ms: Named[int] = C(BigInteger, nullable=False)
    rule_id: Named[int] = C(BigInteger, nullable=False)
    rule_name: Named[str] = C(String(128), nullable=False)
    severity: Named[str] = C(String(16), nullable=False)
    subject: Named[str] = C(String(255), nullable=False)
    before: Named[str] = C(String(16), nullable=False)
    after: Named[str] = C(String(16), nullable=False)
    value: Named[int | None] = C(BigInteger, nullable=True)
    detail: Named[str] = C(Text, nullable=False)


class AlertDeliveryColumns(TypedColumns):
    """Deliveries to webhooks: an outbox, written with the transition."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    event_id: Named[str] = C(String(64), nullable=False)
    event: Named[str] = C(String(16), nullable=False)
    url: Named[str] = C(String(2048), nullable=False)
    rule_name: Named[str] = C(String(128), nullable=False)
    subject: Named[str] = C(String(255), nullable=False)
    body_json: Named[str] = C(Text, nullable=False)
    result: Named[str] = C(String(16), nullable=False)
    attempts: Named[int] = C(BigInteger, nullable=False)
    status: Named[int | None] = C(BigInteger, nullable=True)
    error: Named[str] = C(Text, nullable=False)
    at_ms: Named[int] = C(BigInteger, nullable=False)
    last_ms: Named[int | None] = C(BigInteger, nullable=True)
    next_ms: Named[int] = C(BigInteger, nullable=False)


class AlertSilenceColumns(TypedColumns):
    """Silences of a rule, or of one of its subjects."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    rule_id: Named[int] = C(BigInteger, nullable=False)
    subject: Named[str] = C(String(255), nullable=False)
    until_ms: Named[int] = C(BigInteger, nullable=False)
    note: Named[str] = C(String(512), nullable=False)
    actor: Named[str] = C(String(255), nullable=False)
    at_ms: Named[int] = C(BigInteger, nullable=False)


alert_rules = Table(
    "alert_rules", metadata, AlertRuleColumns, Index("uq_alert_rules_name", "name", unique=True)
)
alert_states = Table("alert_states", metadata, AlertStateColumns)
alert_transitions = Table("alert_transitions", metadata, AlertTransitionColumns)
alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    AlertDeliveryColumns,
    # An event is told to an address once.
    Index("uq_alert_deliveries_event_id_url", "event_id", "url", unique=True),
    Index("ix_alert_deliveries_result", "result"),
)
alert_silences = Table("alert_silences", metadata, AlertSilenceColumns)


class UserColumns(TypedColumns):
    """Users."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    name: Named[str] = C(String(64), nullable=False)
    password_hash: Named[str] = C(String(255), nullable=False)
    role: Named[str] = C(String(16), nullable=False)
    patterns_json: Named[str] = C(Text, nullable=False)
    disabled: Named[bool] = C(Boolean, nullable=False)
    created_ms: Named[int] = C(BigInteger, nullable=False)
    # Who this is at an OpenID Connect provider; empty for those who have a password here.
    issuer: Named[str | None] = C(String(255), nullable=True)
    subject: Named[str | None] = C(String(255), nullable=True)


class TokenColumns(TypedColumns):
    """Tokens of programs; only the hash is stored."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    name: Named[str] = C(String(64), nullable=False)
    prefix: Named[str] = C(String(16), nullable=False)
    secret_hash: Named[str] = C(String(64), nullable=False)
    user_id = C(ROW_ID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False)
    role: Named[str] = C(String(16), nullable=False)
    patterns_json: Named[str] = C(Text, nullable=False)
    created_ms: Named[int] = C(BigInteger, nullable=False)
    expires_ms: Named[int | None] = C(BigInteger, nullable=True)
    used_ms: Named[int | None] = C(BigInteger, nullable=True)


class SessionColumns(TypedColumns):
    """Sessions of browsers."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    secret_hash: Named[str] = C(String(64), nullable=False)
    user_id = C(ROW_ID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False)
    created_ms: Named[int] = C(BigInteger, nullable=False)
    seen_ms: Named[int] = C(BigInteger, nullable=False)
    expires_ms: Named[int] = C(BigInteger, nullable=False)
    address: Named[str] = C(String(64), nullable=False)
    user_agent: Named[str] = C(String(255), nullable=False)


class PeopleVersionColumns(TypedColumns):
    """One row: a version of users, tokens and sessions, which running servers poll."""

    id: Named[int] = C(Integer, primary_key=True, autoincrement=False)
    version: Named[int] = C(BigInteger, nullable=False)


users = Table(
    "users",
    metadata,
    UserColumns,
    UniqueConstraint("name"),
    Index("uq_users_issuer_subject", "issuer", "subject", unique=True),
)
tokens = Table(
    "tokens",
    metadata,
    TokenColumns,
    UniqueConstraint("secret_hash"),
    Index("ix_tokens_user_id", "user_id"),
)
sessions = Table(
    "sessions",
    metadata,
    SessionColumns,
    UniqueConstraint("secret_hash"),
    Index("ix_sessions_user_id", "user_id"),
)
people_version = Table("people_version", metadata, PeopleVersionColumns)


class SavedViewColumns(TypedColumns):
    """Saved views of the console; `owner` is "" while there are no users."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    owner: Named[str] = C(String(64), nullable=False)
    name: Named[str] = C(String(80), nullable=False)
    path: Named[str] = C(String(1024), nullable=False)
    query: Named[str] = C(String(2000), nullable=False)
    created_ms: Named[int] = C(BigInteger, nullable=False)


class ReplayJobColumns(TypedColumns):
    """Copies of replay jobs, which outlive the engine's journal."""

    id: Named[str] = C(String(64), primary_key=True)
    name: Named[str] = C(String(200), nullable=False)
    source: Named[str] = C(String(255), nullable=False)
    target: Named[str] = C(String(16), nullable=False)
    target_name: Named[str] = C(String(255), nullable=False)
    selection_json: Named[str] = C(Text, nullable=False)
    per_s: Named[float] = C(Float, nullable=False)
    dry_run: Named[bool] = C(Boolean, nullable=False)
    state: Named[str] = C(String(16), nullable=False)
    selected: Named[int] = C(BigInteger, nullable=False)
    examined: Named[int] = C(BigInteger, nullable=False)
    totals_json: Named[str] = C(Text, nullable=False)
    created_ms: Named[int] = C(BigInteger, nullable=False)
    created_by: Named[str] = C(String(255), nullable=False)
    ended_ms: Named[int | None] = C(BigInteger, nullable=True)
    last_error: Named[str] = C(Text, nullable=False)


class TopicStarColumns(TypedColumns):
    """Starred topics; `owner` as with saved views."""

    owner: Named[str] = C(String(64), primary_key=True)
    topic: Named[str] = C(String(255), primary_key=True)
    created_ms: Named[int] = C(BigInteger, nullable=False)


class TopicNoteColumns(TypedColumns):
    """Notes of topics, in Markdown; `changed_ms` is the version."""

    topic: Named[str] = C(String(255), primary_key=True)
    text: Named[str] = C(Text, nullable=False)
    author: Named[str] = C(String(255), nullable=False)
    changed_ms: Named[int] = C(BigInteger, nullable=False)


topic_stars = Table("topic_stars", metadata, TopicStarColumns)
topic_notes = Table("topic_notes", metadata, TopicNoteColumns)
saved_views = Table("saved_views", metadata, SavedViewColumns, UniqueConstraint("owner", "name"))
replay_jobs = Table(
    "replay_jobs", metadata, ReplayJobColumns, Index("ix_replay_jobs_created_ms", "created_ms")
)
