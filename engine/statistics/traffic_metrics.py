"""Traffic metrics of each topic, queue, group and reader, and of the whole broker."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from engine.statistics.metric_series import Metric, MetricRegistry, MetricSeries
from engine.statistics.windows import COARSE, FINE
from engine.topic.names import is_system_topic

K = TypeVar("K")
V = TypeVar("V")

NAMES_MAX = 20_000


class Sums(Protocol):
    """A second that is over; `engine.statistics.counting.SecondSums` is one."""

    at_ms: int
    arrivals: dict[tuple[str, int], list[int]]
    went: dict[tuple[str, str, int], list[int]]
    acked: dict[tuple[str, str], int]
    failed: dict[tuple[str, str], list[int]]
    refused: dict[str, int]


class TrafficMetrics:
    """At most `NAMES_MAX` topics, queues, groups and readers each are counted apart."""

    def __init__(self, now_ms: int) -> None:
        self.broker = MetricSeries(FINE, now_ms, now_ms)
        self.topics: MetricRegistry[str] = MetricRegistry(FINE, NAMES_MAX, now_ms)
        self.groups: MetricRegistry[str] = MetricRegistry(FINE, NAMES_MAX, now_ms)
        self.queues: MetricRegistry[tuple[str, int]] = MetricRegistry(COARSE, NAMES_MAX, now_ms)
        self.readers: MetricRegistry[tuple[str, str]] = MetricRegistry(COARSE, NAMES_MAX, now_ms)

    def enter(self, sums: Sums, count_max: int) -> int:
        """Take up to `count_max` entries out of `sums` into the accounts; how many it took."""
        at_ms, left = sums.at_ms, count_max
        left -= _take(sums.arrivals, left, at_ms, self._add_arrivals)
        left -= _take(sums.went, left, at_ms, self._went)
        left -= _take(sums.acked, left, at_ms, self._acked)
        left -= _take(sums.failed, left, at_ms, self._failed)
        left -= _take(sums.refused, left, at_ms, self._refused)
        return count_max - left

    def spread_in(self, from_ms: int, to_ms: int, topic: str, queue: int, count: int) -> None:
        """Enter messages that came into a queue between two times."""
        accounts = [self.topics.open(topic, to_ms), self.queues.open((topic, queue), to_ms)]
        if not is_system_topic(topic):
            accounts.append(self.broker)
        for account in accounts:
            account.spread(Metric.MESSAGES_IN, from_ms, to_ms, count)

    def spread_out(
        self, from_ms: int, to_ms: int, group: str, topic: str, queue: int, count: int
    ) -> None:
        """Enter messages that a group took out of a queue between two times."""
        for account in self._taking(to_ms, group, topic, queue):
            account.spread(Metric.MESSAGES_OUT, from_ms, to_ms, count)

    def sweep(self, now_ms: int) -> None:
        """Drop the series that counted nothing for a day."""
        for registry in (self.topics, self.groups, self.queues, self.readers):
            registry.sweep(now_ms)

    def restart(self, now_ms: int) -> None:
        """The calendar was set back: windows begin anew, totals stay."""
        self.broker.restart(now_ms)
        for registry in (self.topics, self.groups, self.queues, self.readers):
            registry.restart(now_ms)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        self.topics.forget(topic)
        for queue in [key for key, _ in self.queues.items() if key[0] == topic]:
            self.queues.forget(queue)
        for reader in [key for key, _ in self.readers.items() if key[0] == topic]:
            self.readers.forget(reader)

    def forget_group(self, group: str) -> None:
        """A group was deleted."""
        self.groups.forget(group)
        for reader in [key for key, _ in self.readers.items() if key[1] == group]:
            self.readers.forget(reader)

    # -- one method for each kind of sum -----------------------------------------------------------

    def _add_arrivals(self, at_ms: int, place: tuple[str, int], sums: list[int]) -> None:
        topic, _ = place
        accounts = [self.topics.open(topic, at_ms), self.queues.open(place, at_ms)]
        if not is_system_topic(topic):
            accounts.append(self.broker)
        for account in accounts:
            account.add(Metric.MESSAGES_IN, at_ms, sums[0])
            account.add(Metric.BYTES_IN, at_ms, sums[1])

    def _went(self, at_ms: int, place: tuple[str, str, int], sums: list[int]) -> None:
        for account in self._taking(at_ms, *place):
            account.add(Metric.MESSAGES_OUT, at_ms, sums[0])
            account.add(Metric.BYTES_OUT, at_ms, sums[1])

    def _taking(self, at_ms: int, group: str, topic: str, queue: int) -> tuple[MetricSeries, ...]:
        return (
            self.broker,
            self.topics.open(topic, at_ms),
            self.queues.open((topic, queue), at_ms),
            self.groups.open(group, at_ms),
            self.readers.open((topic, group), at_ms),
        )

    def _acked(self, at_ms: int, place: tuple[str, str], count: int) -> None:
        for account in self._reading(at_ms, place):
            account.add(Metric.ACKED, at_ms, count)

    def _failed(self, at_ms: int, place: tuple[str, str], sums: list[int]) -> None:
        for account in self._reading(at_ms, place):
            for metric, count in zip((Metric.RETRIED, Metric.DEAD), sums, strict=True):
                if count:
                    account.add(metric, at_ms, count)

    def _reading(self, at_ms: int, place: tuple[str, str]) -> tuple[MetricSeries, ...]:
        group, topic = place
        reader = self.readers.open((topic, group), at_ms)
        return self.broker, self.groups.open(group, at_ms), reader

    def _refused(self, at_ms: int, topic: str, count: int) -> None:
        # A name that was refused may be any text: no account is opened for it.
        accounts = (self.broker, self.topics.find(topic))
        for account in accounts:
            if account is not None:
                account.add(Metric.REFUSED, at_ms, count)


def _take(entries: dict[K, V], count_max: int, at_ms: int, put: Callable[[int, K, V], None]) -> int:
    """Move up to `count_max` entries on to `put`; how many."""
    count = 0
    while entries and count < count_max:
        put(at_ms, *entries.popitem())
        count += 1
    return count
