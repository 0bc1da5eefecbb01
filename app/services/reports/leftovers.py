"""Finds processes and folders of runs whose server was killed.

Every process of a run carries a mark in its environment, which all its children inherit: Java
machines, Spark's Python workers (which have a process group of their own, and outlive Java). So the
next server over the same data finds them too.
"""

import os
import shutil
import signal
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

MARK = "KITEMQ_REPORTS_OF"
PROC = Path("/proc")
GONE_S = 5.0  # for the kernel to remove killed processes
ENDED = ("Z", "X")  # states of a process whose parent has not yet waited for it
START_FIELD = 19  # of /proc/<pid>/stat behind the name: when the process started


def mark_of(data: Path) -> str:
    """The mark of the processes of runs over a data directory."""
    return sha256(str(data.resolve()).encode()).hexdigest()[:32]


def marked(mark: str) -> list[int]:
    """Processes that carry the mark and still run."""
    variable = f"{MARK}={mark}".encode()
    pids = []
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or belongs to another user
            if variable in (folder / "environ").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
    return pids


def end_marked(mark: str) -> int:
    """Kill every process that carries the mark, and wait until none does; how many there were."""
    ended: set[int] = set()
    until_s = time.monotonic() + GONE_S
    while (pids := marked(mark)) and time.monotonic() < until_s:
        ended.update(pids)
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return len(ended)


def remove_folders(spark: Path, reports: Path) -> int:
    """Remove the folders of runs, and those that Spark made for processes that are no more."""
    removed = sweep(spark)
    for folder in reports.glob("run-*"):
        shutil.rmtree(folder, ignore_errors=True)
        removed += 1
    return removed


def sweep(spark: Path) -> int:
    """Remove the folders that were made for processes that are no more; how many."""
    removed = 0
    for folder in spark.glob("run-*"):
        parts = folder.name.removeprefix("run-").split("-")
        if len(parts) == 3 and parts[0].isdecimal() and _started(int(parts[0])) != parts[1]:
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _started(pid: int) -> str:
    """A process's start in the kernel's ticks; "" if there is none.

    A zombie counts as none.
    """
    try:
        status = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in ENDED else fields[START_FIELD]
