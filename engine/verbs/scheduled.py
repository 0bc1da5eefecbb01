"""Messages that wait for their time of delivery, and the delay levels."""

from collections.abc import Sequence

from engine.schedule.deliver import LevelWaiting
from engine.schedule.timers import Scheduled, ScheduledPage, TimerAnswer
from engine.verbs.verbs import Verbs


class ScheduleVerbs(Verbs):
    """Lists and changes messages that wait."""

    def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> ScheduledPage:
        """Messages that wait for their time, retries included; see `engine.schedule.timers`."""
        return self._timers.scheduled(
            topic=topic, from_ms=from_ms, after=after, count_max=count_max
        )

    def find_scheduled(self, message_id: str) -> Scheduled | None:
        """The message with this message id or offset id, while it waits for its time."""
        return self._timers.find(message_id)

    def scheduled_counts(self, times_ms: Sequence[int]) -> list[int]:
        """How many of all topics, retries included, are due before each of these ascending times.

        The last message that waits is due within a year.
        """
        exact = self._timer_deliverer.counts_before(times_ms)
        in_levels = self._deliverer.counts_before(times_ms)
        return [timers + levels for timers, levels in zip(exact, in_levels, strict=True)]

    def delay_levels(self) -> list[LevelWaiting]:
        """Each delay level with how many messages wait in it, retries included."""
        return self._deliverer.levels()

    def passed_levels(self) -> dict[str, int]:
        """The offset of the first message that waits by delay level, as in `delayOffset.json`."""
        return self._deliverer.passed()

    def recall(self, message_id: str) -> TimerAnswer:
        """See to it that a waiting message is never delivered."""
        self._check_running()
        return self._timers.recall(message_id)

    def deliver_now(self, message_id: str) -> TimerAnswer:
        """Deliver a waiting message at once."""
        self._check_running()
        return self._timers.deliver_now(message_id)

    def reschedule(self, message_id: str, deliver_at_ms: int) -> TimerAnswer:
        """Let a waiting message wait for another time; Invalid for one over a year ahead."""
        self._check_running()
        return self._timers.reschedule(message_id, deliver_at_ms)
