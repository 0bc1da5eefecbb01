"""Background work as ticks: one bounded step at a time, driven by whoever owns the engine.

A `Service` writes `tick`; `ServiceRunner` decides when each runs, doubles the wait of one that
fails, and tells health about it. Nothing here starts a thread or waits.
"""

import logging
from collections.abc import Callable, Sequence

from engine.clock import Clock

log = logging.getLogger("kitemq.service")

FAILURE_WAIT_FIRST_S = 0.1
FAILURE_WAIT_MAX_S = 30.0
IDLE_WAIT_MAX_S = 5.0


class Service:
    """One background duty. A subclass names itself and writes `tick`."""

    name = "service"

    def __init__(self) -> None:
        self.failure = ""
        self.on_wake: Callable[[], None] = _nobody
        self._failures = 0
        self._next_s = 0.0

    def tick(self) -> float:
        """Do one bounded step; return seconds until the next is useful (0 = more to do now)."""
        raise NotImplementedError

    def wake(self) -> None:
        """Run at the next round, whatever the last tick said; its owner is told of it."""
        if not self._failures:
            self._next_s = 0.0
            self.on_wake()

    def run(self, now_s: float) -> float:
        """Tick when due; return the seconds until this service wants to run again."""
        if now_s < self._next_s:
            return self._next_s - now_s
        try:
            wait_s = min(self.tick(), IDLE_WAIT_MAX_S)
        except Exception as error:
            self._failures += 1
            wait_s = min(FAILURE_WAIT_FIRST_S * 2.0**self._failures, FAILURE_WAIT_MAX_S)
            self.failure = f"{type(error).__name__}: {error}"
            log.exception("service %s failed, next try in %.1f s", self.name, wait_s)
        else:
            self._failures = 0
            self.failure = ""
        self._next_s = now_s + wait_s
        return wait_s


class ServiceRunner:
    """Runs services in the order given, which is written with its reasons in `broker.py`."""

    def __init__(
        self, services: Sequence[Service], clock: Clock, on_wake: Callable[[], None]
    ) -> None:
        """`on_wake` is called when a service wants to run before the time last returned."""
        self._services = tuple(services)
        self._clock = clock
        for service in services:
            service.on_wake = on_wake

    def tick(self) -> float:
        """Run what is due; return seconds (at most 5) until the next service is."""
        now_s = self._clock.monotonic_s()
        return min((service.run(now_s) for service in self._services), default=IDLE_WAIT_MAX_S)

    def failures(self) -> dict[str, str]:
        """Name and error of every service whose last tick failed."""
        return {service.name: service.failure for service in self._services if service.failure}


def _nobody() -> None:
    """Until a runner takes the service on."""
