"""The engine's statistics in the words that the pages use: messages per second, and short lines."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.broker import Metric, Statistics

STEP_MS = 10_000
STEPS = 90  # a quarter of an hour


@dataclass(frozen=True)
class Traffic:
    """The whole broker's messages per second over the window, oldest first."""

    start_ms: int
    step_ms: int
    accepted: list[float]
    delivered: list[float]


class Meter:
    """Asks the engine; keeps nothing of its own."""

    def __init__(self, statistics: Callable[[], Statistics], now_ms: Callable[[], int]) -> None:
        self._statistics = statistics
        self._now_ms = now_ms

    def accepted_rate(self) -> float:
        """Messages accepted per second over the last ten seconds."""
        return self._latest(Metric.MESSAGES_IN)

    def delivered_rate(self) -> float:
        """Messages delivered per second over the last ten seconds."""
        return self._latest(Metric.MESSAGES_OUT)

    def p99_ms(self) -> int | None:
        """Time from a message's birth to its acknowledgement; None if unknown."""
        spread = self._statistics().end_to_end()
        return round(spread.p99 / 1000) if spread.count else None

    def topic_rate(self, name: str) -> float:
        """Messages accepted per second over the last minute."""
        return self._statistics().topic_rate(name)

    def topic_bytes_rate(self, name: str) -> float:
        """Bytes of records accepted per second over the last minute."""
        return self._statistics().topic_bytes_rate(name)

    def group_rate(self, name: str) -> float:
        """Messages acknowledged per second over the last minute."""
        return self._statistics().group_rate(name)

    def group_out_rate(self, name: str) -> float:
        """Messages delivered and pulled per second over the last minute."""
        return self._statistics().group_out_rate(name)

    def topic_history(self, name: str) -> list[int]:
        """Messages accepted in each ten seconds of the window, oldest first; [] when silent."""
        return self._statistics().topic_history(name, STEPS)

    def traffic(self) -> Traffic:
        """Both totals over the window, without what came before the process began."""
        now_ms = self._now_ms()
        end_ms = now_ms // STEP_MS * STEP_MS
        since_ms = self._statistics().since_ms
        steps = max(1, min(STEPS, (end_ms - since_ms) // STEP_MS + 1))
        return Traffic(
            start_ms=end_ms - steps * STEP_MS,
            step_ms=STEP_MS,
            accepted=self._line(Metric.MESSAGES_IN, steps),
            delivered=self._line(Metric.MESSAGES_OUT, steps),
        )

    def _latest(self, metric: Metric) -> float:
        return self._statistics().broker_rate(metric)

    def _line(self, metric: Metric, steps: int) -> list[float]:
        counts = self._statistics().broker_history(metric, steps) or [0] * steps
        return [count * 1000 / STEP_MS for count in counts]
