"""Removes queue files whose entries all point to log segments that retention removed."""

from engine.clock import Clock
from engine.service import RoundService
from engine.store.store import Store

SETTLE_INTERVAL_S = 0.1


class QueueFileCleaner(RoundService[tuple[str, int]]):
    """50 queues in a tick; a round over all of them at most once a minute.

    There is no hurry: a file disturbs nothing, and covers 300,000 messages.
    """

    name = "queue files"

    INTERVAL_S = 60.0
    AT_ONCE = 50

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(clock)
        self._store = store

    def tick(self) -> float:
        """As any round, but not while a crash would bring segments back."""
        return super().tick() if self._store.expiry.is_settled else SETTLE_INTERVAL_S

    def all(self) -> list[tuple[str, int]]:
        return self._store.queue_keys()

    def look_over(self, queues: list[tuple[str, int]]) -> None:
        self._store.sweep(queues)
