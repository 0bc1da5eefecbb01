"""The database itself, opened and brought up to date; every call may wait for disk and network.

SQLite is the default (WAL, so that readers do not wait for a writer); PostgreSQL by its URL, whose
connections are tried before each use, so that a server which was started again is found by itself.
`worker.py` keeps these calls off the event loop.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.db import queries
from app.db.address import without_password
from app.db.alert_store import AlertStore
from app.db.mark_store import MarkStore
from app.db.migrate import current_revision, ensure_schema
from app.db.people import PeopleStore
from app.db.replay_store import ReplayStore
from app.db.report_results import ResultStore
from app.db.report_store import ReportStore
from app.db.rows import AuditEntry, AuditFilter, AuditTally, DatabaseError
from app.db.tables import HEAD
from app.db.view_store import ViewStore

BUSY_TIMEOUT_MS = 5000
SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA foreign_keys=ON",
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
)
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
        self.people = PeopleStore(self._transaction)
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
        self, limit: int, before_id: int | None, wanted: AuditFilter
    ) -> list[AuditEntry]:
        """The newest entries; see `queries.list_audit`."""
        with self._transaction() as connection:
            return queries.list_audit(connection, limit=limit, before_id=before_id, wanted=wanted)

    def tally_audit(self) -> AuditTally:
        """What the newest entries have in common."""
        with self._transaction() as connection:
            return queries.tally_audit(connection)

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
            said = without_password(str(cause), self._url)
            raise DatabaseError(f"{type(cause).__name__}: {said}") from None


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
            Path(database).parent.mkdir(parents=True, exist_ok=True)
        event.listen(engine, "connect", _set_pragmas)
        return engine
    return create_engine(_with_limits(address), hide_parameters=True, pool_pre_ping=True)


def _with_limits(address: URL) -> URL:
    return address.set(drivername="postgresql+psycopg").update_query_dict(
        {name: value for name, value in POSTGRES.items() if name not in address.query}
    )


def _set_pragmas(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in SQLITE_PRAGMAS:
        cursor.execute(pragma)
    cursor.close()
