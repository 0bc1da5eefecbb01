"""Traffic of topics, queues, groups and readers: totals and rates, read from their series.

Who counts is another matter: `statistics.py` counts the embedded engine's events, and a cluster's
offsets are sampled.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping

import msgspec

from engine.statistics.latency_histogram import Spread
from engine.statistics.metric_series import Metric, MetricSeries
from engine.statistics.traffic_metrics import TrafficMetrics
from engine.statistics.values import (
    BrokerMetrics,
    GroupMetrics,
    QueueMetrics,
    ReaderMetrics,
    TopicMetrics,
    TrafficRates,
)
from engine.statistics.windows import MINUTE_MS, NOTHING, TEN_SECONDS_MS, WindowRates

SETTLING = (Metric.BYTES_OUT, Metric.ACKED, Metric.RETRIED, Metric.DEAD)
FAILING = (Metric.ACKED, Metric.RETRIED, Metric.DEAD, Metric.REFUSED)
Rated = WindowRates | None
Taken = tuple[WindowRates, Rated, Rated, Rated, Rated]


class TrafficStatistics(ABC):
    """Figures of the series that a subclass fills; those that it does not count are None, not 0.

    Messages in and out are always counted. All figures may raise Busy where they are not known just
    now.
    """

    counted = frozenset(Metric)
    has_seconds = True  # what came in the last second

    def __init__(self, now_ms: int) -> None:
        self.since_ms = now_ms
        self._books = TrafficMetrics(now_ms)

    @abstractmethod
    def _settled_ms(self, topic: str = "", group: str = "") -> int:
        """The time of a topic's, a group's or all figures, with everything counted until then."""

    # -- whole figures -----------------------------------------------------------------------------

    def broker(self) -> BrokerMetrics:
        """All topics and groups together."""
        now_ms, account = self._settled_ms(), self._books.broker
        acked, retried, dead, refused = (self._rates(account, each, now_ms) for each in FAILING)
        traffic = self._traffic(account, now_ms)
        return BrokerMetrics(self.since_ms, traffic, acked, retried, dead, refused)

    def topic(self, name: str) -> TopicMetrics:
        """A topic's figures; zeros for one that saw no traffic since the start."""
        now_ms = self._settled_ms(topic=name)
        account = self._books.topics.find(name)
        queues = sorted(
            (key[1], queue) for key, queue in self._books.queues.items() if key[0] == name
        )
        return TopicMetrics(
            name,
            self._traffic(account, now_ms),
            self._rates(account, Metric.REFUSED, now_ms),
            [QueueMetrics(number, self._traffic(queue, now_ms)) for number, queue in queues],
            self._readers(now_ms, lambda topic, _: topic == name),
        )

    def queue(self, topic: str, queue: int) -> QueueMetrics:
        """One queue's figures."""
        now_ms = self._settled_ms(topic=topic)
        return QueueMetrics(queue, self._traffic(self._books.queues.find((topic, queue)), now_ms))

    def group(self, name: str) -> GroupMetrics:
        """A group's figures; zeros for one that consumed nothing since the start."""
        now_ms = self._settled_ms(group=name)
        account = self._books.groups.find(name)
        readers = self._readers(now_ms, lambda _, group: group == name)
        return GroupMetrics(name, *self._taken(account, now_ms), None, readers)

    def end_to_end(self) -> Spread | None:
        """Microseconds from a message's making to its acknowledgement, over the last minutes."""
        return None

    def dead_letters(self) -> Mapping[tuple[str, str], int]:
        """Messages given up since the start, by group and reason."""
        return {}

    # -- for lists and charts, cheaper than whole figures ------------------------------------------

    def topic_rate(self, name: str) -> float | None:
        """Messages accepted per second over the last minute; stays for ten seconds."""
        now_ms = self._settled_ms(topic=name)
        return self._minute(self._books.topics.find(name), Metric.MESSAGES_IN, now_ms)

    def topic_bytes_rate(self, name: str) -> float | None:
        """Bytes of records accepted per second over the last minute; stays for ten seconds."""
        now_ms = self._settled_ms(topic=name)
        return self._minute(self._books.topics.find(name), Metric.BYTES_IN, now_ms)

    def group_rate(self, name: str) -> float | None:
        """Messages acknowledged per second over the last minute; stays for ten seconds."""
        now_ms = self._settled_ms(group=name)
        return self._minute(self._books.groups.find(name), Metric.ACKED, now_ms)

    def group_out_rate(self, name: str) -> float | None:
        """Messages delivered and pulled per second over the last minute; stays for ten seconds."""
        now_ms = self._settled_ms(group=name)
        return self._minute(self._books.groups.find(name), Metric.MESSAGES_OUT, now_ms)

    def topic_history(self, name: str, buckets: int) -> list[int]:
        """Messages accepted in each of the last whole ten seconds, oldest first; at most 90."""
        now_ms = self._settled_ms(topic=name)
        account = self._books.topics.find(name)
        if account is None:
            return []
        return account.history(Metric.MESSAGES_IN, now_ms, TEN_SECONDS_MS, buckets)

    def broker_rate(self, metric: Metric) -> float | None:
        """The whole broker's messages, or bytes, per second over the last whole ten seconds."""
        now_ms = self._settled_ms()
        if metric not in self.counted:
            return None
        return self._books.broker.steady_rate(metric, now_ms, TEN_SECONDS_MS)

    def broker_history(self, metric: Metric, buckets: int) -> list[int]:
        """The same for the whole broker; [] where nothing was counted yet."""
        return self._books.broker.history(metric, self._settled_ms(), TEN_SECONDS_MS, buckets)

    def charted_ms(self) -> int:
        """The time up to which all of it is known, and histories reach."""
        return self._settled_ms()

    def topics(self) -> Iterator[tuple[str, MetricSeries]]:
        """Every topic's account, and "other" for what was counted together."""
        self._settled_ms()
        yield from self._books.topics.items()
        if self._books.topics.other is not None:
            yield "other", self._books.topics.other

    def groups(self) -> Iterator[tuple[str, MetricSeries]]:
        """Every group's account, the same way."""
        self._settled_ms()
        yield from self._books.groups.items()
        if self._books.groups.other is not None:
            yield "other", self._books.groups.other

    def readers(self) -> Iterator[tuple[tuple[str, str], MetricSeries]]:
        """The accounts of what each group took from each topic, by topic and group."""
        self._settled_ms()
        yield from self._books.readers.items()
        if self._books.readers.other is not None:
            yield ("other", "other"), self._books.readers.other

    def total(self, account: MetricSeries, metric: Metric) -> int | None:
        """The total of a metric in an account."""
        return account.total(metric) if metric in self.counted else None

    def minute(self, account: MetricSeries, metric: Metric, now_ms: int) -> float | None:
        """The rate of a metric in an account over the minute before `now_ms`."""
        return account.minute(metric, now_ms) if metric in self.counted else None

    # -- inside ------------------------------------------------------------------------------------

    def _readers(self, now_ms: int, keeps: Callable[[str, str], bool]) -> list[ReaderMetrics]:
        return sorted(
            (
                ReaderMetrics(topic, group, *self._taken(account, now_ms))
                for (topic, group), account in self._books.readers.items()
                if keeps(topic, group)
            ),
            key=lambda reader: (reader.topic, reader.group),
        )

    def _taken(self, account: MetricSeries | None, now_ms: int) -> Taken:
        """What a group or a reader took: messages, bytes, acknowledged, retried, dead."""
        size, acked, retried, dead = (self._rates(account, each, now_ms) for each in SETTLING)
        return self._passed(account, Metric.MESSAGES_OUT, now_ms), size, acked, retried, dead

    def _traffic(self, account: MetricSeries | None, now_ms: int) -> TrafficRates:
        return TrafficRates(
            messages_in=self._passed(account, Metric.MESSAGES_IN, now_ms),
            bytes_in=self._rates(account, Metric.BYTES_IN, now_ms),
            messages_out=self._passed(account, Metric.MESSAGES_OUT, now_ms),
            bytes_out=self._rates(account, Metric.BYTES_OUT, now_ms),
        )

    def _rates(
        self, account: MetricSeries | None, metric: Metric, now_ms: int
    ) -> WindowRates | None:
        return self._passed(account, metric, now_ms) if metric in self.counted else None

    def _passed(self, account: MetricSeries | None, metric: Metric, now_ms: int) -> WindowRates:
        rates = NOTHING if account is None else account.rates(metric, now_ms)
        return rates if self.has_seconds else msgspec.structs.replace(rates, second=None)

    def _minute(self, account: MetricSeries | None, metric: Metric, now_ms: int) -> float | None:
        if metric not in self.counted:
            return None
        return 0.0 if account is None else account.steady_rate(metric, now_ms, MINUTE_MS)
