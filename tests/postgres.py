"""A PostgreSQL of the tests' own: made in a temporary folder, reached by a socket, thrown away.

It never listens on a port, so it disturbs nobody's and nobody disturbs it. PostgreSQL refuses to
run as root; where the tests do, it runs as Debian's user `postgres`, or as nobody.
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

INSTALLED = Path("/usr/lib/postgresql")  # where Debian puts each version's programs
USER = "kitemq"
PASSWORD = "only-for-tests"
LIMIT_S = 60.0
# Without rounds of its own: an analysis that happens to run keeps deleted rows from VACUUM FULL,
# and a database is larger then than it needs to be.
CONFIG = """
autovacuum = off
listen_addresses = ''
unix_socket_directories = '{folder}'
fsync = off
full_page_writes = off
shared_buffers = 16MB
"""


def find_programs() -> Path | None:
    """The folder with `initdb` and `postgres`, of the newest version installed."""
    places = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    places += sorted(INSTALLED.glob("*/bin"), key=_version, reverse=True)
    whole = (p for p in places if (p / "initdb").exists() and (p / "postgres").exists())
    return next(whole, None)


def _version(programs: Path) -> int:
    name = programs.parent.name
    return int(name) if name.isdecimal() else 0


def _servant() -> str:
    """Whom PostgreSQL runs as where the tests are root's."""
    known = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


class Cluster:
    """A running PostgreSQL with one user, who has a password."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._owner = _servant() if os.geteuid() == 0 else None
        # Short, for the socket's sake, and where somebody else than root may go.
        place = "/tmp" if self._owner else None
        self.folder = Path(tempfile.mkdtemp(prefix="kitemq-postgres-", dir=place))
        if self._owner is not None:
            found = pwd.getpwnam(self._owner)
            os.chown(self.folder, found.pw_uid, found.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    def make(self) -> None:
        """Create the files of the cluster, and start it."""
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        data = self.folder / "data"
        said = self._run(
            "initdb",
            f"--pgdata={data}",
            f"--username={USER}",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )
        assert said.returncode == 0, said.stdout.decode(errors="replace")
        with (data / "postgresql.conf").open("a") as config:
            config.write(CONFIG.format(folder=self.folder))
        self.start()

    def start(self) -> None:
        """Start it, also after `kill`; returns once it lets one in."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data"],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                user=self._owner,
                group=self._owner,
                extra_groups=[] if self._owner else None,
            )
        limit_s = time.monotonic() + LIMIT_S
        while not self._answers():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < limit_s, self.log()
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once, as a crash would: every connection breaks."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(LIMIT_S)
            self._process = None

    def remove(self) -> None:
        """End it and delete its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a new, empty database, which is dropped afterwards."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}")
        try:
            yield f"postgresql+psycopg://{USER}:{PASSWORD}@/{name}?host={self.folder}"
        finally:
            if not self.is_running:
                self.start()
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._conninfo("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self._conninfo("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _conninfo(self, database: str) -> str:
        return f"host={self.folder} dbname={database} user={USER} password={PASSWORD}"

    def _run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [self._programs / program, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
            user=self._owner,
            group=self._owner,
            extra_groups=[] if self._owner else None,
        )


def running_postgres() -> Iterator[Cluster]:
    """One, for a fixture; skips where PostgreSQL is not installed."""
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (on Debian: apt-get install postgresql)")
    cluster = Cluster(programs)
    try:
        cluster.make()
        yield cluster
    finally:
        cluster.remove()
