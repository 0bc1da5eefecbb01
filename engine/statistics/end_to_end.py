"""Measures the time from a message's birth at its producer to its acknowledgement by a group.

Of each acknowledgement one message stands for all, at most 200 a second; its record is looked at
later, in the tick, so that neither acknowledging nor asking costs anything. Who commits offsets
acknowledges nothing.
"""

from collections.abc import Callable

from engine.events import Acked
from engine.statistics.latency_histogram import Spread, Timing
from engine.statistics.windows import SECOND_MS

NOTED_MAX = 200  # in a second; and so many may wait for the next ticks
PER_STEP = 50  # records looked at in one tick

# Topic, queue and offset to when the message was made; None where that cannot be read.
BornMsOf = Callable[[str, int, int], int | None]


class EndToEnd:
    """`note` acknowledgements, `settle` in every tick."""

    def __init__(self, born_ms_of: BornMsOf) -> None:
        self._born_ms_of = born_ms_of
        self._pending: list[Acked] = []
        self._since_ms = self._noted = 0
        self._timing = Timing()

    def note(self, event: Acked) -> None:
        """Remember one of what was acknowledged."""
        if not self._since_ms <= event.at_ms < self._since_ms + SECOND_MS:
            self._since_ms, self._noted = event.at_ms, 0
        if self._noted < NOTED_MAX and len(self._pending) < NOTED_MAX:
            self._noted += 1
            self._pending.append(event)

    def settle(self) -> bool:
        """Enter a bounded part of what was noted; whether more waits."""
        part, self._pending = self._pending[:PER_STEP], self._pending[PER_STEP:]
        for event in part:
            born_ms = self._born_ms_of(event.topic, event.queue, event.offsets[-1])
            if born_ms:
                took_ms = max(0, event.at_ms - born_ms)
                self._timing.add(event.at_ms, took_ms * 1000, len(event.offsets))
        return bool(self._pending)

    def recent(self, now_ms: int) -> Spread:
        """Microseconds, over the last one to two minutes, of what was settled."""
        return self._timing.recent(now_ms)
