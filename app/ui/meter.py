"""Rates of the last minutes, counted from the engine's events into rings of fixed size.

Nothing here samples or waits: an event adds to the bucket of its time, a reader sums buckets.
A quarter of an hour is kept, in the process, from its start on.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from engine.events import Acked, Appended, Delivered, Event

WINDOW_MS = 15 * 60 * 1000
TOTAL_BUCKET_MS = 5_000
NAMED_BUCKET_MS = 15_000
RATE_MS = 60_000
TOTAL_RATE_MS = 15_000
NAMES_MAX = 20_000


class Ring:
    """Counts per bucket of time over the last window; older ones are forgotten."""

    def __init__(self, bucket_ms: int, now_ms: int) -> None:
        self.bucket_ms = bucket_ms
        self._values = array("Q", bytes(8 * (WINDOW_MS // bucket_ms)))
        self._newest = now_ms // bucket_ms

    def add(self, at_ms: int, amount: int) -> None:
        """Count `amount` at `at_ms`; what is older than the window is not counted."""
        bucket = at_ms // self.bucket_ms
        self._advance(bucket)
        if bucket > self._newest - len(self._values):
            self._values[bucket % len(self._values)] += amount

    def window(self, now_ms: int, length_ms: int = WINDOW_MS) -> list[int]:
        """Counts of the last whole buckets before `now_ms`, oldest first."""
        self._advance(now_ms // self.bucket_ms)
        size = len(self._values)
        buckets = min(length_ms // self.bucket_ms, size - 1)
        return [self._values[(self._newest - back) % size] for back in range(buckets, 0, -1)]

    def is_idle(self, now_ms: int) -> bool:
        self._advance(now_ms // self.bucket_ms)
        return not any(self._values)

    def _advance(self, bucket: int) -> None:
        size = len(self._values)
        for missed in range(max(self._newest + 1, bucket - size + 1), bucket + 1):
            self._values[missed % size] = 0
        self._newest = max(self._newest, bucket)


@dataclass(frozen=True)
class Traffic:
    """The whole broker's messages per second over the window, oldest first."""

    start_ms: int
    step_ms: int
    accepted: list[float]
    delivered: list[float]


class Meter:
    """Listens to the engine; answers with messages per second."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.started_ms = now_ms()
        self._accepted = Ring(TOTAL_BUCKET_MS, self.started_ms)
        self._delivered = Ring(TOTAL_BUCKET_MS, self.started_ms)
        self._topics: dict[str, Ring] = {}
        self._groups: dict[str, Ring] = {}

    def hear(self, event: Event) -> None:
        """Count one event; microseconds, as the engine asks of its listeners."""
        if isinstance(event, Appended):
            self._accepted.add(event.at_ms, event.count)
            self._count(self._topics, event.topic, event.at_ms, event.count)
        elif isinstance(event, Delivered):
            self._delivered.add(event.at_ms, len(event.offsets))
        elif isinstance(event, Acked):
            self._count(self._groups, event.group, event.at_ms, len(event.offsets))

    def names(self) -> list[str]:
        """Every topic and group that has a ring."""
        return [*self._topics, *self._groups]

    def forget_if_idle(self, name: str) -> None:
        """Drop the rings of a topic or group that was silent for the whole window."""
        now_ms = self._now_ms()
        for rings in (self._topics, self._groups):
            ring = rings.get(name)
            if ring is not None and ring.is_idle(now_ms):
                del rings[name]

    def accepted_rate(self) -> float:
        return self._rate(self._accepted, TOTAL_RATE_MS)

    def delivered_rate(self) -> float:
        return self._rate(self._delivered, TOTAL_RATE_MS)

    def topic_rate(self, name: str) -> float:
        """Messages accepted per second over the last minute."""
        return self._rate(self._topics.get(name), RATE_MS)

    def group_rate(self, name: str) -> float:
        """Messages acknowledged per second over the last minute."""
        return self._rate(self._groups.get(name), RATE_MS)

    def topic_history(self, name: str) -> list[int]:
        """Messages accepted per bucket over the window, oldest first; [] when silent."""
        ring = self._topics.get(name)
        return ring.window(self._now_ms()) if ring else []

    def traffic(self) -> Traffic:
        """Both totals over the window; buckets before the process began are left out."""
        now_ms = self._now_ms()
        accepted = self._accepted.window(now_ms)
        delivered = self._delivered.window(now_ms)
        end_ms = now_ms // TOTAL_BUCKET_MS * TOTAL_BUCKET_MS
        known = max(1, min(len(accepted), (end_ms - self.started_ms) // TOTAL_BUCKET_MS + 1))
        per_second = TOTAL_BUCKET_MS / 1000
        return Traffic(
            start_ms=end_ms - known * TOTAL_BUCKET_MS,
            step_ms=TOTAL_BUCKET_MS,
            accepted=[value / per_second for value in accepted[-known:]],
            delivered=[value / per_second for value in delivered[-known:]],
        )

    def _rate(self, ring: Ring | None, length_ms: int) -> float:
        if ring is None:
            return 0.0
        now_ms = self._now_ms()
        values = ring.window(now_ms, length_ms)
        end_ms = now_ms // ring.bucket_ms * ring.bucket_ms
        # A server younger than the window divides by its own age.
        span_ms = min(len(values) * ring.bucket_ms, end_ms - self.started_ms)
        return sum(values) * 1000 / max(span_ms, ring.bucket_ms)

    def _count(self, rings: dict[str, Ring], name: str, at_ms: int, amount: int) -> None:
        ring = rings.get(name)
        if ring is None:
            if len(rings) >= NAMES_MAX:
                return
            ring = rings[name] = Ring(NAMED_BUCKET_MS, self._now_ms())
        ring.add(at_ms, amount)
