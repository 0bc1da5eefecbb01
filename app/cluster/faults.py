"""Latency fault avoidance: brokers that were slow or failed get no sends for a while.

The thresholds are those of Apache's clients. A broker that is avoided is still used where all are.
"""

import time
from collections.abc import Callable

# From this latency on (ms), the broker is avoided for that long (s).
AVOIDED = ((15_000, 30.0), (5_000, 10.0), (3_000, 6.0), (1_800, 5.0), (550, 2.0))
FAILED_MS = 10_000.0  # what a failed send counts as


class FaultTable:
    """Until when each broker is avoided."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._until_s: dict[str, float] = {}

    def record(self, broker: str, latency_ms: float) -> None:
        """Note how long a send took; FAILED_MS for one that failed."""
        for threshold_ms, avoided_s in AVOIDED:
            if latency_ms >= threshold_ms:
                self._until_s[broker] = self._now_s() + avoided_s
                return
        self._until_s.pop(broker, None)

    def is_available(self, broker: str) -> bool:
        """Whether it is not avoided just now."""
        return self._until_s.get(broker, 0.0) <= self._now_s()
