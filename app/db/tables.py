"""The tables, with the fields of their rows as columns; times are UTC milliseconds in BIGINT.

`HEAD` is the revision of `migrations/versions` that these tables stand for; a test compares both.
"""

from dataclasses import fields
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DefaultClause,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeEngine

from app.db.alert_rows import (
    DeliveryRow,
    ReceiverRow,
    RuleRow,
    SilenceRow,
    StateRow,
    TransitionRow,
)
from app.db.rows import (
    AuditEntry,
    ClusterJobRow,
    GroupResetsRow,
    JobRow,
    LeaseRow,
    LetterMarksRow,
    NoteRow,
    SessionRow,
    TemplateRow,
    TokenRow,
    UserRow,
    ViewRow,
)

HEAD = "20261128_cluster_resets"

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


Parts = tuple[Any, ...]  # a type, and what else a column is made of

TYPES: dict[type, TypeEngine[Any]] = {
    int: BigInteger(),
    bool: Boolean(),
    float: Float(),
    str: Text(),
    bytes: LargeBinary(),
}


def table_of(
    name: str,
    row: type,
    *parts: Index | UniqueConstraint,
    key: tuple[str, ...] = ("id",),
    **own: Parts,
) -> Table:
    """The table of a row's fields; `own` has by name what a column is made of instead.

    A field that is a tuple is JSON in the column of its name with `_json` (`store.py`).
    """
    hints = get_type_hints(row, include_extras=True)
    columns = [_column(each.name, hints[each.name], key, own) for each in fields(row)]
    return Table(name, metadata, *columns, *parts)


def _column(name: str, hint: Any, key: tuple[str, ...], own: dict[str, Parts]) -> Column[Any]:
    length = next(iter(getattr(hint, "__metadata__", ())), 0)
    plain = hint.__origin__ if length else hint
    if get_origin(plain) is tuple:
        return Column(f"{name}_json", *own.get(name, (Text,)), nullable=False)
    kinds = get_args(plain) or (plain,)
    is_row_id = name == "id" and kinds == (int,)
    kind = String(length) if length else ROW_ID if is_row_id else TYPES[kinds[0]]
    return Column(
        name,
        *own.get(name, (kind,)),
        primary_key=name in key,
        nullable=NoneType in kinds,
        autoincrement=is_row_id,
    )


def _user_id() -> Parts:
    return (ROW_ID, ForeignKey("users.id", ondelete="CASCADE"))


audit = table_of(
    "audit",
    AuditEntry,
    Index("ix_audit_at_ms", "at_ms"),
    Index("ix_audit_object_kind_object_name", "object_kind", "object_name"),
    address=(String(64), DefaultClause(text("''"))),
)
alert_rules = table_of(
    "alert_rules",
    RuleRow,
    Index("uq_alert_rules_name", "name", unique=True),
    receivers=(Text, DefaultClause(text("'[]'"))),
)
alert_receivers = table_of(
    "alert_receivers", ReceiverRow, Index("uq_alert_receivers_name", "name", unique=True)
)
alert_states = table_of("alert_states", StateRow, key=("rule_id", "subject"))
alert_transitions = table_of("alert_transitions", TransitionRow)
alert_deliveries = table_of(
    "alert_deliveries",
    DeliveryRow,
    # An event is told to a receiver once.
    Index("uq_alert_deliveries_event_id_url", "event_id", "url", unique=True),
    Index("ix_alert_deliveries_result", "result"),
    receiver=(String(128), DefaultClause(text("''"))),
    message_id=(String(64), DefaultClause(text("''"))),
    rule_id=(BigInteger, DefaultClause(text("0"))),
)
alert_silences = table_of("alert_silences", SilenceRow)
users = table_of(
    "users",
    UserRow,
    UniqueConstraint("name"),
    Index("uq_users_issuer_subject", "issuer", "subject", unique=True),
)
tokens = table_of(
    "tokens",
    TokenRow,
    UniqueConstraint("secret_hash"),
    Index("ix_tokens_user_id", "user_id"),
    user_id=_user_id(),
)
sessions = table_of(
    "sessions",
    SessionRow,
    UniqueConstraint("secret_hash"),
    Index("ix_sessions_user_id", "user_id"),
    user_id=_user_id(),
)
# One row: a version of users, tokens and sessions, which running servers poll.
people_version = Table(
    "people_version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)
saved_views = table_of("saved_views", ViewRow, UniqueConstraint("owner", "name"))
produce_templates = table_of("produce_templates", TemplateRow, UniqueConstraint("owner", "name"))
# Copies of replay jobs, which outlive the engine's journal.
replay_jobs = table_of("replay_jobs", JobRow, Index("ix_replay_jobs_created_ms", "created_ms"))
# Replay jobs over a cluster's messages, and what they did to dead letters: SQL is their only place.
cluster_jobs = table_of("cluster_jobs", ClusterJobRow, Index("ix_cluster_jobs_source", "source"))
letter_marks = table_of("letter_marks", LetterMarksRow, key=("topic",))
cluster_resets = table_of("cluster_resets", GroupResetsRow, key=("group_name",))
leases = table_of("leases", LeaseRow, key=("name",))
# Starred topics; `owner` is "" while there are no users.
topic_stars = Table(
    "topic_stars",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("topic", String(255), primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
)
topic_notes = table_of("topic_notes", NoteRow, key=("topic",))
