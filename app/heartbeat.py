"""The loop's own pulse: how late it runs what is due, the sign that something held it up.

A timer every 50 ms; its lateness is the delay that any request would have met at that moment.
"""

import asyncio
from collections import deque

BEAT_S = 0.05
WINDOW_S = 60.0
SLICE_S = 5.0


class Heartbeat:
    """Beats between `start` and `stop`."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._slices: deque[float] = deque([0.0], maxlen=round(WINDOW_S / SLICE_S))
        self._slice_ends_s = 0.0
        self.worst_ever_s = 0.0

    @property
    def worst_s(self) -> float:
        """The longest delay within about the last minute."""
        return max(self._slices)

    def start(self) -> None:
        """Begin to beat on the running loop, or anew: delays before are forgotten."""
        self.stop()
        self._slices.clear()
        self._slices.append(0.0)
        self.worst_ever_s = 0.0
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._slice_ends_s = now + SLICE_S
        self._timer = loop.call_at(now + BEAT_S, self._beat, loop, now + BEAT_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        now = loop.time()
        late_s = max(0.0, now - due_s)
        if now >= self._slice_ends_s:
            self._slices.append(0.0)
            self._slice_ends_s = now + SLICE_S
        self._slices[-1] = max(self._slices[-1], late_s)
        self.worst_ever_s = max(self.worst_ever_s, late_s)
        self._timer = loop.call_at(now + BEAT_S, self._beat, loop, now + BEAT_S)
