"""Checks whether there are users before SQLAlchemy is loaded.

A server without users must be ready at once, so the default database is read by sqlite3 alone. For
other databases, or if that fails, the result is None and the caller opens the database.
"""

import sqlite3
from contextlib import closing

from app.db.sqlite_file import knows_users, read_only, sqlite_file


def has_users(url: str) -> bool | None:
    """Whether the database at `url` has users; None if unknown without opening it."""
    path = sqlite_file(url)
    if path is None:
        return None
    if not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(read_only(path), uri=True)) as database:
            return knows_users(database)
    except sqlite3.Error:
        return None
