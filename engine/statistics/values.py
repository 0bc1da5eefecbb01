"""Values that statistics return to their callers."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import msgspec

from engine.statistics.latency_histogram import LatencySpreads, Spread
from engine.statistics.windows import WindowRates


class TrafficRates(msgspec.Struct, frozen=True):
    """Messages and bytes of their records that came in and were delivered.

    Here and below None is what is not counted.
    """

    messages_in: WindowRates
    bytes_in: WindowRates | None
    messages_out: WindowRates
    bytes_out: WindowRates | None


class QueueMetrics(msgspec.Struct, frozen=True):
    """One queue of a topic."""

    queue: int
    traffic: TrafficRates


class ReaderMetrics(msgspec.Struct, frozen=True):
    """Traffic of a group from a topic; for its retries the topic is `%RETRY%group`."""

    topic: str
    group: str
    messages_out: WindowRates
    bytes_out: WindowRates | None
    acked: WindowRates | None
    retried: WindowRates | None
    dead: WindowRates | None


class TopicMetrics(msgspec.Struct, frozen=True):
    """A topic, its queues that saw traffic, and the groups that read it."""

    topic: str
    traffic: TrafficRates
    refused: WindowRates | None
    queues: list[QueueMetrics]
    readers: list[ReaderMetrics]


class GroupMetrics(msgspec.Struct, frozen=True):
    """A group over all its topics, and for each; `dead_by_reason` counts since the start."""

    group: str
    messages_out: WindowRates
    bytes_out: WindowRates | None
    acked: WindowRates | None
    retried: WindowRates | None
    dead: WindowRates | None
    dead_by_reason: dict[str, int] | None
    readers: list[ReaderMetrics]


class BrokerMetrics(msgspec.Struct, frozen=True):
    """The whole broker since `since_ms`.

    What comes in counts for topics of users only: a delayed message or a retry that the engine
    moves is counted once. `message_size` is in bytes of body, estimated from one message of each
    send.
    """

    since_ms: int
    traffic: TrafficRates
    acked: WindowRates | None
    retried: WindowRates | None
    dead: WindowRates | None
    refused: WindowRates | None
    refused_by_code: dict[str, int] | None = None
    released: int | None = None
    corrupt: int | None = None
    put_latency: "PutLatency | None" = None
    message_size: Spread | None = None
    message_size_ever: Spread | None = None


class PutLatency(msgspec.Struct, frozen=True):
    """Microseconds from the call of send until it had its durability.

    `stored` is all sends, until the messages are in the page cache; `flushed` those that waited for
    the disk, until their senders were answered.
    """

    stored: LatencySpreads
    flushed: LatencySpreads


class LagPoint(msgspec.Struct, frozen=True):
    """The samples of one stretch of time that begins at `at_ms`; without any all else is None.

    The first four are the highest of the stretch, `count_avg` the mean. `committed` and
    `max_offset` are sums over the queues as of its last sample: their growth from point to point
    is what was consumed and produced.
    """

    at_ms: int
    samples: int
    count_max: int | None = None
    count_avg: float | None = None
    oldest_age_max_ms: int | None = None
    inflight_max: int | None = None
    retry_waiting_max: int | None = None
    dead_max: int | None = None
    committed: int | None = None
    max_offset: int | None = None


class LagHistoryPage(msgspec.Struct, frozen=True):
    """Points from `from_ms` to `to_ms`, `step_ms` apart; `damaged` blocks could not be read."""

    from_ms: int
    to_ms: int
    step_ms: int
    points: list[LagPoint]
    damaged: int = 0


class LagHistoryRetention(msgspec.Struct, frozen=True):
    """State of the lag history: what it holds on disk, and what it could not keep."""

    interval_s: float
    days: int
    oldest_ms: int | None
    samples: int
    size_bytes: int
    size_bytes_max: int
    rows: int
    rounds_lost: int
    failure: str


class LagName(NamedTuple):
    """One queue as one group reads it."""

    group: str
    topic: str
    queue: int


class QueueLagLike(Protocol):
    """What is taken over of a queue's lag; `engine.delivery.values.QueueLag` has it."""

    @property
    def topic(self) -> str: ...
    @property
    def queue(self) -> int: ...
    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    @property
    def committed(self) -> int: ...
    @property
    def cursor(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def inflight(self) -> int | None: ...
    @property
    def oldest_ms(self) -> int | None: ...
    @property
    def counts(self) -> str: ...
    @property
    def expired(self) -> int | None: ...


class GroupLagLike(Protocol):
    """What is taken over of a group's lag."""

    @property
    def queues(self) -> Iterable[QueueLagLike]: ...
    @property
    def retry_waiting(self) -> int | None: ...
    @property
    def dead(self) -> int: ...


LagOf = Callable[[str], GroupLagLike]
