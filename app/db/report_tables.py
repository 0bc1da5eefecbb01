"""The reports' tables: schedules, runs, which hours are done, and the figures themselves.

Figures are by UTC hour ("2026-11-21T03"); without row numbers, as their keys find every row. Older
ones are packed: a block of bytes for each table, topic and period (`report_pack.py`).
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
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

from app.db.report_rows import PACKED, RunRow, ScheduleRow
from app.db.tables import metadata, table_of
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

report_schedules = table_of("report_schedules", ScheduleRow, key=("job",), limit_s=(Integer(),))
# At most one run is running.
report_runs = table_of(
    "report_runs",
    RunRow,
    Index("uq_report_runs_state", "state", unique=True, sqlite_where=IS_RUNNING),
    Index("ix_report_runs_job_id", "job", "id"),
    attempt=(Integer(),),
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
