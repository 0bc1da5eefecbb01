"""Counts of one thing over time, in rings of fixed size: the last second, minute, ten minutes, day.

A series keeps one ring per width of bucket. An amount goes into the bucket of its time; a sum takes
whole buckets and the one that is still filling, and says how long a time that is. So a rate is
exact over its span: the window, and at most one bucket more.
"""

from array import array
from typing import NamedTuple

import msgspec

SECOND_MS = 1_000
TEN_SECONDS_MS = 10_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class WindowLevel(NamedTuple):
    """A ring of `slots` buckets of `bucket_ms` each; one of them is still filling."""

    bucket_ms: int
    slots: int


Levels = tuple[WindowLevel, ...]

# With a quarter of an hour in steps of ten seconds, to be drawn.
FINE: Levels = (
    WindowLevel(SECOND_MS, 2),
    WindowLevel(TEN_SECONDS_MS, 91),
    WindowLevel(HOUR_MS, 25),
)
# RocketMQ's own: a minute in steps of ten seconds, then coarser ones.
COARSE: Levels = (
    WindowLevel(SECOND_MS, 2),
    WindowLevel(TEN_SECONDS_MS, 7),
    WindowLevel(MINUTE_MS, 11),
    WindowLevel(HOUR_MS, 25),
)


class WindowRates(msgspec.Struct, frozen=True):
    """Total, and rates per second over the last second, minute, ten minutes and day.

    `second` is None where counts come at longer intervals.
    """

    total: int = 0
    second: float | None = 0.0
    minute: float = 0.0
    ten_minutes: float = 0.0
    day: float = 0.0


NOTHING = WindowRates()


class WindowedCounter:
    """Amounts over time; `since_ms` is when counting began, so that a young one is not diluted."""

    __slots__ = ("_at_ms", "_levels", "_values", "since_ms", "total")

    def __init__(self, levels: Levels, now_ms: int, since_ms: int) -> None:
        self.total = 0
        self.since_ms = since_ms
        self._levels = levels
        self._at_ms = now_ms
        self._values = array("Q", bytes(8 * sum(level.slots for level in levels)))

    def add(self, at_ms: int, amount: int) -> None:
        """Count `amount` at `at_ms`; a time before the newest bucket counts into that one."""
        if at_ms > self._at_ms:
            self._advance(at_ms)
        self.total += amount
        base, newest_ms, values = 0, self._at_ms, self._values
        for bucket_ms, slots in self._levels:
            values[base + newest_ms // bucket_ms % slots] += amount
            base += slots

    def spread(self, from_ms: int, to_ms: int, amount: int) -> None:
        """Count `amount` that came between two times, as if it had come evenly.

        Buckets that are gone already get nothing.
        """
        if to_ms > self._at_ms:
            self._advance(to_ms)
        self.total += amount
        span_ms = max(1, to_ms - from_ms)
        base, values = 0, self._values
        for bucket_ms, slots in self._levels:
            newest = self._at_ms // bucket_ms
            for number in range(max(from_ms // bucket_ms, newest - slots + 1), newest + 1):
                begin_ms = min(max(number * bucket_ms, from_ms), to_ms)
                end_ms = min(max((number + 1) * bucket_ms, from_ms), to_ms)
                # Parts of one whole are rounded together, so that none of it is lost.
                until, before = ((at - from_ms) * amount // span_ms for at in (end_ms, begin_ms))
                values[base + number % slots] += until - before
            base += slots

    def restart(self, now_ms: int) -> None:
        """Forget the windows, not the total: the calendar was set back."""
        self._values = array("Q", bytes(8 * len(self._values)))
        self._at_ms = self.since_ms = now_ms

    def rates(self, now_ms: int) -> WindowRates:
        """The total and every window's messages, or bytes, per second."""
        ten_minutes_ms = TEN_SECONDS_MS if self._levels is FINE else MINUTE_MS
        return WindowRates(
            self.total,
            self.rate(now_ms, SECOND_MS, SECOND_MS),
            self.rate(now_ms, MINUTE_MS, TEN_SECONDS_MS),
            self.rate(now_ms, 10 * MINUTE_MS, ten_minutes_ms),
            self.rate(now_ms, DAY_MS, HOUR_MS),
        )

    def rate(self, now_ms: int, window_ms: int, bucket_ms: int) -> float:
        """Per second over the whole buckets of a window and the one that is filling."""
        buckets = window_ms // bucket_ms
        now_ms = max(now_ms, self._at_ms)
        count = sum(self._tail(now_ms, bucket_ms, buckets))
        begin_ms = max(self.since_ms, (now_ms // bucket_ms - buckets) * bucket_ms)
        return count * 1000 / max(now_ms - begin_ms, SECOND_MS)

    def steady_rate(self, now_ms: int, window_ms: int, bucket_ms: int) -> float:
        """The same over whole buckets only: it stays until the next one is over, as lists want."""
        now_ms = max(now_ms, self._at_ms)
        count = sum(self.history(now_ms, bucket_ms, window_ms // bucket_ms))
        end_ms = now_ms // bucket_ms * bucket_ms
        return count * 1000 / max(min(window_ms, end_ms - self.since_ms), bucket_ms)

    def history(self, now_ms: int, bucket_ms: int, buckets: int) -> list[int]:
        """Counts of the last whole buckets before `now_ms`, oldest first."""
        return self._tail(max(now_ms, self._at_ms), bucket_ms, buckets)[:-1]

    def idle_ms(self, now_ms: int) -> int:
        """Time since the last amount was counted."""
        return now_ms - self._at_ms

    def _tail(self, now_ms: int, bucket_ms: int, buckets: int) -> list[int]:
        """`buckets` whole ones and the one that is filling at `now_ms`; a later one is empty."""
        base = 0
        for level in self._levels:
            if level.bucket_ms == bucket_ms:
                break
            base += level.slots
        else:
            raise AssertionError(f"no ring of {bucket_ms} ms")
        slots = level.slots
        assert buckets < slots
        newest, known = now_ms // bucket_ms, self._at_ms // bucket_ms
        values = self._values
        return [
            values[base + number % slots] if number <= known else 0
            for number in range(newest - buckets, newest + 1)
        ]

    def _advance(self, at_ms: int) -> None:
        base, values = 0, self._values
        for bucket_ms, slots in self._levels:
            known, newest = self._at_ms // bucket_ms, at_ms // bucket_ms
            for missed in range(max(known + 1, newest - slots + 1), newest + 1):
                values[base + missed % slots] = 0
            base += slots
        self._at_ms = at_ms
