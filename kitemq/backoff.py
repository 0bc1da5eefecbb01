"""Waits between retries: doubling, bounded, with jitter."""

import random

FIRST_S = 0.05
MAX_S = 5.0


class Backoff:
    """Waits of one thing that is tried again and again; `reset` once it worked."""

    def __init__(self, first_s: float = FIRST_S, max_s: float = MAX_S) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._failures = 0

    def next_s(self) -> float:
        """The next wait: doubled each time up to the limit, then between half and all of it."""
        whole = min(self._first_s * 2.0**self._failures, self._max_s)
        self._failures = min(self._failures + 1, 30)
        return whole * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin with the shortest wait again."""
        self._failures = 0
