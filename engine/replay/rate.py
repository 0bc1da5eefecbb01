"""Rate limit of a job: a number of messages a second, evenly, without a burst after a pause."""

BURST_S = 0.1  # what a late tick may make up for
WAIT_MIN_S = 0.02


class Rate:
    """A token bucket over the steady clock; `per_s` 0 means no limit."""

    def __init__(self, per_s: float, now_s: float) -> None:
        self.per_s = per_s
        self._level = 1.0
        self._at_s = now_s

    def allowed(self, now_s: float, most: int) -> int:
        """Number of messages that may go now, at most `most`."""
        if not self.per_s:
            return most
        filled = self._level + (now_s - self._at_s) * self.per_s
        self._level = min(filled, max(1.0, self.per_s * BURST_S))
        self._at_s = now_s
        return min(most, int(self._level + 1e-9))

    def spend(self, count: int) -> None:
        """So many went."""
        if self.per_s:
            self._level -= count

    def wait_s(self) -> float:
        """Seconds until the next may go; a little more where many may go then."""
        if not self.per_s or self._level >= 1.0:
            return 0.0
        return max((1.0 - self._level) / self.per_s, WAIT_MIN_S)
