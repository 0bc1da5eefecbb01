"""Which file a database's URL means. Nothing here loads SQLAlchemy."""

from pathlib import Path

SQLITE = "sqlite:///"


def sqlite_file(url: str) -> Path | None:
    """The file of SQLite's at `url`; None for another database, one in memory, or with options."""
    path = Path(url.removeprefix(SQLITE))
    is_file = url.startswith(SQLITE) and "?" not in url and str(path) not in (".", ":memory:")
    return path if is_file else None
