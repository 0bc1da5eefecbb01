"""The reports' tables: schedules, runs, which hours are done, and the figures themselves.

Figures are by UTC hour ("2026-11-21T03"); without row numbers, as their keys find every row. Older
ones are packed: a block of bytes for each table, topic and period (`report_pack.py`).
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    Named,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypedColumns,
    event,
    text,
)
from sqlalchemy import Column as C
from sqlalchemy.types import TypeEngine

from app.db.report_rows import PACKED
from app.db.tables import ROW_ID, metadata
from engine.report_tables import RESULTS, ResultColumn, ResultTable

# Who takes `metadata` from here has it with these tables in it.
__all__ = [
    "RESULT_TABLES",
    "metadata",
    "report_packed",
    "report_partitions",
    "report_runs",
    "report_schedules",
]

HOUR_CHARS = 13


class ScheduleColumns(TypedColumns):
    """When a job runs by itself."""

    job: Named[str] = C(String(32), primary_key=True)
    cron: Named[str] = C(String(128), nullable=False)
    is_enabled: Named[bool] = C(Boolean, nullable=False)
    limit_s: Named[int] = C(Integer, nullable=False)
    next_ms: Named[int] = C(BigInteger, nullable=False)
    changed_ms: Named[int] = C(BigInteger, nullable=False)
    changed_by: Named[str] = C(String(255), nullable=False)


class RunColumns(TypedColumns):
    """Runs of jobs; at most one is running."""

    id = C(ROW_ID, primary_key=True, autoincrement=True)
    job: Named[str] = C(String(32), nullable=False)
    cause: Named[str] = C(String(16), nullable=False)
    state: Named[str] = C(String(16), nullable=False)
    attempt: Named[int] = C(Integer, nullable=False)
    actor: Named[str] = C(String(255), nullable=False)
    began_ms: Named[int] = C(BigInteger, nullable=False)
    ended_ms: Named[int | None] = C(BigInteger, nullable=True)
    owner: Named[str] = C(String(512), nullable=False)
    lease_ms: Named[int] = C(BigInteger, nullable=False)
    hours_json: Named[str] = C(Text, nullable=False)
    rows_in: Named[int | None] = C(BigInteger, nullable=True)
    rows_out: Named[int | None] = C(BigInteger, nullable=True)
    input_at_ms: Named[int | None] = C(BigInteger, nullable=True)
    inputs_json: Named[str] = C(Text, nullable=False)
    counters_json: Named[str] = C(Text, nullable=False)
    spark: Named[str] = C(String(64), nullable=False)
    java: Named[str] = C(String(64), nullable=False)
    master: Named[str] = C(String(255), nullable=False)
    peak_kib: Named[int | None] = C(BigInteger, nullable=True)
    error_class: Named[str] = C(String(128), nullable=False)
    error: Named[str] = C(Text, nullable=False)
    log_tail: Named[str] = C(Text, nullable=False)


class PartitionColumns(TypedColumns):
    """The sources of the results, by hour."""

    job: Named[str] = C(String(32), primary_key=True)
    hour: Named[str] = C(String(HOUR_CHARS), primary_key=True)
    fingerprint: Named[str] = C(String(64), nullable=False)
    done_ms: Named[int] = C(BigInteger, nullable=False)
    run_id: Named[int] = C(BigInteger, nullable=False)


class PackedColumns(TypedColumns):
    """A table's figures of one topic and period, which begins so many hours after 1970.

    `hours` is its length; all topics of a period have the same. `groups` tells which consumer
    groups are in it, packed as well.
    """

    name: Named[str] = C(String(16), primary_key=True)
    begin: Named[int] = C(Integer, primary_key=True, autoincrement=False)
    topic: Named[str] = C(Text, primary_key=True)
    hours: Named[int] = C(Integer, nullable=False)
    rows: Named[int] = C(Integer, nullable=False)
    groups: Named[bytes] = C(LargeBinary, nullable=False)
    data: Named[bytes] = C(LargeBinary, nullable=False)


IS_RUNNING = text("state = 'running'")

report_schedules = Table("report_schedules", metadata, ScheduleColumns)
report_runs = Table(
    "report_runs",
    metadata,
    RunColumns,
    Index("uq_report_runs_state", "state", unique=True, sqlite_where=IS_RUNNING),
    Index("ix_report_runs_job_id", "job", "id"),
)


@event.listens_for(report_runs, "before_create")
def _limit_index(table: Table, connection: Connection, **_: object) -> None:
    """Give the unique index its condition where it is PostgreSQL that creates it.

    Written with the index, it would load SQLAlchemy's dialect of PostgreSQL (4 MiB) everywhere.
    """
    if connection.dialect.name == "postgresql":
        for index in table.indexes:
            if index.unique:
                index.dialect_options["postgresql"]["where"] = IS_RUNNING


report_partitions = Table("report_partitions", metadata, PartitionColumns)
report_packed = Table("report_packed", metadata, PackedColumns)

TYPES: dict[str, TypeEngine[Any]] = {
    "STRING": Text(),
    "JSON": Text(),
    "INT": Integer(),
    "BIGINT": BigInteger(),
    "DOUBLE": Double(),
}


def _type(column: ResultColumn) -> TypeEngine[Any]:
    if column.name in PACKED:
        return LargeBinary()
    return String(HOUR_CHARS) if column.name == "hour" else TYPES[column.kind]


# Texts that rows of earlier versions lack.
ADDED = frozenset({"evaluated"})


def _result(table: ResultTable) -> Table:
    columns = [
        Column(
            each.name,
            _type(each),
            nullable=each.name not in table.key and each.kind in ("INT", "BIGINT", "DOUBLE"),
            server_default=text("''") if each.name in ADDED else None,
        )
        for each in table.columns
    ]
    name = f"report_{table.name}"
    key = PrimaryKeyConstraint(*table.key, name=f"pk_{name}")
    return Table(name, metadata, *columns, key, sqlite_with_rowid=False)


RESULT_TABLES = {table.name: _result(table) for table in RESULTS}
