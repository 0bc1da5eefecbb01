"""A beat that is on time: the event loop's own timers are late by up to 1.4 ms."""

import asyncio
import ctypes
import os
import struct
import time
from typing import Self

MONOTONIC = 1  # CLOCK_MONOTONIC, which time.perf_counter() reads
NONBLOCK, CLOEXEC, ABSOLUTE = os.O_NONBLOCK, os.O_CLOEXEC, 1
TIMES = struct.Struct("qqqq")  # `struct itimerspec`: interval and first, each in s and ns
COUNT = struct.Struct("Q")
NS = 1_000_000_000


class Beat:
    """Tells an event loop of each `period_s`, by Linux's timerfd; a context manager.

    Python has functions for it from 3.13 on. Beats that went by unseen are told at once, each with
    the time that it was due.
    """

    def __init__(self, period_s: float) -> None:
        self._period_ns = round(period_s * NS)
        self._told = self._gone = 0
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.timerfd_create(MONOTONIC, NONBLOCK | CLOEXEC)
        self._began_ns = time.perf_counter_ns() + self._period_ns
        times = TIMES.pack(*divmod(self._period_ns, NS), *divmod(self._began_ns, NS))
        if self._file < 0 or libc.timerfd_settime(self._file, ABSOLUTE, times, None):
            raise OSError(ctypes.get_errno(), "timerfd")
        self._rang = asyncio.Event()

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._file, self._ring)
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.get_running_loop().remove_reader(self._file)
        os.close(self._file)

    async def due(self) -> float:
        """Wait for the next beat; when it was due, by time.perf_counter()."""
        while self._told == self._gone:
            self._rang.clear()
            await self._rang.wait()
        due_ns = self._began_ns + self._told * self._period_ns
        self._told += 1
        return due_ns / NS

    def _ring(self) -> None:
        (count,) = COUNT.unpack(os.read(self._file, COUNT.size))
        self._gone += count
        self._rang.set()
