"""After segments went: the queue files that lead nowhere any more go too."""

from collections.abc import Iterator
from itertools import islice

from engine.clock import Clock
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.store.store import Store

QUEUES_AT_ONCE = 50
ROUND_INTERVAL_S = 60.0
SETTLE_INTERVAL_S = 0.1


class Sweeper(Service):
    """50 queues in a tick; a round over all of them at most once a minute.

    There is no hurry: a file is in nobody's way, and covers 300,000 messages.
    """

    name = "queue files"

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._left: Iterator[tuple[str, int]] | None = None
        self._is_asked = False
        self._round_s = 0.0

    def ask(self) -> None:
        """Segments went: look over every queue, as soon as it is time."""
        self._is_asked = True
        self.wake()

    def tick(self) -> float:
        """Take one bounded step; 0 while the round is not over, else seconds until the next."""
        now_s = self._clock.monotonic_s()
        if not self._store.expiry.is_settled:  # a crash would bring segments back: not yet
            return SETTLE_INTERVAL_S
        if self._left is None:
            if not self._is_asked:
                return IDLE_WAIT_MAX_S
            if now_s < self._round_s:
                return self._round_s - now_s
            self._is_asked, self._round_s = False, now_s + ROUND_INTERVAL_S
            self._left = iter(self._store.queue_keys())
        chosen = list(islice(self._left, QUEUES_AT_ONCE))
        self._store.sweep(chosen)
        if len(chosen) < QUEUES_AT_ONCE:
            self._left = None
        return 0.0
