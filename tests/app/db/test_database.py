"""The database, SQLite and PostgreSQL alike: ways to its schema, up and down, what it says."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier, Thread

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, inspect, text

from app.db.database import Database, open_engine
from app.db.migrate import current_revision, ensure_schema, migrate
from app.db.rows import AuditEntry, AuditFilter, DatabaseError, TemplateRow, UserRow
from app.db.tables import HEAD, audit, metadata
from engine.errors import Conflict
from tests.postgres import PASSWORD, Cluster

MIGRATIONS = Path(__file__).parents[3] / "migrations"
REVISIONS = [step.revision for step in ScriptDirectory(str(MIGRATIONS)).walk_revisions()][::-1]
WAIT_S = 30.0

both = pytest.mark.databases


@contextmanager
def opened(url: str, *, is_ready: bool = True) -> Iterator[Engine]:
    """The database at `url`, with its schema or as it is; closed at the end."""
    engine = open_engine(url) if is_ready else create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


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
            sorted(str(each["name"]) for each in found.get_unique_constraints(table)),
            sorted(str(each["name"]) for each in found.get_foreign_keys(table)),
        )
        for table in found.get_table_names()
    }


def entry(**changes: object) -> AuditEntry:
    names = ("actor", "action", "object_kind", "object_name", "before_json", "after_json")
    values = dict.fromkeys((*names, "result", "request_id"), "x")
    return AuditEntry(**{"at_ms": time.time_ns() // 10**6, **values, **changes})  # type: ignore[arg-type]


def insert_user(database: Database, **values: str) -> None:
    with database._transaction() as connection:
        connection.execute(metadata.tables["users"].insert().values(**values))


def user(name: str) -> UserRow:
    return UserRow(name=name, password_hash="x", role="admin", created_ms=1)


@both
def test_a_new_database_has_the_schema_that_the_migrations_make(url: str) -> None:
    with opened(url, is_ready=False) as engine:
        migrate(engine, "head")
        with engine.connect() as connection:
            migrated = shape(connection)
            assert current_revision(connection) == HEAD
            assert differences(connection) == []
        with engine.begin() as connection:
            metadata.drop_all(connection)
            connection.execute(text("DROP TABLE alembic_version"))
        ensure_schema(engine)
        with engine.connect() as connection:
            assert shape(connection) == migrated
            assert current_revision(connection) == HEAD
            assert differences(connection) == []


def test_the_tables_stand_for_the_newest_revision() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


@both
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_database_of_every_older_version_is_brought_up_and_keeps_its_rows(
    url: str, revision: str
) -> None:
    with opened(url, is_ready=False) as engine:
        migrate(engine, revision)
        with engine.begin() as connection:
            there = {column["name"] for column in inspect(connection).get_columns("audit")}
            values = dict.fromkeys(there - {"id", "at_ms"}, "x")
            connection.execute(audit.insert().values(at_ms=1, **values))
    with opened(url) as engine, engine.connect() as connection:
        assert current_revision(connection) == HEAD
        assert differences(connection) == []
        assert connection.execute(text("SELECT count(*) FROM audit")).scalar() == 1


@both
def test_every_migration_goes_down_and_up_again(url: str) -> None:
    with opened(url) as engine:
        for revision in [*REVISIONS[-2::-1], "base"]:
            migrate(engine, revision)
        with engine.connect() as connection:
            assert inspect(connection).get_table_names() == ["alembic_version"]
        ensure_schema(engine)
        with engine.connect() as connection:
            assert differences(connection) == []


@both
def test_opening_a_database_again_keeps_its_rows(url: str) -> None:
    for count in (1, 2):
        with closing(Database(url)) as database:
            database.audit.insert(entry())
            assert len(database.audit.find(AuditFilter(), 10, None)) == count


@pytest.mark.parametrize(("pragma", "value"), [("journal_mode", "wal"), ("foreign_keys", 1)])
def test_sqlite_is_set_up_for_readers_beside_a_writer(url: str, pragma: str, value: object) -> None:
    with opened(url) as engine, engine.connect() as connection:
        assert connection.execute(text(f"PRAGMA {pragma}")).scalar() == value


@both
def test_a_part_of_a_name_is_found_in_any_case_and_its_signs_mean_themselves(url: str) -> None:
    with closing(Database(url)) as database:
        for name in ("Orders_1", "orders-1", "100%", "1000"):
            database.audit.insert(entry(object_name=name))

        def found(part: str) -> list[str]:
            entries = database.audit.find(AuditFilter(name_part=part), 10, None)
            return sorted(each.object_name for each in entries)

        assert found("ORDERS") == ["Orders_1", "orders-1"]
        assert found("s_1") == ["Orders_1"]
        assert found("0%") == ["100%"]


@both
def test_a_sign_that_postgresql_cannot_keep_neither_stops_an_entry_nor_a_search(url: str) -> None:
    with closing(Database(url)) as database:
        database.audit.insert(entry(actor="mal\0lory", object_name="a\0b"))
        (kept,) = database.audit.find(AuditFilter(name_part="a\0"), 10, None)
        assert (kept.actor, kept.object_name) == ("mal\ufffdlory", "a\ufffdb")


@both
def test_numbers_of_64_bits_come_back_whole(url: str) -> None:
    with closing(Database(url)) as database:
        database.audit.insert(entry(at_ms=2**63 - 1))
        (kept,) = database.audit.find(AuditFilter(from_ms=2**62), 10, 2**63 - 1)
        assert kept.at_ms == 2**63 - 1


@both
def test_a_deleted_user_leaves_no_templates(url: str) -> None:
    row = TemplateRow(owner="ann", name="mine", topic="orders", fields_json="{}", created_ms=1)
    with closing(Database(url)) as database:
        for name in ("eve", "ann"):
            database.users.add_user(user(name), entry())
        database.templates.save(row, entry())
        assert [each.name for each in database.templates.of("ann")] == ["mine"]
        database.users.delete_user("ann", entry())
        assert database.templates.of("ann") == []


@both
def test_of_many_who_add_the_same_user_at_once_one_does(url: str) -> None:
    with closing(Database(url)) as database:
        database.users.add_user(user("zoe"), entry())
        database.users.add_user(user("eve"), entry())
        database.users.delete_user("zoe", entry())
    names = [f"user{number}" for number in range(4)]
    begin, ended = Barrier(len(names)), list[str]()

    def add(name: str) -> None:
        with closing(Database(url)) as database:
            begin.wait(WAIT_S)
            try:
                database.users.add_user(user("ann"), entry(actor=name))
            except Conflict as error:
                ended.append(error.code)
            else:
                ended.append("added")

    threads = [Thread(target=add, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(ended) == ["added", *["conflict"] * 3]
    with closing(Database(url)) as database:
        assert [each.name for each in database.users.load().users] == ["eve", "ann"]


# -- what it says when it fails -----------------------------------------------------------------


@both
def test_a_statement_that_fails_is_told_without_its_values(url: str) -> None:
    with closing(Database(url)) as database:
        database.users.add_user(user("ann"), entry())
        with pytest.raises(DatabaseError, match=r"role|constraint") as failed:
            insert_user(database, name="ann", password_hash="$argon2id$hash")
    assert "$argon2id$" not in str(failed.value)
    assert failed.value.__suppress_context__


def test_a_wrong_password_is_said_and_not_shown(postgres: Cluster) -> None:
    with postgres.database() as url:
        wrong = url.replace(f":{PASSWORD}@", ":Tr0ub%404dor@")
        with pytest.raises(DatabaseError, match="password authentication failed") as failed:
            Database(wrong)
    assert "Tr0ub" not in str(failed.value)
    assert failed.value.__suppress_context__


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ann:Tr0ub4dor@127.0.0.1:port/kitemq",
        "postgresql+psycopg://ann:Tr0ub4dor@127.0.0.1:1/kitemq?connect_timeout=2",
        "postgresql+psycopg://127.0.0.1:1/kitemq?user=ann&password=Tr0ub4dor",
        "postgresql+psycopg://127.0.0.1:1/kitemq?nonsense=Tr0ub4dor",
    ],
)
def test_an_address_that_does_not_work_is_told_in_one_line_without_its_password(url: str) -> None:
    with pytest.raises(DatabaseError) as failed:
        Database(url)
    said = str(failed.value)
    assert len(said) > 20
    assert "\n" not in said
    if "password" in url or "ann:" in url:
        assert "Tr0ub4dor" not in said


def test_limits_of_the_url_go_before_ours(postgres: Cluster) -> None:
    with postgres.database() as url:
        limited = f"{url}&options=-c%20statement_timeout%3D77"
        for address, limit in ((url, "15s"), (limited, "77ms")):
            with opened(address) as engine, engine.connect() as connection:
                assert connection.execute(text("SHOW statement_timeout")).scalar() == limit


def test_a_database_that_was_started_again_is_found_by_itself(postgres: Cluster) -> None:
    with postgres.database() as url, closing(Database(url)) as database:
        database.audit.insert(entry())
        postgres.kill()
        with pytest.raises(DatabaseError):
            database.audit.insert(entry())
        postgres.start()
        database.audit.insert(entry())
        assert len(database.audit.find(AuditFilter(), 10, None)) == 2
