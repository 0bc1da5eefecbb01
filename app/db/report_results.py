"""The reports' figures in SQL: replaced by whole hours in one transaction, read by range and name.

A run that dies before its transaction ends leaves the figures of the run before it; the same run
once more leaves the same figures.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, Table, delete, func, insert, select, tuple_

from app.db.report_rows import (
    ALL,
    RESULTS_BY_NAME,
    Loaded,
    NotOurs,
    ResultFilter,
    ResultTable,
    Row,
    RunRow,
)
from app.db.report_store import finish
from app.db.report_tables import RESULT_TABLES, report_partitions

CHUNK_ROWS = 5_000
KEYS_MAX = 500  # hours named in one statement
PAGE_MAX = 5_000
DAY, DAY_CHARS = "day", 10
QUEUE = "queue"  # the one column that rows are chosen by which is a number

Transaction = Callable[[], AbstractContextManager[Connection]]


class ResultStore:
    """Part of an open database; every method raises DatabaseError."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def replace(self, loaded: Loaded) -> None:
        """Take over a run's figures and its end, all or nothing. Raises NotOurs, ValueError."""
        run = loaded.run
        with self._transaction() as connection:
            for table, rows in loaded.tables:
                _replace(connection, table, run.hours, rows)
            _mark_done(connection, run, loaded.fingerprints)
            if not finish(connection, run):
                raise NotOurs

    def expire(self, oldest: str) -> int:
        """Delete the figures of hours before `oldest`; how many rows."""
        deleted = 0
        with self._transaction() as connection:
            for name, table in RESULT_TABLES.items():
                if RESULTS_BY_NAME[name].replaces != ALL:
                    done = connection.execute(delete(table).where(table.c.hour < oldest))
                    deleted += done.rowcount
            connection.execute(delete(report_partitions).where(report_partitions.c.hour < oldest))
        return deleted

    def page(
        self, name: str, wanted: ResultFilter, limit: int, after: Sequence[Any] = ()
    ) -> list[Row]:
        """Rows in the order of their key, at most 5,000; `after` is the key of the last one."""
        table = RESULT_TABLES[name]
        keys = [table.c[key] for key in RESULTS_BY_NAME[name].key]
        statement = _where(select(table), table, wanted).order_by(*keys)
        if after:
            statement = statement.where(tuple_(*keys) > tuple_(*after))
        with self._transaction() as connection:
            found = connection.execute(statement.limit(min(limit, PAGE_MAX)))
            return [dict(row) for row in found.mappings()]

    def totals(self, name: str, by: Sequence[str], wanted: ResultFilter, limit: int) -> list[Row]:
        """What may be added up of a table, by these columns, or "day" for the date of the hour."""
        table = RESULT_TABLES[name]
        groups = [
            func.substr(table.c.hour, 1, DAY_CHARS).label(DAY) if each == DAY else table.c[each]
            for each in by
        ]
        sums = [func.sum(table.c[each]).label(each) for each in RESULTS_BY_NAME[name].sums]
        statement = _where(select(*groups, *sums), table, wanted).group_by(*groups)
        with self._transaction() as connection:
            found = connection.execute(statement.order_by(*groups).limit(limit)).mappings()
            # PostgreSQL adds whole numbers up to decimal ones.
            return [
                {key: int(each) if isinstance(each, Decimal) else each for key, each in row.items()}
                for row in found
            ]

    def count(self, name: str, wanted: ResultFilter) -> int:
        """How many rows there are."""
        table = RESULT_TABLES[name]
        statement = _where(select(func.count()).select_from(table), table, wanted)
        with self._transaction() as connection:
            return int(connection.execute(statement).scalar_one())

    def values(self, name: str, column: str, wanted: ResultFilter, limit: int) -> list[str]:
        """The different values of a text column, in their order."""
        table = RESULT_TABLES[name]
        chosen = table.c[column]
        statement = _where(select(chosen).distinct(), table, wanted).order_by(chosen).limit(limit)
        with self._transaction() as connection:
            return [str(value) for value in connection.execute(statement).scalars()]

    def hours_done(self, job: str, first: str, last: str) -> list[str]:
        """Hours of a range that there are results of, at most 100,000."""
        column = report_partitions.c.hour
        statement = select(column).where(report_partitions.c.job == job).order_by(column)
        if first:
            statement = statement.where(column >= first)
        if last:
            statement = statement.where(column <= last)
        with self._transaction() as connection:
            return [str(hour) for hour in connection.execute(statement.limit(100_000)).scalars()]


def _replace(
    connection: Connection, table: ResultTable, hours: Sequence[str], rows: Iterable[Row]
) -> None:
    stored = RESULT_TABLES[table.name]
    if table.replaces == ALL:
        connection.execute(delete(stored))
    else:
        for some in _chunks(iter(hours), KEYS_MAX):
            connection.execute(delete(stored).where(stored.c.hour.in_(some)))
    for chunk in _chunks(iter(rows), CHUNK_ROWS):
        connection.execute(insert(stored), chunk)


def _mark_done(connection: Connection, run: RunRow, fingerprints: dict[str, str]) -> None:
    table = report_partitions
    for some in _chunks(iter(fingerprints), KEYS_MAX):
        connection.execute(delete(table).where(table.c.job == run.job, table.c.hour.in_(some)))
        rows = [
            {
                "job": run.job,
                "hour": hour,
                "fingerprint": fingerprints[hour],
                "done_ms": run.ended_ms,
                "run_id": run.id,
            }
            for hour in some
        ]
        connection.execute(insert(table), rows)


def _where(statement: Select[Any], table: Table, wanted: ResultFilter) -> Select[Any]:
    if wanted.first:
        statement = statement.where(table.c.hour >= wanted.first)
    if wanted.last:
        statement = statement.where(table.c.hour <= wanted.last)
    for column, value in wanted.equal:
        text = value.replace("\0", "\ufffd")
        statement = statement.where(table.c[column] == (int(text) if column == QUEUE else text))
    return statement


def _chunks(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while chunk := list(islice(items, size)):
        yield chunk
