"""Connections to SQLite with write-ahead logging, and read-only ones on a full disk.

Opening a database in WAL mode needs a few pages of disk for shared memory. On a full disk the
database is opened read-only without them, if its write-ahead log is empty: users and tokens stay
known. Such a connection is used once, so that writing resumes as soon as there is room.
"""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

BUSY_TIMEOUT_MS = 5000
PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA foreign_keys=ON",
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
)
NO_ROOM = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN})
PRIMARY_CODE = 0xFF
STOPGAP = "is_stopgap"


def connect_sqlite(dialect: Any, record: Any, arguments: Any, options: Any) -> Any:
    """A connection, for SQLAlchemy's event `do_connect`."""
    connection = dialect.connect(*arguments, **options)
    try:
        for pragma in PRAGMAS:
            connection.execute(pragma)
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        code = getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE
        if code not in NO_ROOM or not _is_all_in(Path(arguments[0])):
            raise
        record.info[STOPGAP] = True
        return sqlite3.connect(
            f"file:{quote(str(arguments[0]))}?immutable=1", uri=True, check_same_thread=False
        )
    except BaseException:
        connection.close()
        raise
    record.info.pop(STOPGAP, None)
    return connection


def leave_stopgap(_connection: object, record: Any) -> None:
    """Discard a read-only connection after use; for SQLAlchemy's event `checkin`."""
    if record.info.get(STOPGAP):
        record.invalidate(soft=True)


def _is_all_in(path: Path) -> bool:
    """Whether the file exists and its write-ahead log is empty."""
    with suppress(OSError):
        log = path.with_name(f"{path.name}-wal")
        return path.stat().st_size > 0 and not (log.exists() and log.stat().st_size)
    return False
