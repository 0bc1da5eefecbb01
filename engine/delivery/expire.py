"""The service that expires deliveries, and returns messages whose wait is over."""

from engine.clock import Clock
from engine.delivery.changes import CameDue
from engine.delivery.deadlines import Deadlines, DueBatch
from engine.delivery.failure import FailureHandler
from engine.delivery.message_state import MessageState
from engine.delivery.progress_store import ProgressStore
from engine.errors import Busy
from engine.run_length import to_runs
from engine.service import IDLE_WAIT_MAX_S, Service

TICK_MESSAGES_MAX = 500


class Expirer(Service):
    """At most 500 messages in a tick; woken when a deadline is set before all others."""

    name = "expiry"

    def __init__(
        self,
        deadlines: Deadlines,
        progress_store: ProgressStore,
        failures: FailureHandler,
        clock: Clock,
    ) -> None:
        super().__init__()
        self._deadlines = deadlines
        self._progress_store = progress_store
        self._ends = failures
        self._clock = clock

    def tick(self) -> float:
        """Deal with what is due; seconds until the next can be.

        While the log refuses writes, deliveries stay as they are and are tried again.
        """
        dues = self._deadlines.take_due(self._clock.now_ms(), TICK_MESSAGES_MAX)
        try:
            self._bring_back([due for due in dues if due.batch.slot.phase is MessageState.WAITING])
            self._ends.expire(due for due in dues if due.batch.slot.phase is MessageState.INFLIGHT)
        except Busy as error:
            self._watch_again(dues)
            return error.retry_after_s
        except Exception:
            self._watch_again(dues)
            raise
        return self._seconds_to_next()

    def _bring_back(self, dues: list[DueBatch]) -> None:
        for progress, batch in dues:
            place = (progress.group, progress.topic, progress.queue)
            self._progress_store.write(CameDue(*place, to_runs(batch.offsets)))

    def _watch_again(self, dues: list[DueBatch]) -> None:
        for progress, batch in dues:
            self._deadlines.add(progress, batch)

    def _seconds_to_next(self) -> float:
        next_ms = self._deadlines.next_ms()
        if next_ms is None:
            return IDLE_WAIT_MAX_S
        return max(0, next_ms - self._clock.now_ms()) / 1000
