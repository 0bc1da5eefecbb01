"""Clocks, passed in as arguments: the engine never reads the machine's clock itself.

`SystemClock` is what a server uses; `ManualClock` is what a test or a simulation moves by hand.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: the calendar for what is stored, a steady one for what is waited for."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump when the machine's clock is set."""

    def monotonic_s(self) -> float:
        """Seconds that never go backwards; only differences mean something."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until `advance` or `set_ms` moves it."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._monotonic_s = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        """Move both readings forward by `seconds`."""
        self._now_ms += round(seconds * 1000)
        self._monotonic_s += seconds

    def set_ms(self, now_ms: int) -> None:
        """Make the calendar jump, as an operator or NTP would; the steady reading stays."""
        self._now_ms = now_ms
