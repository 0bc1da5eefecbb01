"""Migrates the schema at every start, quickly if it is current.

Alembic is loaded only for a database of an older version. A new, empty one gets the current tables
and their revision; a test compares both ways.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

from sqlalchemy import Connection, Engine, func, inspect, select, text

from app.db.report_tables import metadata
from app.db.tables import HEAD

log = logging.getLogger("kitemq.db")

VERSION_TABLE = "alembic_version"
SCHEMA_LOCK = 0x4B495445  # of PostgreSQL's advisory locks: "KITE"


def ensure_schema(engine: Engine) -> None:
    """Create the tables in an empty database, migrate those of an older version."""
    with _alone(engine):
        with engine.begin() as connection:
            revision = current_revision(connection)
            if revision == HEAD:
                return
            if revision is None and not inspect(connection).get_table_names():
                _create(connection)
                return
        log.info("migrating the database from revision %s to %s", revision or "none", HEAD)
        migrate(engine, "head")


@contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """Servers that share a PostgreSQL database and start together do this one after the other."""
    if engine.dialect.name != "postgresql":
        yield
        return
    with engine.begin() as connection:
        connection.execute(select(func.pg_advisory_xact_lock(SCHEMA_LOCK)))
        yield


def current_revision(connection: Connection) -> str | None:
    """The database's revision; None if it was never migrated."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return str(revision) if revision is not None else None


def migrate(engine: Engine, revision: str) -> None:
    """Run Alembic up or down to `revision` ("base" for none)."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("migrations")).replace("%", "%%"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        is_down = revision == "base" or revision.startswith("-") or revision in _older(connection)
        (command.downgrade if is_down else command.upgrade)(config, revision)


def _older(connection: Connection) -> set[str]:
    """The revisions before the one that the database has."""
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    now = MigrationContext.configure(connection).get_current_revision()
    if now is None:
        return set()
    script = ScriptDirectory(str(files("migrations")))
    return {each.revision for each in script.walk_revisions(head=now)} - {now}


def _create(connection: Connection) -> None:
    metadata.create_all(connection)
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(
        text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD}
    )
