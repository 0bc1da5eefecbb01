"""A standby keeps a copy of its leader's SQLite database, which is its own once it leads."""

import asyncio
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.private_data import LEADER_COPY as COPY
from app.replication import database_copy
from app.replication.adoption import adopt_copy
from app.replication.database_copy import (
    DatabaseCopy,
    DatabaseFeed,
    DatabasePiece,
    remove_unfinished,
)
from app.security.access_keys import KEY_FILE
from engine.errors import Corrupt, EngineError
from engine.replication.pieces import EMPTY_STATE
from tests.app.replication.conftest import Leader, Opened
from tests.app.replication.test_follower import caught_up, following, until
from tests.app.replication.test_handover import hand_over, in_step

pytestmark = pytest.mark.anyio
USERS = "SELECT name FROM users ORDER BY name"


def rows(path: Path, question: str = USERS) -> list[Any]:
    """What a database says; nothing where it does not know the table."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return [row[0] for row in database.execute(question)]
    except sqlite3.Error:
        return []


def rename(database: Path, name: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE users SET name = ?", (name,))


async def add_user(leader: Leader, name: str) -> None:
    await leader.app.services.accounts.bootstrap(name, "a long enough password")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for changes all the time."""
    monkeypatch.setattr(database_copy, "LOOK_S", 0.01)
    monkeypatch.setattr(database_copy, "SHARE", 0)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """Makes a database with some numbers."""

    def make(name: str, *numbers: int) -> Path:
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER)")
            database.executemany("INSERT INTO numbers VALUES (?)", [(each,) for each in numbers])
        return path

    return make


