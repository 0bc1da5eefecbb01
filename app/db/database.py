"""Opens the database and migrates its schema; calls may wait for disk and network.

SQLite is the default (WAL, so that readers do not wait for a writer), PostgreSQL by its URL; its
connections are tested before each use, to survive a restart of its server. `worker.py` runs these
calls off the event loop.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.db.address import without_password
from app.db.alert_store import AlertStore
from app.db.audit_store import AuditStore
from app.db.cluster_job_store import ClusterJobStore
from app.db.lease_store import LeaseStore
from app.db.migrate import current_revision, ensure_schema
from app.db.replay_store import ReplayStore
from app.db.report_results import ResultStore
from app.db.report_store import ReportStore
from app.db.reset_store import ResetStore
from app.db.rows import DatabaseError
from app.db.sqlite import connect_sqlite, leave_stopgap
from app.db.star_and_note_store import StarAndNoteStore
from app.db.tables import HEAD
from app.db.template_store import TemplateStore
from app.db.user_store import UserStore
from app.db.view_store import ViewStore
from app.private_data import DIRECTORY_MODE, FILE_MODE

# Bounds waits, so that a lost network or a lock becomes an error. The URL's options precede.
POSTGRES = {
    "connect_timeout": "5",  # s
    "tcp_user_timeout": "10000",  # ms until what was sent and not acknowledged breaks a connection
    "options": "-c statement_timeout=15000 -c lock_timeout=5000",  # ms
    "application_name": "kitemq",
}


class Database:
    """An open database; each method is one transaction and raises DatabaseError."""

    def __init__(self, url: str) -> None:
        self._url = url
        with self._mapped():
            self._engine = open_engine(url)
        self.alerts = AlertStore(self._transaction)
        self.audit = AuditStore(self._transaction)
        self.stars_and_notes = StarAndNoteStore(self._transaction)
        self.users = UserStore(self._transaction)
        self.replays = ReplayStore(self._transaction)
        self.cluster_jobs = ClusterJobStore(self._transaction)
        self.resets = ResetStore(self._transaction)
        self.leases = LeaseStore(self._transaction)
        self.reports = ReportStore(self._transaction)
        self.results = ResultStore(self._transaction)
        self.views = ViewStore(self._transaction)
        self.templates = TemplateStore(self._transaction)

    def revision(self) -> tuple[str | None, str]:
        """The schema's revision, and the one that it should have."""
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
        """The driver's error as a DatabaseError, without statement, values and passwords."""
        try:
            yield
        except (SQLAlchemyError, OSError, ImportError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            text = without_password(str(cause), self._url)
            raise DatabaseError(f"{type(cause).__name__}: {text}") from None


def open_engine(url: str) -> Engine:
    """An engine for `url` with a migrated schema; it is closed if that fails."""
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
    """Create an empty database readable by its owner only; SQLite's other files get its mode."""
    path.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    if not path.exists() and not path.name.startswith("file:"):  # a URI names what exists
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def _with_limits(address: URL) -> URL:
    return address.set(drivername="postgresql+psycopg").update_query_dict(
        {name: value for name, value in POSTGRES.items() if name not in address.query}
    )
