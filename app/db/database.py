"""The database itself, opened and brought up to date; every call may wait for disk and network.

SQLite is the default (WAL, so that readers do not wait for a writer); PostgreSQL by its URL, whose
connections are tried before each use, so that a server which was started again is found by itself.
`worker.py` keeps these calls off the event loop.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.db import queries
from app.db.address import without_password
from app.db.alert_store import AlertStore
from app.db.mark_store import MarkStore
from app.db.migrate import current_revision, ensure_schema
from app.db.replay_store import ReplayStore
from app.db.report_results import ResultStore
from app.db.report_store import ReportStore
from app.db.rows import AuditEntry, AuditFilter, AuditTally, DatabaseError
from app.db.sqlite import connect_sqlite, leave_stopgap
from app.db.tables import HEAD
from app.db.user_store import UserStore
from app.db.view_store import ViewStore
from app.private_data import DIRECTORY_MODE, FILE_MODE

# Nobody waits for long: what hangs (a lost network, a lock) becomes an error with its reason. What
# the URL says itself goes first.
POSTGRES = {
    "connect_timeout": "5",  # s
    "tcp_user_timeout": "10000",  # ms until what was sent and not acknowledged breaks a connection
    "options": "-c statement_timeout=15000 -c lock_timeout=5000",  # ms
    "application_name": "kitemq",
}


class Database:
    """An open database; every method is one transaction and raises DatabaseError."""

    def __init__(self, url: str) -> None:
        self._url = url
        with self._mapped():
            self._engine = open_engine(url)
        self.alerts = AlertStore(self._transaction)
        self.marks = MarkStore(self._transaction)
        self.users = UserStore(self._transaction)
        self.replays = ReplayStore(self._transaction)
        self.reports = ReportStore(self._transaction)
        self.results = ResultStore(self._transaction)
        self.views = ViewStore(self._transaction)

    def insert_audit(self, entry: AuditEntry) -> int:
        """Write a new entry; the id it got."""
        with self._transaction() as connection:
            return queries.insert_audit(connection, entry)

    def finish_audit(self, entry_id: int, after_json: str, result: str) -> None:
        """Complete an entry with how its change ended."""
        with self._transaction() as connection:
            queries.finish_audit(connection, entry_id, after_json=after_json, result=result)

    def list_audit(
        self, limit: int, before_id: int | None, filter: AuditFilter
    ) -> list[AuditEntry]:
        """The newest entries; see `queries.list_audit`."""
        with self._transaction() as connection:
            return queries.list_audit(connection, limit=limit, before_id=before_id, filter=filter)

    def tally_audit(self) -> AuditTally:
        """What the newest entries have in common."""
        with self._transaction() as connection:
            return queries.tally_audit(connection)

    def delete_old_audit(self, before_ms: int) -> int:
        """Delete a few entries that are too old; see `queries.delete_old_audit`."""
        with self._transaction() as connection:
            return queries.delete_old_audit(connection, before_ms)

    def delete_surplus_audit(self, entries_max: int) -> int:
        """Delete a few entries that are too many; see `queries.delete_surplus_audit`."""
        with self._transaction() as connection:
            return queries.delete_surplus_audit(connection, entries_max)

    def revision(self) -> tuple[str | None, str]:
        """The revision that the schema is marked with, and the one that it should have."""
        with self._transaction() as connection:
            return current_revision(connection), HEAD

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._mapped(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """What the driver said as a DatabaseError: no statement, no value, no password in it."""
        try:
            yield
        except (SQLAlchemyError, OSError, ImportError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            text = without_password(str(cause), self._url)
            raise DatabaseError(f"{type(cause).__name__}: {text}") from None


def open_engine(url: str) -> Engine:
    """An engine for `url` whose schema is up to date; it is closed again where that fails."""
    engine = _engine(url)
    try:
        ensure_schema(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _engine(url: str) -> Engine:
    try:
        address = make_url(url)
    except ValueError as error:  # the port is no number
        raise OSError(f"the database's address cannot be read: {error}") from None
    if address.get_backend_name() == "sqlite":
        engine = create_engine(address, hide_parameters=True)
        database = address.database
        if database and database != ":memory:":
            _make_private(Path(database))
        event.listen(engine, "do_connect", connect_sqlite)
        event.listen(engine, "checkin", leave_stopgap)
        return engine
    return create_engine(_with_limits(address), hide_parameters=True, pool_pre_ping=True)


def _make_private(path: Path) -> None:
    """An empty database that is its owner's alone: SQLite gives its other files the same mode."""
    path.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    if not path.exists() and not path.name.startswith("file:"):  # a URI names what exists
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def _with_limits(address: URL) -> URL:
    return address.set(drivername="postgresql+psycopg").update_query_dict(
        {name: value for name, value in POSTGRES.items() if name not in address.query}
    )