def people(database: Path, *names: str) -> None:
    """Make users with tokens."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name)")
        connection.execute("CREATE TABLE tokens (id INTEGER PRIMARY KEY, user_id, name)")
        for name in names:
            user_id = connection.execute("INSERT INTO users (name) VALUES (?)", (name,)).lastrowid
            connection.execute("INSERT INTO tokens (user_id, name) VALUES (?, ?)", (user_id, name))


def pieces(feed: DatabaseFeed) -> Iterator[DatabasePiece]:
    while (piece := feed.next()) is not None:
        yield piece


async def test_a_standby_has_its_leaders_users_and_soon_what_changes(
    opened: Opened, tmp_path: Path, often: None
) -> None:
    copy = tmp_path / "standby" / COPY
    async with opened() as leader:
        await add_user(leader, "ada")
        async with following(leader, tmp_path) as standby:
            await until(lambda: rows(copy) == ["ada"])
            state = standby.app.services.following
            copied_ms = await until(lambda: state.database_copied_ms)
            assert (await standby.get("/replication"))["database_copied_ms"] == copied_ms
            dialog = await standby.http.get("/engine/promotion")
            assert "become the leader" in dialog.text
            leader.send(b"one")
            await caught_up(leader, standby)
            rename(tmp_path / "leader" / "kitemq.db", "eve")
            await until(lambda: rows(copy) == ["eve"])
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [each.name for each in (tmp_path / "leader").glob("*.out*")] == []


async def test_a_standby_with_a_database_elsewhere_takes_no_copy(
    opened: Opened, tmp_path: Path, often: None
) -> None:
    url = f"sqlite:///{tmp_path / 'own.db'}"
    async with opened() as leader:
        await add_user(leader, "ada")
        async with following(leader, tmp_path, database_url=url) as standby:
            leader.send(b"one")
            await caught_up(leader, standby)
            await asyncio.sleep(0.3)  # many looks
            assert standby.app.services.following.database_copied_ms is None
    assert not (tmp_path / "standby" / COPY).exists()


async def test_an_order_to_take_over_comes_after_the_newest_copy(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_copy, "LOOK_S", 3600.0)
    async with opened() as leader, in_step(leader, tmp_path):
        with closing(sqlite3.connect(tmp_path / "leader" / "kitemq.db")) as database, database:
            database.execute("CREATE TABLE newest (name)")
            database.execute("INSERT INTO newest VALUES ('ada')")
        assert (await hand_over(leader)).status_code == 200
        assert rows(tmp_path / "standby" / COPY, "SELECT name FROM newest") == ["ada"]


async def test_a_standby_that_says_nothing_of_a_database_is_given_none(
    opened: Opened, tmp_path: Path, often: None
) -> None:
    async with opened() as leader:
        await add_user(leader, "ada")
        size_bytes = leader.app.services.settings.segment_bytes
        for wish, expected in ((None, set()), ("", {"DatabasePiece"})):
            link, kinds = await leader.link(), set()
            link.begin(replace(EMPTY_STATE, segment_bytes=size_bytes, database=wish))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    while True:
                        kinds.add(type((await link.next())[1]).__name__)
            link.close()
            assert "ReplicaCut" in kinds
            assert kinds & {"DatabasePiece"} == expected


def test_a_copy_is_what_the_database_was_at_one_moment(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    database = made("kitemq.db", *range(50_000))  # several pieces
    feed, copy = DatabaseFeed(database, tmp_path, ""), DatabaseCopy(tmp_path)
    first = feed.next()
    assert first is not None
    copy.take(first)
    made("kitemq.db", -1)  # while it is on its way
    for piece in pieces(feed):
        copy.take(piece)
        if piece.is_last:
            break
    assert rows(tmp_path / COPY, "SELECT count(*) FROM numbers") == [50_000]
    for piece in pieces(feed):  # there is another one
        copy.take(piece)
    assert rows(tmp_path / COPY, "SELECT min(number) FROM numbers") == [-1]
    assert feed.next() is None
    feed.close()
    again = DatabaseFeed(database, tmp_path, copy.digest())
    assert again.next() is None
    again.close()
    left = {each.name for each in tmp_path.iterdir()}
    assert left - {"kitemq.db-wal", "kitemq.db-shm"} == {"kitemq.db", COPY}


def test_a_damaged_or_missing_piece_keeps_the_copy_that_there_is(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    feed, copy = (
        DatabaseFeed(made("kitemq.db", *range(50_000)), tmp_path, ""),
        DatabaseCopy(tmp_path),
    )
    for piece in pieces(feed):
        copy.take(piece)
    before = copy.digest()
    made("kitemq.db", -1)
    first, second, third, *rest = pieces(feed)
    feed.close()
    for wrong in (
        replace(second, data=second.data[:-1] + b"?"),
        third,
        replace(rest[-1], at=second.at, data=b"", crc=zlib.crc32(b"")),
    ):
        copy.take(first)
        with pytest.raises(ConnectionAbortedError, match="damaged"):
            copy.take(wrong)
    assert copy.digest() == before
    with pytest.raises(ConnectionAbortedError):  # the process was started anew meanwhile
        DatabaseCopy(tmp_path).take(second)


def test_a_database_that_cannot_be_copied_is_tried_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = tmp_path / "kitemq.db"
    feed = DatabaseFeed(database, tmp_path, "")
    assert feed.next() is None  # nobody has made it yet
    database.write_bytes(b"no database" * 100)
    assert feed.next() is None
    assert not feed.is_due
    assert feed.next() is None
    assert caplog.text.count("cannot be copied for standbys: file is not a database") == 1
    database.unlink()
    with closing(sqlite3.connect(database)) as made:
        made.execute("CREATE TABLE users (name)")
    feed.close()


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    database = tmp_path / "kitemq.db"
    left = [tmp_path / f"kitemq.db.140.out{end}" for end in ("", "-journal")]
    for each in (database, *left):
        each.touch()
    remove_unfinished(database)
    assert list(tmp_path.iterdir()) == [database]


@pytest.mark.parametrize("is_broken_off", [False, True])
def test_a_leader_takes_the_copy_adds_its_own_audit_trail_and_keeps_its_database(
    made: Callable[..., Path], tmp_path: Path, is_broken_off: bool
) -> None:
    own, copy = made("kitemq.db", 1), made(COPY, 2)
    trail = "CREATE TABLE audit (id INTEGER PRIMARY KEY, at_ms INTEGER, action TEXT{})"
    trails = (
        (own, "", [(1, "shared"), (3, "promote")]),
        (copy, ", new", [(1, "shared"), (2, "user")]),
    )
    for path, more, entries in trails:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(trail.format(more))
            database.executemany("INSERT INTO audit (at_ms, action) VALUES (?, ?)", entries)
    if is_broken_off:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "replace", _refuse_copy(Path.replace))
            with pytest.raises(EngineError):
                adopt_copy(tmp_path, own, 6)
        assert not own.exists()
    part = tmp_path / f"{COPY}.part"
    part.touch()
    adopt_copy(tmp_path, own, 7)
    assert not part.exists()
    assert rows(own, "SELECT number FROM numbers") == [2]
    assert rows(own, "SELECT action FROM audit ORDER BY id") == ["shared", "user", "promote"]
    (kept,) = (tmp_path / "set-aside").iterdir()
    assert kept.name == f"kitemq-{6 if is_broken_off else 7}.db"
    assert rows(kept, "SELECT number FROM numbers") == [1]
    assert not copy.exists()
    adopt_copy(tmp_path, own, 8)  # there is nothing to do
    assert rows(own, "SELECT number FROM numbers") == [2]


def _refuse_copy(replace: Callable[..., Any]) -> Callable[..., Any]:
    def refusing(self: Path, target: Path) -> Any:
        if self.name == COPY:
            raise OSError("the disk is gone")
        return replace(self, target)

    return refusing


@pytest.mark.parametrize("names", [("ada",), ()])
def test_users_and_the_key_of_access_keys_are_the_leaders_where_it_has_users(
    made: Callable[..., Path], tmp_path: Path, names: tuple[str, ...]
) -> None:
    leader, standby = tmp_path / "leader", tmp_path / "standby"
    for folder, key in ((leader, b"l" * 32), (standby, b"s" * 32)):
        folder.mkdir()
        (folder / KEY_FILE).write_bytes(key)
    database = made("kitemq.db", 1)
    people(database, *names)
    feed, copy = DatabaseFeed(database, leader, ""), DatabaseCopy(standby)
    for piece in pieces(feed):
        copy.take(piece)
    feed.close()
    own = standby / "kitemq.db"
    people(own, "eve", "max")
    adopt_copy(standby, own, 7)
    kept = standby / "set-aside" / f"kitemq-7.{KEY_FILE}"
    expected = list(names or ("eve", "max"))
    assert rows(own) == expected
    assert rows(own, "SELECT t.name FROM tokens t JOIN users u ON u.id = user_id") == expected
    assert (standby / KEY_FILE).read_bytes() == (b"l" if names else b"s") * 32
    assert kept.exists() == bool(names)
    if names:
        assert kept.read_bytes() == b"s" * 32
        assert stat.S_IMODE((standby / KEY_FILE).stat().st_mode) == 0o600
    assert rows(own, "SELECT name FROM sqlite_master WHERE name LIKE 'carried%'") == []


def test_a_copy_that_cannot_be_read_is_named_and_nothing_is_replaced(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    own = made("kitemq.db", 1)
    (tmp_path / COPY).write_bytes(b"no database" * 100)
    with pytest.raises(Corrupt, match=COPY) as refused:
        adopt_copy(tmp_path, own, 7)
    assert "move it away" in refused.value.remedy
    assert rows(own, "SELECT number FROM numbers") == [1]


def test_a_database_elsewhere_is_not_replaced(
    made: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = made(COPY, 2)
    adopt_copy(tmp_path, None, 7)
    assert copy.exists()
    assert "database_url" in caplog.text


def test_a_damaged_own_database_is_kept_and_the_copy_used(
    made: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made(COPY, 2)
    own = tmp_path / "kitemq.db"
    own.write_bytes(b"no database" * 100)
    adopt_copy(tmp_path, own, 7)
    assert rows(own, "SELECT number FROM numbers") == [2]
    assert (tmp_path / "set-aside" / "kitemq-7.db").read_bytes() == b"no database" * 100
    assert "is not taken over" in caplog.text
