"""Whether there are users, found out before SQLAlchemy is loaded.

A server without users must be ready at once, so the default database is looked into by sqlite3
alone. For any other, and for what cannot be read that way, the answer is None: look properly.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

SQLITE = "sqlite:///"


def has_users(url: str) -> bool | None:
    """Whether the database at `url` holds a user; None where only opening it can tell."""
    path = Path(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else None
    if path is None or "?" in url or str(path) in (".", ":memory:"):
        return None
    if not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            tables = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'users'")
            if tables.fetchone() is None:
                return False
            return database.execute("SELECT 1 FROM users LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return None
