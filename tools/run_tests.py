"""Runs pytest in several workers, and what failed there once more, alone.

Beside neighbours that take both cores a client may miss a time limit that it keeps alone. A test
that fails twice fails the run; one that passes alone is named at the end, for it has a race or too
short a limit. More than MOST_AGAIN failures are no accident: nothing is repeated then.

Temporary files lie in memory where there is enough of it: a broker that starts and stops waits for
the disk a dozen times, which takes longer than most tests. TMPDIR names another place.

    python -m tools.run_tests WORKERS [arguments of pytest ...]
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_AGAIN = 8
# pytest's exit status where tests ran and some failed; others mean a broken run.
TESTS_FAILED = 1
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
# Workers append the number of a test's xdist_group to its name; one process does not know it so.
GROUP = re.compile(r"@\d+(_\w+)?$")
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system of Linux without a disk
MEMORY_BYTES_MIN = 4 * 2**30  # the whole run needs some hundred MiB


def run(workers: str, arguments: list[str]) -> int:
    """Run the tests that the arguments choose; return pytest's exit status."""
    status = _pytest("-n", workers, "--dist", "loadgroup", "--no-loadscope-reorder", *arguments)
    if status != TESTS_FAILED:
        return status
    failed = sorted(
        GROUP.sub("", name) for name in json.loads(LAST_FAILED.read_text(encoding="utf-8"))
    )
    if len(failed) > MOST_AGAIN:
        return status
    print(f"\n{len(failed)} failed; once more, alone:", *failed, sep="\n  ", flush=True)
    LAST_FAILED.write_text(json.dumps(dict.fromkeys(failed, True)), encoding="utf-8")
    appended = ["--cov-append"] if "--cov" in arguments else []
    status = _pytest("--last-failed", *arguments, *appended)
    if status == 0:
        print("\nFLAKY, passed only alone; to be mended:", *failed, sep="\n  ", flush=True)
    return status


@contextmanager
def files_in_memory() -> Iterator[None]:
    """Let TMPDIR lead to a folder in memory for this time, unless it leads elsewhere already."""
    if "TMPDIR" in os.environ or not _has_room(MEMORY):
        yield
        return
    with tempfile.TemporaryDirectory(
        prefix="kitemq-", dir=MEMORY, ignore_cleanup_errors=True
    ) as folder:
        os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            del os.environ["TMPDIR"]


def _has_room(folder: Path) -> bool:
    """Whether the folder has the bytes, and code in it may run (Spark unpacks some)."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return False
    is_large = system.f_bavail * system.f_frsize >= MEMORY_BYTES_MIN
    return is_large and not system.f_flag & os.ST_NOEXEC


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    with files_in_memory():
        status = run(sys.argv[1], sys.argv[2:])
    sys.exit(status)
