"""Folders of single runs: made for one process, removed with it, and swept if it was killed.

The name holds the process's id and when it started, so that a folder whose owner is gone is known
although the id may be another process's by now.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

PREFIX = "run-"
ENDED = ("Z", "X")  # states of a process whose parent has not yet asked how it ended
START_FIELD = 19  # of /proc/<pid>/stat behind the name, which may hold spaces: start time


@contextmanager
def run_folder(parent: Path) -> Iterator[Path]:
    """An empty folder for this process, gone afterwards with all that is in it."""
    parent.mkdir(parents=True, exist_ok=True)
    sweep_runs(parent)
    pid = os.getpid()
    folder = Path(mkdtemp(prefix=f"{PREFIX}{pid}-{_started(pid)}-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_runs(parent: Path) -> int:
    """Remove the folders of processes that are no more; how many."""
    swept = 0
    for folder in parent.glob(f"{PREFIX}*"):
        parts = folder.name.removeprefix(PREFIX).split("-")
        is_known = len(parts) == 3 and parts[0].isdecimal()
        if is_known and _started(int(parts[0])) != parts[1]:
            shutil.rmtree(folder, ignore_errors=True)
            swept += 1
    return swept


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; "" where there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in ENDED else fields[START_FIELD]
