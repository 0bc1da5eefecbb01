"""SQLite's files, and what sqlite3 alone says of them. Nothing here loads SQLAlchemy."""

import sqlite3
from pathlib import Path
from urllib.parse import quote

SQLITE = "sqlite:///"


def sqlite_file(url: str) -> Path | None:
    """The file of SQLite's at `url`; None for another database, one in memory, or with options."""
    path = Path(url.removeprefix(SQLITE))
    is_file = url.startswith(SQLITE) and "?" not in url and str(path) not in (".", ":memory:")
    return path if is_file else None


def read_only(path: Path) -> str:
    """The URI by which sqlite3 opens a database that is there, to read it."""
    return f"file:{quote(str(path))}?mode=ro"


def columns(database: sqlite3.Connection, table: str, schema: str = "main") -> set[str]:
    """The names of a table's columns; none where there is no such table."""
    return {name for _, name, *_ in database.execute(f"PRAGMA {schema}.table_info({table})")}


def knows_users(database: sqlite3.Connection, schema: str = "main") -> bool:
    """Whether there is a user."""
    if not columns(database, "users", schema):
        return False
    found = database.execute(f"SELECT 1 FROM {schema}.users LIMIT 1")  # noqa: S608 - ours
    return found.fetchone() is not None
