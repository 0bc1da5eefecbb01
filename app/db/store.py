"""A part of the database: its transactions, and its rows as dataclasses.

A field that is a tuple is JSON in the column of its name with `_json`; a row's `id` is given by the
database.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Select, Table, insert, update

R = TypeVar("R")

JSON = "_json"

Transaction = Callable[[], AbstractContextManager[Connection]]


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


def read(connection: Connection, statement: Select[Any], kind: type[R]) -> list[R]:
    """The rows that a statement selects, in its order."""
    return [_row(row, kind) for row in connection.execute(statement).mappings()]


def read_one(connection: Connection, statement: Select[Any], kind: type[R]) -> R | None:
    """The first row that a statement selects."""
    row = connection.execute(statement).mappings().first()
    return None if row is None else _row(row, kind)


def insert_row(connection: Connection, table: Table, row: Any) -> int:
    """Insert a row; returns its id."""
    key = connection.execute(insert(table).values(values_of(row))).inserted_primary_key
    assert key is not None, "the database numbers every row"
    return int(key[0])


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


def _row(columns: Mapping[Any, Any], kind: type[Any]) -> Any:
    values = dict(columns)
    for field in fields(kind):
        if field.name not in values:
            values[field.name] = tuple(msgspec.json.decode(values.pop(f"{field.name}{JSON}")))
    return kind(**values)
