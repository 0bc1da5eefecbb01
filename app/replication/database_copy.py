"""The copy of its leader's SQLite database that a standby keeps, and how it gets there.

It travels whole, as often as the leader's has changed, in pieces with CRCs. With it, in a table of
its own, go files without which a part of it is worth nothing: the key from which the secrets of
RocketMQ's access keys are made. A standby keeps all that in the file `leader.db` beside its own
database, until it leads: see `adoption`.
"""

import hashlib
import logging
import os
import sqlite3
import threading
import time
import zlib
from contextlib import closing
from io import BufferedReader
from pathlib import Path

import msgspec

from app.atomic_files import sync_folder
from app.db.sqlite_file import read_only
from app.private_data import FILE_MODE, LEADER_COPY

log = logging.getLogger("kitemq.replication")

PIECE_BYTES = 64 * 1024
LOOK_S = 2.0  # between two looks whether the database has changed
SHARE = 10  # a copy takes at most one part in so many of the time
RETRY_S = 30.0  # after a copy that could not be made
CARRIED = ("access_keys.key",)  # files of the data directory
CREATE_CARRIED = "CREATE TABLE carried_files (name TEXT PRIMARY KEY, content BLOB NOT NULL)"
COMPANIONS = ("-wal", "-shm", "-journal")  # what SQLite has beside a database
UNFINISHED = ".out"  # a copy that is being made
BUSY_S = 5.0


def companions(path: Path) -> list[Path]:
    """The files that SQLite may have beside a database."""
    return [path.with_name(path.name + suffix) for suffix in COMPANIONS]


class DatabasePiece(msgspec.Struct, frozen=True, tag="database", array_like=True):
    """Bytes of a copy of the leader's database, from `at` on; the digest is that of all of it."""

    at: int
    data: bytes
    crc: int
    is_last: bool
    digest: str


class DatabaseFeed:
    """Gives one standby copies of a database; `close` it. Both may wait for the disk.

    What a process that is killed meanwhile leaves behind is for `remove_unfinished`.
    """

    def __init__(self, database: Path, data: Path, digest: str) -> None:
        """`digest` is that of the copy that the standby has, "" of none."""
        self._database, self._data, self._given = database, data, digest
        self._source: sqlite3.Connection | None = None
        self._version = -1  # of the database, as it was copied last
        self._copy: BufferedReader | None = None  # under way, and its digest and size
        self._digest, self._size_bytes = "", 0
        self._due_s = 0.0
        self._failure = ""
        self._using = threading.Lock()  # a call may go on when nobody waits for it any more

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask for a piece."""
        return self._copy is not None or time.monotonic() >= self._due_s

    def next(self) -> DatabasePiece | None:
        """The next piece, at the end of one copy of another; None where nothing has changed."""
        with self._using:
            if self._copy is None:
                self._begin()
            return None if self._copy is None else self._piece(self._copy)

    def close(self) -> None:
        """Let go of the files."""
        with self._using:
            if self._copy is not None:
                self._copy.close()
            if self._source is not None:
                self._source.close()

    def _piece(self, copy: BufferedReader) -> DatabasePiece:
        at = copy.tell()
        data = copy.read(PIECE_BYTES)
        is_last = at + len(data) == self._size_bytes
        if is_last:
            copy.close()
            self._copy, self._given = None, self._digest
        return DatabasePiece(at, data, zlib.crc32(data), is_last, self._digest)

    def _begin(self) -> None:
        """Make a copy where the database has changed; one that fails is tried again later."""
        began_s = time.monotonic()
        try:
            self._make()
            self._failure = ""
        except (sqlite3.Error, OSError) as error:
            if str(error) != self._failure:
                log.warning("the database cannot be copied for standbys: %s", error)
            self._failure = str(error)
            self._due_s = began_s + RETRY_S
            return
        ended_s = time.monotonic()
        self._due_s = ended_s + max(LOOK_S, SHARE * (ended_s - began_s))

    def _make(self) -> None:
        if self._source is None:
            if not self._database.exists():
                return
            address = read_only(self._database)
            self._source = sqlite3.connect(
                address, BUSY_S, isolation_level=None, check_same_thread=False, uri=True
            )
        (version,) = self._source.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return
        copy = self._copied(self._source)
        self._version = version
        digest = hashlib.file_digest(copy, "sha256").hexdigest()
        if digest == self._given:
            copy.close()
            return
        self._digest, self._size_bytes = digest, copy.tell()
        copy.seek(0)
        self._copy = copy

    def _copied(self, source: sqlite3.Connection) -> BufferedReader:
        """A file without a name that holds the database as it is now, in one piece."""
        path = self._database.with_name(f"{self._database.name}.{id(self)}{UNFINISHED}")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
        try:
            with closing(sqlite3.connect(path)) as target:
                target.execute("PRAGMA synchronous=OFF")  # nobody opens it again
                source.backup(target)
                self._carry_files(target)
                target.execute("PRAGMA journal_mode=DELETE")  # no second file belongs to it
            return path.open("rb")
        finally:
            for each in (path, *companions(path)):
                each.unlink(missing_ok=True)

    def _carry_files(self, target: sqlite3.Connection) -> None:
        files = [self._data / name for name in CARRIED]
        found = [(each.name, each.read_bytes()) for each in files if each.exists()]
        with target:
            target.execute(CREATE_CARRIED)
            target.executemany("INSERT INTO carried_files VALUES (?, ?)", found)


def remove_unfinished(database: Path) -> None:
    """Remove copies that were being made as a process was killed; before there is a feed."""
    for each in database.parent.glob(f"{database.name}.*{UNFINISHED}*"):
        each.unlink(missing_ok=True)


class DatabaseCopy:
    """A standby's side of it; everything may wait for the disk."""

    def __init__(self, data: Path) -> None:
        self._path = data / LEADER_COPY
        self._part = data / f"{LEADER_COPY}.part"
        self._size_bytes = 0  # of the part

    def digest(self) -> str:
        """What the leader knows the copy by; "" where there is none."""
        try:
            with self._path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return ""

    def copied_ms(self) -> int | None:
        """When it came; None where there is none."""
        try:
            return int(self._path.stat().st_mtime * 1000)
        except FileNotFoundError:
            return None

    def take(self, piece: DatabasePiece) -> None:
        """Add a piece; the last one completes the copy. ConnectionAbortedError for a wrong one."""
        if piece.at not in (0, self._size_bytes) or zlib.crc32(piece.data) != piece.crc:
            raise ConnectionAbortedError(f"the leader's database was damaged at {piece.at}")
        flags = os.O_CREAT | os.O_WRONLY | (0 if piece.at else os.O_TRUNC)
        with os.fdopen(os.open(self._part, flags, FILE_MODE), "wb") as file:
            file.seek(piece.at)
            file.write(piece.data)
            if piece.is_last:
                file.flush()
                os.fsync(file.fileno())
        self._size_bytes = piece.at + len(piece.data)
        if piece.is_last:
            self._complete(piece.digest)

    def _complete(self, digest: str) -> None:
        with self._part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            raise ConnectionAbortedError("the leader's database was damaged on the way")
        is_first = not self._path.exists()
        self._part.replace(self._path)
        sync_folder(self._path.parent)
        if is_first:
            log.info("the leader's database is copied, %d bytes", self._size_bytes)
