"""A standby that leads now takes over the database of the leader before.

Its copy takes the place of the server's own, which is set aside: users, tokens, alert rules and the
audit trail are the leader's, and so is the key of RocketMQ's access keys. What the own audit trail
alone had, such as the promotion, is added. Where the leader had no users those of the server stay,
with its key: it may listen on an address where a server must have users.
"""

import logging
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from app.atomic_files import sync_folder
from app.db.sqlite_file import columns, knows_users
from app.private_data import DIRECTORY_MODE, LEADER_COPY, SET_ASIDE
from app.replication.database_copy import BUSY_S, companions
from app.security.private_files import write_private
from engine.errors import Corrupt, unusable

log = logging.getLogger("kitemq.replication")


def adopt_copy(data: Path, database: Path | None, now_ms: int) -> None:
    """Let the copy of the leader that was followed be the database of a server that leads now.

    Nothing happens where there is no copy. A start that is broken off here goes on at the next one.
    Raises Corrupt, or what `unusable` makes of an error of the system.
    """
    copy = data / LEADER_COPY
    if not copy.exists():
        return
    if database is None:
        log.warning(
            "%s, the database of the leader that was followed, is not used: the setting "
            "database_url names another one",
            copy,
        )
        return
    kept = data / SET_ASIDE / f"kitemq-{now_ms}.db"
    try:
        _replace(database, copy, kept)
    except OSError as error:
        raise unusable(data, error) from error
    except sqlite3.Error as error:
        raise Corrupt(
            f"{copy} cannot be read: {error}",
            field="data",
            remedy="move it away: the server's own database is used then",
        ) from error
    log.warning("the database is that of the leader that was followed")


def _replace(database: Path, copy: Path, kept: Path) -> None:
    kept.parent.mkdir(DIRECTORY_MODE, exist_ok=True)
    _take_files(copy, kept)
    if database.exists():
        _add_own(copy, database)
        for own in (*companions(database), database):  # its log must not stay beside the copy
            if own.exists():
                own.replace(kept.with_name(kept.name + own.name.removeprefix(database.name)))
        log.warning("this server's own database is kept: %s", kept)
    sync_folder(kept.parent)
    copy.with_name(f"{LEADER_COPY}.part").unlink(missing_ok=True)
    copy.replace(database)
    sync_folder(database.parent)


def _take_files(copy: Path, kept: Path) -> None:
    """Put the files that the copy carries into the data directory; what they replace is kept."""
    with closing(sqlite3.connect(copy, BUSY_S)) as database:
        if not columns(database, "carried_files"):
            return  # an earlier start was broken off behind this
        carried = database.execute("SELECT name, content FROM carried_files").fetchall()
        for name, content in carried if knows_users(database) else ():
            own = copy.with_name(name)
            if own.exists() and own.read_bytes() != content:
                own.replace(kept.with_suffix(f".{name}"))
            write_private(own, content)
        with database:
            database.execute("DROP TABLE carried_files")


def _add_own(copy: Path, own: Path) -> None:
    """Put what the own database alone has into the copy; one that cannot be read adds nothing."""
    try:
        with closing(sqlite3.connect(copy, BUSY_S)) as database:
            database.execute("ATTACH DATABASE ? AS own", (str(own),))
            with database:
                _add_rows(database, "audit", but=("id",))  # each counts its own
                if not knows_users(database) and knows_users(database, "own"):
                    for table in ("users", "tokens"):
                        _add_rows(database, table)
    except sqlite3.Error as error:
        log.warning("what %s alone has is not taken over: %s", own, error)


def _add_rows(database: sqlite3.Connection, table: str, but: Iterable[str] = ()) -> None:
    """Add the rows of the own table, as far as both know its columns, that the copy's has not."""
    shared = columns(database, table) & columns(database, table, "own") - set(but)
    if names := ", ".join(sorted(shared, key=lambda name: (name != "at_ms", name))):
        database.execute(
            f"INSERT INTO main.{table} ({names}) SELECT {names} FROM own.{table} "  # noqa: S608
            f"EXCEPT SELECT {names} FROM main.{table} ORDER BY 1"
        )
