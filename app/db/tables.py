"""The tables: typed columns, named constraints, times as UTC milliseconds in BIGINT.

`HEAD` is the revision of `migrations/versions` that these tables stand for; a test compares both.
"""

from sqlalchemy import (
    BigInteger,
    Index,
    Integer,
    MetaData,
    Named,
    String,
    Table,
    Text,
    TypedColumns,
)
from sqlalchemy import Column as C

HEAD = "20261120_audit"

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
    """Who changed what, when, and what became of it; written before and after each change."""

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


audit = Table(
    "audit",
    metadata,
    AuditColumns,
    Index("ix_audit_at_ms", "at_ms"),
    Index("ix_audit_object_kind_object_name", "object_kind", "object_name"),
)
