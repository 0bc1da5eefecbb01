"""Rates and totals, the time that sends take, and the lag of groups over time."""

from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.values import Int64, Milliseconds


class Rates(msgspec.Struct, frozen=True):
    """Total since the server started, and averages per second.

    Each is over the last so much time, and at most a tenth of it more (a minute: ten seconds).
    Before a cluster counts are samples ten seconds apart, and `second` is null.
    """

    total: int
    second: float | None
    minute: float
    ten_minutes: float
    day: float


class MessageTraffic(msgspec.Struct, frozen=True):
    """Messages, and bytes of their records, in and out; null is what the engine does not tell."""

    messages_in: Rates
    bytes_in: Rates | None
    messages_out: Rates
    bytes_out: Rates | None


class Percentiles(msgspec.Struct, frozen=True):
    """How values are spread; percentiles are at most an eighth too high, the maximum is exact."""

    count: int
    mean: float
    p50: int
    p95: int
    p99: int
    p999: int
    max: int


class SendTimes(msgspec.Struct, frozen=True):
    """Microseconds over the last one to two minutes, and since the start.

    `distribution` counts the last whole minute in Apache RocketMQ's thirteen buckets.
    """

    recent: Percentiles
    ever: Percentiles
    distribution: dict[str, int]


class SendLatency(msgspec.Struct, frozen=True):
    """The latency of sends: until stored, and if requested, until on disk."""

    stored: SendTimes
    flushed: SendTimes


class LagHistoryState(msgspec.Struct, frozen=True):
    """What the history of lag holds; `rows` are the queues of groups that were last sampled."""

    interval_s: float
    days: int
    oldest_ms: int | None
    samples: int
    size_bytes: int
    size_bytes_max: int
    rows: int
    rounds_lost: Annotated[int, Meta(description="Samplings that could not be kept.")]
    failure: Annotated[str, Meta(description="Why they cannot be kept; empty when they are.")]


class BrokerStatistics(msgspec.Struct, frozen=True):
    """The whole broker. What comes in counts for topics of users, the engine's own moves do not.

    Here and below null is what the engine does not tell (`delivery_figures`).
    """

    since_ms: Milliseconds
    traffic: MessageTraffic
    acked: Rates | None
    retried: Rates | None
    dead: Rates | None
    refused: Rates | None
    refused_by_code: dict[str, int] | None
    put_latency: SendLatency | None
    message_size: Annotated[
        Percentiles | None,
        Meta(description="Bytes of body, by one message of each send, the last minutes."),
    ]
    lag_history: LagHistoryState


class QueueStatistics(msgspec.Struct, frozen=True):
    """One queue."""

    queue: int
    traffic: MessageTraffic


class ReaderStatistics(msgspec.Struct, frozen=True):
    """What a group took from a topic; its retries are those of the topic `%RETRY%group`."""

    topic: str
    group: str
    messages_out: Rates
    bytes_out: Rates | None
    acked: Rates | None
    retried: Rates | None
    dead: Rates | None


class TopicStatistics(msgspec.Struct, frozen=True):
    """A topic, those of its queues that saw traffic, and the groups that read it."""

    topic: str
    traffic: MessageTraffic
    refused: Rates | None
    queues: list[QueueStatistics]
    readers: list[ReaderStatistics]


class GroupStatistics(msgspec.Struct, frozen=True):
    """A group over all its topics, and for each of them."""

    group: str
    messages_out: Rates
    bytes_out: Rates | None
    acked: Rates | None
    retried: Rates | None
    dead: Rates | None
    dead_by_reason: dict[str, int] | None
    readers: list[ReaderStatistics]


class LagHistoryPoint(msgspec.Struct, frozen=True):
    """A stretch of time that begins at `at_ms`; without samples everything else is null.

    `committed` and `max_offset` are sums over the queues at its last sample.
    """

    at_ms: Milliseconds
    samples: int
    count_max: int | None
    count_avg: float | None
    oldest_age_max_ms: int | None
    inflight_max: int | None
    retry_waiting_max: int | None
    dead_max: int | None
    committed: Int64 | None
    max_offset: Int64 | None


class LagHistory(msgspec.Struct, frozen=True):
    """A group's lag over time, in points `step_ms` apart."""

    group: str
    from_ms: Milliseconds
    to_ms: Milliseconds
    step_ms: int
    points: list[LagHistoryPoint]
    damaged: Annotated[int, Meta(description="Blocks of the history that could not be read.")]
