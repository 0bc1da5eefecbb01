"""Moves groups whose messages retention or a purge removed to the first offset of their queue.

Messages that a group had not finished and that are gone are counted, reported and given up. A
message in flight is left out: it ends with its acknowledgement or its deadline.
"""

from engine.clock import Clock
from engine.delivery.changes import CutOff
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import QueueProgress
from engine.events import EventBus, Overtaken
from engine.service import RoundService
from engine.store.store import Store


class MinOffsetCorrector(RoundService[QueueProgress]):
    """100 queues of groups in a tick, a round over all of them at most once a second.

    A receive that finds its queue begins later does not wait for its turn.
    """

    name = "overtaken groups"

    INTERVAL_S = 1.0
    AT_ONCE = 100

    def __init__(
        self, store: Store, progress_store: ProgressStore, clock: Clock, events: EventBus
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._progress_store = progress_store
        self._events = events

    def all(self) -> list[QueueProgress]:
        return self._progress_store.every()

    def look_over(self, queues: list[QueueProgress]) -> None:
        for progress in queues:
            self.look(progress)

    def look(self, progress: QueueProgress) -> None:
        """Let a group go on at the queue's begin if it is before that."""
        place = (progress.group, progress.topic, progress.queue)
        if self._progress_store.find(*place) is not progress:  # cleared since the round began
            return
        first = self._store.bounds(progress.topic, progress.queue)[0]
        count = max(0, first - progress.cursor) + len(progress.overtaken(first))
        if not count:
            return
        self._progress_store.write(CutOff(*place, first, count))
        if self._events.has_subscribers:
            now_ms = self._clock.now_ms()
            self._events.emit(Overtaken(now_ms, progress.owner, *place[1:], count))
