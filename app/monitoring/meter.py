"""The engine's statistics in the words that the pages use: messages per second, and short lines."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from engine.broker import BrokerMetrics, GroupMetrics, Metric, TopicMetrics, TrafficStatistics
from engine.errors import Busy

T = TypeVar("T")

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
    """Asks the engine; keeps nothing of its own.

    What an engine does not count, or does not know just now, is None or [].
    """

    def __init__(self, statistics: Callable[[], TrafficStatistics | None]) -> None:
        """`statistics` gives None where the engine counts no traffic."""
        self._statistics = statistics

    def accepted_rate(self) -> float | None:
        """Messages accepted per second over the last ten seconds."""
        return self._read(lambda statistics: statistics.broker_rate(Metric.MESSAGES_IN))

    def delivered_rate(self) -> float | None:
        """Messages delivered per second over the last ten seconds."""
        return self._read(lambda statistics: statistics.broker_rate(Metric.MESSAGES_OUT))

    def p99_ms(self) -> int | None:
        """Time from a message's birth to its acknowledgement; None if unknown."""
        spread = self._read(lambda statistics: statistics.end_to_end())
        return round(spread.p99 / 1000) if spread and spread.count else None

    def broker(self) -> BrokerMetrics | None:
        """Totals and rates of everything together."""
        return self._read(lambda statistics: statistics.broker())

    def topic(self, name: str) -> TopicMetrics | None:
        """A topic's totals and rates."""
        return self._read(lambda statistics: statistics.topic(name))

    def group(self, name: str) -> GroupMetrics | None:
        """A group's totals and rates."""
        return self._read(lambda statistics: statistics.group(name))

    def topic_rate(self, name: str) -> float | None:
        """Messages accepted per second over the last minute."""
        return self._read(lambda statistics: statistics.topic_rate(name))

    def topic_bytes_rate(self, name: str) -> float | None:
        """Bytes of records accepted per second over the last minute."""
        return self._read(lambda statistics: statistics.topic_bytes_rate(name))

    def group_rate(self, name: str) -> float | None:
        """Messages acknowledged per second over the last minute."""
        return self._read(lambda statistics: statistics.group_rate(name))

    def group_out_rate(self, name: str) -> float | None:
        """Messages delivered and pulled per second over the last minute."""
        return self._read(lambda statistics: statistics.group_out_rate(name))

    def topic_history(self, name: str) -> list[int]:
        """Messages accepted in each ten seconds of the window, oldest first; [] when silent."""
        return self._read(lambda statistics: statistics.topic_history(name, STEPS)) or []

    def traffic(self) -> Traffic | None:
        """Both totals over the window, without what came before counting began."""
        return self._read(_traffic)

    def since_ms(self) -> int | None:
        """When counting began."""
        statistics = self._statistics()
        return None if statistics is None else statistics.since_ms

    def _read(self, figure: Callable[[TrafficStatistics], T]) -> T | None:
        statistics = self._statistics()
        try:
            return None if statistics is None else figure(statistics)
        except Busy:
            return None


def _traffic(statistics: TrafficStatistics) -> Traffic:
    end_ms = statistics.charted_ms() // STEP_MS * STEP_MS
    steps = max(1, min(STEPS, (end_ms - statistics.since_ms) // STEP_MS + 1))
    return Traffic(
        start_ms=end_ms - steps * STEP_MS,
        step_ms=STEP_MS,
        accepted=_line(statistics, Metric.MESSAGES_IN, steps),
        delivered=_line(statistics, Metric.MESSAGES_OUT, steps),
    )


def _line(statistics: TrafficStatistics, metric: Metric, steps: int) -> list[float]:
    counts = statistics.broker_history(metric, steps) or [0] * steps
    return [count * 1000 / STEP_MS for count in counts]
