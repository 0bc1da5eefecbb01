"""The database: both ways to its schema lead to the same one, and it goes up and down."""

import time
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from app.db.database import open_engine
from app.db.migrate import current_revision, ensure_schema, migrate
from app.db.tables import HEAD, audit, metadata

MIGRATIONS = Path(__file__).parents[2] / "migrations"


def sqlite(path: Path) -> str:
    return f"sqlite:///{path / 'kitemq.db'}"


def differences(connection: Connection) -> list[object]:
    options = {"compare_type": True, "compare_server_default": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def shape(connection: Connection) -> object:
    found = inspect(connection)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)],
            sorted(str(index["name"]) for index in found.get_indexes(table)),
            found.get_pk_constraint(table),
        )
        for table in found.get_table_names()
    }


def test_a_new_database_has_the_schema_that_the_migrations_make(tmp_path: Path) -> None:
    fresh = open_engine(sqlite(tmp_path / "fresh"))
    (tmp_path / "migrated").mkdir()
    migrated = create_engine(sqlite(tmp_path / "migrated"))
    migrate(migrated, "head")
    with fresh.connect() as one, migrated.connect() as other:
        assert shape(one) == shape(other)
        assert current_revision(one) == current_revision(other) == HEAD
        assert differences(one) == differences(other) == []
    fresh.dispose()
    migrated.dispose()


def test_the_tables_stand_for_the_newest_revision() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


def test_every_migration_goes_down_and_up_again(tmp_path: Path) -> None:
    engine = open_engine(sqlite(tmp_path))
    migrate(engine, "base")
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
    ensure_schema(engine)
    with engine.connect() as connection:
        assert differences(connection) == []
    engine.dispose()


def test_opening_a_database_again_keeps_its_rows(tmp_path: Path) -> None:
    for count in (1, 2):
        engine = open_engine(sqlite(tmp_path))
        with engine.begin() as connection:
            values = dict.fromkeys((c.name for c in audit.c if c.name not in ("id", "at_ms")), "x")
            connection.execute(audit.insert().values(at_ms=time.time_ns() // 10**6, **values))
            assert connection.execute(text("SELECT count(*) FROM audit")).scalar() == count
        engine.dispose()


@pytest.mark.parametrize(("pragma", "value"), [("journal_mode", "wal"), ("foreign_keys", 1)])
def test_sqlite_is_set_up_for_readers_beside_a_writer(
    tmp_path: Path, pragma: str, value: object
) -> None:
    engine = open_engine(sqlite(tmp_path))
    with engine.connect() as connection:
        assert connection.execute(text(f"PRAGMA {pragma}")).scalar() == value
    engine.dispose()
