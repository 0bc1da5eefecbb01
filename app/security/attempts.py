"""Failed logins slow down: per name and per address, each failure past a few doubles the wait.

A name waits a minute at most, so that nobody can lock out its owner; an address waits longer. What
is remembered is bounded, and the longest unused is forgotten first.
"""

from collections import OrderedDict
from dataclasses import dataclass

FREE_FAILURES = 5
NAME_WAIT_MAX_S = 60.0
ADDRESS_WAIT_MAX_S = 900.0
FORGET_AFTER_S = 3600.0
KEYS_MAX = 10_000


@dataclass
class Failures:
    count: int = 0
    last_s: float = 0.0
    until_s: float = 0.0


class Attempts:
    """Counts failures under keys; times are those of a monotonic clock."""

    def __init__(self, wait_max_s: float, keys_max: int = KEYS_MAX) -> None:
        self._wait_max_s = wait_max_s
        self._keys_max = keys_max
        self._failures: OrderedDict[str, Failures] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def wait_s(self, key: str, now_s: float) -> float:
        """How long `key` has to wait before its next attempt; 0 where it may try."""
        found = self._failures.get(key)
        return max(0.0, found.until_s - now_s) if found is not None else 0.0

    def failed(self, key: str, now_s: float) -> bool:
        """Count a failure; whether `key` has to wait from now on."""
        found = self._failures.pop(key, None)
        if found is None or now_s - found.last_s > FORGET_AFTER_S:
            found = Failures()
        found.count += 1
        found.last_s = now_s
        over = found.count - FREE_FAILURES
        if over >= 0:
            found.until_s = now_s + min(self._wait_max_s, 2.0 ** min(over, 30))
        self._failures[key] = found
        while len(self._failures) > self._keys_max:
            self._failures.popitem(last=False)
        return over >= 0

    def succeeded(self, key: str) -> None:
        """Forget what failed before."""
        self._failures.pop(key, None)
