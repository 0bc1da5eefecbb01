"""The database itself, opened and brought up to date; every call may wait for disk and network.

SQLite is the default (WAL, so that readers do not wait for a writer); PostgreSQL by its URL.
`worker.py` keeps these calls off the event loop.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from app.db import queries
from app.db.alert_store import AlertStore
from app.db.migrate import ensure_schema
from app.db.people import PeopleStore
from app.db.rows import AuditEntry, AuditFilter, AuditTally, DatabaseError

BUSY_TIMEOUT_MS = 5000
SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA foreign_keys=ON",
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
)


class Database:
    """An open database; every method is one transaction and raises DatabaseError."""

    def __init__(self, url: str) -> None:
        with _mapped():
            self._engine = open_engine(url)
        self.alerts = AlertStore(self._transaction)
        self.people = PeopleStore(self._transaction)

    def insert_audit(self, entry: AuditEntry) -> int:
        """Write a new entry; the id it got."""
        with self._transaction() as connection:
            return queries.insert_audit(connection, entry)

    def finish_audit(self, entry_id: int, after_json: str, result: str) -> None:
        """Complete an entry with how its change ended."""
        with self._transaction() as connection:
            queries.finish_audit(connection, entry_id, after_json=after_json, result=result)

    def list_audit(
        self, limit: int, before_id: int | None, wanted: AuditFilter
    ) -> list[AuditEntry]:
        """The newest entries; see `queries.list_audit`."""
        with self._transaction() as connection:
            return queries.list_audit(connection, limit=limit, before_id=before_id, wanted=wanted)

    def tally_audit(self) -> AuditTally:
        """What the newest entries have in common."""
        with self._transaction() as connection:
            return queries.tally_audit(connection)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with _mapped(), self._engine.begin() as connection:
            yield connection


@contextmanager
def _mapped() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError, ImportError) as error:
        raise DatabaseError(f"{type(error).__name__}: {error}") from error


def open_engine(url: str) -> Engine:
    """An engine for `url` whose schema is up to date."""
    engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name == "sqlite":
        database = make_url(url).database
        if database and database != ":memory:":
            Path(database).parent.mkdir(parents=True, exist_ok=True)
        event.listen(engine, "connect", _set_pragmas)
    ensure_schema(engine)
    return engine


def _set_pragmas(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in SQLITE_PRAGMAS:
        cursor.execute(pragma)
    cursor.close()
