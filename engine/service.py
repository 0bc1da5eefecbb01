"""Background work as ticks: one bounded step at a time, called by the owner of the engine.

A `Service` writes `tick`; `ServiceRunner` decides when each runs, doubles the wait of one that
fails, and tells health about it. Nothing here starts a thread or waits.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from engine.clock import Clock
from engine.errors import Busy

log = logging.getLogger("kitemq.service")

T = TypeVar("T")

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
        """Run at the next round, whatever the last tick said, and notify the owner."""
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
            # A refusing disk is logged in one sentence: a traceback adds nothing.
            is_known = isinstance(error, (OSError, Busy))
            text = "service %s failed, next try in %.1f s: %s"
            log.error(text, self.name, wait_s, error, exc_info=not is_known)
        else:
            self._failures = 0
            self.failure = ""
        self._next_s = now_s + wait_s
        return wait_s


class RoundService(Service, Generic[T]):
    """Looks over all things of a kind when asked to, a bounded number in each tick.

    A subclass says what there is (`all`), and what is done with some of it (`look_over`). Rounds
    begin `INTERVAL_S` apart at least; asking again meanwhile is for the next one.
    """

    INTERVAL_S = 1.0
    AT_ONCE = 100

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._left: Iterator[T] | None = None
        self._has_request = False
        self._round_s = 0.0

    def all(self) -> Iterable[T]:
        """What a round that begins now has to look over."""
        raise NotImplementedError

    def look_over(self, items: list[T]) -> None:
        """Do what is to be done with these."""
        raise NotImplementedError

    def ask(self) -> None:
        """There is a reason to look over everything, as soon as it is time."""
        self._has_request = True
        self.wake()

    def tick(self) -> float:
        """Take one bounded step; 0 while the round is not over, else seconds until the next."""
        now_s = self._clock.monotonic_s()
        if self._left is None:
            if not self._has_request:
                return IDLE_WAIT_MAX_S
            if now_s < self._round_s:
                return self._round_s - now_s
            self._has_request, self._round_s = False, now_s + self.INTERVAL_S
            self._left = iter(self.all())
        items = list(islice(self._left, self.AT_ONCE))
        self.look_over(items)
        if len(items) < self.AT_ONCE:
            self._left = None
        return 0.0


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
