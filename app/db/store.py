"""A part of the database: its transactions, and its rows as dataclasses.

A field that is a tuple is JSON in the column of its name with `_json`; a row's `id` is given by the
database.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Executable,
    Select,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)

R = TypeVar("R", bound="TableRow")

JSON = "_json"
PAGE_MAX = 200  # rows of one list

Transaction = Callable[[], AbstractContextManager[Connection]]
Condition = ColumnElement[bool]


class TableRow(Protocol):
    """A row of a table: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class TableStore:
    """Part of an open database; every method is one transaction and raises DatabaseError."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def _read(self, statement: Select[Any], kind: type[R]) -> list[R]:
        with self._transaction() as connection:
            return read(connection, statement, kind)

    def _read_one(self, statement: Select[Any], kind: type[R]) -> R | None:
        with self._transaction() as connection:
            return read_one(connection, statement, kind)

    def _insert(self, table: Table, row: R) -> R:
        with self._transaction() as connection:
            return insert_row(connection, table, row)

    def _execute(self, statement: Executable) -> int:
        """Execute a change; returns the number of its rows."""
        with self._transaction() as connection:
            return connection.execute(statement).rowcount


def read(connection: Connection, statement: Select[Any], kind: type[R]) -> list[R]:
    """The rows that a statement selects, in its order."""
    return [_row(row, kind) for row in connection.execute(statement).mappings()]


def read_one(connection: Connection, statement: Select[Any], kind: type[R]) -> R | None:
    """The first row that a statement selects."""
    row = connection.execute(statement).mappings().first()
    return None if row is None else _row(row, kind)


def newest(table: Table, limit: int, *conditions: Condition) -> Select[Any]:
    """Selects the rows that meet the conditions, the newest first, at most `limit` and 200."""
    return select(table).where(*conditions).order_by(table.c.id.desc()).limit(min(limit, PAGE_MAX))


def matching(table: Table, filter: Any, at: str = "") -> list[Condition]:
    """The conditions of a filter, whose empty and None fields match all.

    A field is the required value of the column of its name. `before_id` is an exclusive bound,
    `from_ms` and `to_ms` are bounds of the column `at`, the second one exclusive.
    """
    conditions: list[Condition] = []
    for name, value in vars(filter).items():
        if value is None or value == "":
            continue
        if name == "before_id":
            conditions.append(table.c.id < value)
        elif name == "from_ms":
            conditions.append(table.c[at] >= value)
        elif name == "to_ms":
            conditions.append(table.c[at] < value)
        elif name in table.c:
            conditions.append(table.c[name] == storable(value))
    return conditions


def count_rows(connection: Connection, table: Table, *conditions: Condition) -> int:
    """The number of rows that meet the conditions."""
    statement = select(func.count()).select_from(table).where(*conditions)
    return int(connection.execute(statement).scalar_one())


def trim(
    connection: Connection, column: Column[Any], count_max: int, *conditions: Condition
) -> None:
    """Delete the rows with the lowest values over a limit, if they meet the conditions."""
    values = select(column).order_by(column.desc()).offset(count_max - 1).limit(1)
    least = connection.execute(values).scalar()
    if least is not None:
        connection.execute(delete(column.table).where(column < least, *conditions))


def insert_row(connection: Connection, table: Table, row: R) -> R:
    """Insert a row; returns it with its id."""
    key = connection.execute(insert(table).values(values_of(row))).inserted_primary_key
    assert key is not None, "the database numbers every row"
    return replace(row, id=int(key[0]))


def update_row(connection: Connection, table: Table, row: Any) -> None:
    """Write a row in the place of the one with its id."""
    connection.execute(update(table).where(table.c.id == row.id).values(values_of(row)))


def values_of(row: Any) -> dict[str, Any]:
    """The columns of a row, without its id."""
    return {
        f"{name}{JSON}" if isinstance(value, tuple) else name: (
            msgspec.json.encode(value).decode() if isinstance(value, tuple) else value
        )
        for name, value in asdict(row).items()
        if name != "id"
    }


def storable(text: str) -> str:
    """The text without NUL, which PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd")


def _row(columns: Mapping[Any, Any], kind: type[Any]) -> Any:
    values = dict(columns)
    for field in fields(kind):
        if field.name not in values:
            values[field.name] = tuple(msgspec.json.decode(values.pop(f"{field.name}{JSON}")))
    return kind(**values)
