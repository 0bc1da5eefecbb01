"""Returns freed memory to the system after many large requests.

glibc keeps freed memory between blocks that are still in use: hundreds of MiB after many large
requests. If resident memory has grown, `malloc_trim` is called on a thread. With another C library
nothing is done.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from app.tasks import end_tasks

EVERY_S = 5.0
GROWTH_BYTES = 24 * 1024 * 1024  # since the last call; less is not worth a call
LOOKS_AFTER = 4  # further calls, for memory that is freed later
STATM = Path("/proc/self/statm")


class MemoryTrimmer:
    """Checks every EVERY_S between `start` and `stop`."""

    def __init__(self) -> None:
        self._trim = _malloc_trim()
        self._after_bytes: int | None = None
        self._again = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._trim is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._trim))

    async def stop(self) -> None:
        await end_tasks(self._task)
        self._task = None

    async def _run(self, trim: Callable[[int], int]) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await asyncio.to_thread(self._look, trim)

    def _look(self, trim: Callable[[int], int]) -> None:
        """Return free memory if the process has grown; its size afterwards is the new baseline."""
        with suppress(OSError, ValueError):
            before_bytes = _resident_bytes()
            if self._after_bytes is None or before_bytes < self._after_bytes:
                self._after_bytes = before_bytes
            if before_bytes - self._after_bytes >= GROWTH_BYTES:
                self._again = LOOKS_AFTER
            if self._again:
                self._again -= 1
                trim(0)
                self._after_bytes = _resident_bytes()


def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; None where it or the process's size is not available."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    if not STATM.exists():
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    function: Callable[[int], int] = trim
    return function


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
