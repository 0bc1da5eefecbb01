"""Wall-clock time that never runs backwards.

When the system clock is set back, time goes on at the pace of the monotonic clock: a message that
waits ten seconds does not wait an hour more, and one sent afterwards does not come early.
"""

from bisect import bisect_right

from engine.clock import Clock
from engine.schedule.timer_agenda import Pending

TOLERATED_MS = 1000  # what the clock's own upkeep does is followed


class MonotonicCalendar:
    """Due times on a calendar that never goes back.

    Where the machine's was set back by an hour, this one is an hour ahead of it, and so are the
    due times of what arrives from then on: what arrived before and after keep their waits. It is
    forgotten with the process: a restart goes by the machine's calendar.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base_ms = clock.now_ms()
        self._base_s = clock.monotonic_s()
        self._starts = [0]  # offsets from which on arrivals are ahead by ...
        self._aheads = [0]  # ... so much

    def now_ms(self) -> int:
        """The time, never before one returned already (but for `TOLERATED_MS`)."""
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
        steady_ms = self._base_ms + round((now_s - self._base_s) * 1000)
        if steady_ms - now_ms > TOLERATED_MS:
            return steady_ms
        self._base_ms, self._base_s = now_ms, now_s
        return now_ms

    def arrived(self, offset: int, floor: int) -> None:
        """Messages from `offset` on arrive now; those before `floor` are of no interest."""
        ahead_ms = self.now_ms() - self._clock.now_ms()
        if abs(ahead_ms - self._aheads[-1]) <= TOLERATED_MS:
            return
        self._starts.append(offset)
        self._aheads.append(ahead_ms)
        passed = bisect_right(self._starts, floor) - 1
        del self._starts[:passed], self._aheads[:passed]

    def pending(self, due_ms: int, offset: int) -> Pending:
        """The message at `offset`, due at `due_ms` by the calendar of its arrival."""
        return Pending(due_ms + self._ahead_ms(offset), offset)

    def due_ms(self, pending: Pending) -> int:
        """When it is due by the calendar of its arrival."""
        return pending.due_ms - self._ahead_ms(pending.offset)

    def _ahead_ms(self, offset: int) -> int:
        return self._aheads[max(0, bisect_right(self._starts, offset) - 1)]
