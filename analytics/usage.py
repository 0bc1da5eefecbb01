"""What a process and all that it started have used: memory and processor time, as they went.

The system does not add it up: Java does not wait for the Python workers that it starts.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from analytics.repeating import repeating

TICKS = os.sysconf("SC_CLK_TCK")
INTERVAL_S = 0.25
USER, SYSTEM = 11, 12  # fields behind the name in /proc/PID/stat


class Used(NamedTuple):
    """MiB held at most, and seconds of processor time."""

    memory_mib: float
    cpu_s: float


class Usage:
    """Measures a process and its descendants on each call; Linux only, else nothing."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._processes: dict[int, Used] = {}

    def look(self) -> None:
        """Take in what they have used by now; what ends between two looks is missed."""
        self._look(self._pid)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look several times a second, by a thread of its own."""
        with repeating(self.look, INTERVAL_S, "usage"):
            yield

    def total(self) -> Used:
        """The sum of what each has used at most, which is at least what was held at once."""
        return Used(
            sum(each.memory_mib for each in self._processes.values()),
            sum(each.cpu_s for each in self._processes.values()),
        )

    def _look(self, pid: int) -> None:
        process = Path(f"/proc/{pid}")
        try:
            status = (process / "status").read_text()
            numbers = (process / "stat").read_text().rpartition(")")[2].split()
            tasks = list((process / "task").iterdir())
            children = [
                child for task in tasks for child in (task / "children").read_text().split()
            ]
        except OSError:  # it has just ended
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                ticks = int(numbers[USER]) + int(numbers[SYSTEM])
                self._processes[pid] = Used(int(line.split()[1]) / 1024, ticks / TICKS)
        for child in children:
            self._look(int(child))
