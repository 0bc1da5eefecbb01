"""Groups that retention or a purge overtook: they go on where the queue begins now.

What a group had not finished of the messages that are gone is counted, told and given up, but for
what is in a client's hands: that ends with its acknowledgement or its deadline.
"""

from collections.abc import Iterator
from itertools import islice

from engine.clock import Clock
from engine.delivery.changes import CutOff
from engine.delivery.ledger import Ledger
from engine.delivery.progress import Progress
from engine.events import Events, Overtaken
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.store.store import Store

AT_ONCE = 100
ROUND_INTERVAL_S = 1.0


class Overtaker(Service):
    """100 queues of groups in a tick, a round over all of them at most once a second.

    A receive that finds its queue begins later does not wait for its turn.
    """

    name = "overtaken groups"

    def __init__(self, store: Store, ledger: Ledger, clock: Clock, events: Events) -> None:
        super().__init__()
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._events = events
        self._left: Iterator[Progress] | None = None
        self._is_asked = False
        self._round_s = 0.0

    def ask(self) -> None:
        """Queues begin later now: look over all progress, as soon as it is time."""
        self._is_asked = True
        self.wake()

    def tick(self) -> float:
        """Take one bounded step; 0 while the round is not over, else seconds until the next."""
        now_s = self._clock.monotonic_s()
        if self._left is None:
            if not self._is_asked:
                return IDLE_WAIT_MAX_S
            if now_s < self._round_s:
                return self._round_s - now_s
            self._is_asked, self._round_s = False, now_s + ROUND_INTERVAL_S
            self._left = iter(self._ledger.every())
        chosen = list(islice(self._left, AT_ONCE))
        for progress in chosen:
            self.look(progress)
        if len(chosen) < AT_ONCE:
            self._left = None
        return 0.0

    def look(self, progress: Progress) -> None:
        """Let a group go on at the queue's begin if it is before that."""
        place = (progress.group, progress.topic, progress.queue)
        if self._ledger.find(*place) is not progress:  # cleared since the round began
            return
        first = self._store.bounds(progress.topic, progress.queue)[0]
        count = max(0, first - progress.cursor) + len(progress.overtaken(first))
        if not count:
            return
        self._ledger.write(CutOff(*place, first, count))
        if self._events.is_heard:
            now_ms = self._clock.now_ms()
            self._events.emit(Overtaken(now_ms, progress.owner, *place[1:], count))
