"""One directory, one broker: whichever of the two kinds it is, and however it locks."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.errors import Busy
from engine.store.files import OsFiles
from tests.engine.store.parts import Bench

# What Java's FileChannel.tryLock(0, 1, false) does.
RECORD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
except OSError:
    print("refused", flush=True)
else:
    print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def record_lock(path: Path) -> Iterator[str]:
    """Another process that asks for the lock, and keeps it if it gets it; its answer."""
    process = subprocess.Popen(
        [sys.executable, "-c", RECORD_LOCK, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def test_a_directory_that_a_rocketmq_broker_has_open_is_refused(bench: Bench) -> None:
    bench.open()
    bench.store.stop()
    with record_lock(bench.root / "lock") as answer:
        assert answer == "locked"
        with pytest.raises(Busy, match="another process uses"):
            bench.open()
    bench.open()


def test_a_rocketmq_broker_is_refused_a_directory_that_is_open(bench: Bench) -> None:
    bench.open()
    with record_lock(bench.root / "lock") as answer:
        assert answer == "refused"
    bench.store.stop()
    with record_lock(bench.root / "lock") as answer:
        assert answer == "locked"


def test_a_second_start_in_the_same_process_does_not_lose_the_lock_of_the_first(
    bench: Bench,
) -> None:
    bench.open()
    assert OsFiles().lock(bench.root / "lock") is None
    with record_lock(bench.root / "lock") as answer:
        assert answer == "refused"
