"""Gives memory back to the system that many large requests have left behind.

The C library keeps what was freed between pieces that are still used: after a flood of large
requests, hundreds of MiB. Where the resident memory has grown since the last time, it is told to
return them, on a thread of its own. Elsewhere than with glibc nothing is done.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

EVERY_S = 5.0
GROWTH_BYTES = 24 * 1024 * 1024  # since the last time; less is not worth it
LOOKS_AFTER = 4  # further ones, for what is freed only once the flood is over
STATM = Path("/proc/self/statm")


class MemoryTrimmer:
    """Looks every EVERY_S between `start` and `stop`."""

    def __init__(self) -> None:
        self._trim = _found()
        self._after_bytes: int | None = None
        self._again = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._trim is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._trim))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self, trim: Callable[[int], int]) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await asyncio.to_thread(self._look, trim)

    def _look(self, trim: Callable[[int], int]) -> None:
        """Return what is free, if the process has grown; what it takes then is the new measure."""
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


def _found() -> Callable[[int], int] | None:
    """The C library's own function, where it has one that can tell us how much we take."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    if not STATM.exists():
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    found: Callable[[int], int] = trim
    return found


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
