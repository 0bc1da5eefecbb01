"""Statistics: rates and totals, how long sends took, and the lag of groups over time."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.security.access import READ_SERVER, Action, Needs, ResourceKind
from engine.broker import (
    ROCKETMQ_LABELS,
    BrokerMetrics,
    LagHistoryPage,
    LagHistoryRetention,
    LatencySpreads,
    QueueMetrics,
    ReaderMetrics,
    Spread,
    TrafficRates,
)

TAG = "statistics"
HOUR_MS = 3_600_000
POINTS_MAX = 2_000
TIME_MAX = 2**53

Milliseconds = Annotated[
    int, Meta(ge=0, le=TIME_MAX, description="Milliseconds since 1970-01-01 UTC.")
]


class Rates(msgspec.Struct):
    """Total since the server started, and averages per second.

    Each is over the last so much time, and at most a tenth of it more (a minute: ten seconds).
    """

    total: int
    second: float
    minute: float
    ten_minutes: float
    day: float


class TrafficOut(msgspec.Struct):
    """Messages, and bytes of their records, that came in and were handed out."""

    messages_in: Rates
    bytes_in: Rates
    messages_out: Rates
    bytes_out: Rates


class SpreadOut(msgspec.Struct):
    """How values are spread; percentiles are at most an eighth too high, the maximum is exact."""

    count: int
    mean: float
    p50: int
    p95: int
    p99: int
    p999: int
    max: int


class LatencyOut(msgspec.Struct):
    """Microseconds over the last one to two minutes, and since the start.

    `distribution` counts the last whole minute in Apache RocketMQ's thirteen buckets.
    """

    recent: SpreadOut
    ever: SpreadOut
    distribution: dict[str, int]


class PutLatencyOut(msgspec.Struct):
    """How long a send took: until it was stored, and where asked for, until it was on the disk."""

    stored: LatencyOut
    flushed: LatencyOut


class LagHistoryState(msgspec.Struct):
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


class BrokerStatistics(msgspec.Struct):
    """The whole broker. What comes in counts for topics of users, the engine's own moves do not."""

    since_ms: Milliseconds
    traffic: TrafficOut
    acked: Rates
    retried: Rates
    dead: Rates
    refused: Rates
    refused_by_code: dict[str, int]
    put_latency: PutLatencyOut
    message_size: Annotated[
        SpreadOut,
        Meta(description="Bytes of body, by one message of each send, the last minutes."),
    ]
    lag_history: LagHistoryState


class QueueStatistics(msgspec.Struct):
    """One queue."""

    queue: int
    traffic: TrafficOut


class ReaderStatistics(msgspec.Struct):
    """What a group took from a topic; its retries are those of the topic `%RETRY%group`."""

    topic: str
    group: str
    messages_out: Rates
    bytes_out: Rates
    acked: Rates
    retried: Rates
    dead: Rates


class TopicStatistics(msgspec.Struct):
    """A topic, those of its queues that saw traffic, and the groups that read it."""

    topic: str
    traffic: TrafficOut
    refused: Rates
    queues: list[QueueStatistics]
    readers: list[ReaderStatistics]


class GroupStatistics(msgspec.Struct):
    """A group over all its topics, and for each of them."""

    group: str
    messages_out: Rates
    bytes_out: Rates
    acked: Rates
    retried: Rates
    dead: Rates
    dead_by_reason: dict[str, int]
    readers: list[ReaderStatistics]


class LagHistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which topic or queue of the group, from when to when, in how many points at most."""

    topic: Annotated[str, Meta(description="All topics of the group unless given.")] = ""
    queue: (
        Annotated[int, Meta(ge=0, le=65535, description="Of the topic; all unless given.")] | None
    ) = None
    from_ms: Annotated[
        int, Meta(ge=-TIME_MAX, le=TIME_MAX, description="Below 1: so much before `to_ms`.")
    ] = -HOUR_MS
    to_ms: Annotated[int, Meta(ge=0, le=TIME_MAX, description="0 is now.")] = 0
    points: Annotated[int, Meta(ge=1, le=POINTS_MAX, description="At most so many.")] = 300


class LagPointOut(msgspec.Struct):
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
    committed: str | None
    max_offset: str | None


class LagHistory(msgspec.Struct):
    """A group's lag over time, in points `step_ms` apart."""

    group: str
    from_ms: Milliseconds
    to_ms: Milliseconds
    step_ms: int
    points: list[LagPointOut]
    damaged: Annotated[int, Meta(description="Blocks of the history that could not be read.")]


@operation(
    "GET",
    f"{API}/statistics",
    tag=TAG,
    needs=READ_SERVER,
    answer=BrokerStatistics,
    example="curl $URL/api/v1/statistics",
)
async def get_statistics(call: Call[None, None]) -> BrokerStatistics:
    """See what the whole broker does, and how long sends take.

    Everything is counted since the server started; only the history of lag is older.
    """
    statistics = call.host.broker.statistics
    return _broker_out(statistics.broker(), statistics.lag_keeping())


@operation(
    "GET",
    f"{API}/topics/{{topic}}/statistics",
    tag=TAG,
    needs=Needs(Action.READ, ResourceKind.TOPIC, "topic"),
    answer=TopicStatistics,
    errors=(404,),
    example="curl $URL/api/v1/topics/orders/statistics",
)
async def get_topic_statistics(call: Call[None, None]) -> TopicStatistics:
    """See what goes into a topic and what is taken from it, by queue and by group."""
    broker = call.host.broker
    name = broker.topic(call.path("topic")).name
    found = broker.statistics.topic(name)
    return TopicStatistics(
        name,
        _traffic_out(found.traffic),
        Rates(*found.refused),
        [_queue_out(queue) for queue in found.queues],
        [_reader_out(reader) for reader in found.readers],
    )


@operation(
    "GET",
    f"{API}/groups/{{group}}/statistics",
    tag=TAG,
    needs=Needs(Action.READ, ResourceKind.GROUP, "group"),
    answer=GroupStatistics,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing/statistics",
)
async def get_group_statistics(call: Call[None, None]) -> GroupStatistics:
    """See what a group takes, acknowledges, fails with and gives up, by topic."""
    broker = call.host.broker
    name = broker.group(call.path("group")).name
    found = broker.statistics.group(name)
    return GroupStatistics(
        name,
        Rates(*found.messages_out),
        Rates(*found.bytes_out),
        Rates(*found.acked),
        Rates(*found.retried),
        Rates(*found.dead),
        found.dead_by_reason,
        [_reader_out(reader) for reader in found.readers],
    )


@operation(
    "GET",
    f"{API}/groups/{{group}}/lag/history",
    tag=TAG,
    needs=Needs(Action.READ, ResourceKind.GROUP, "group"),
    query=LagHistoryQuery,
    answer=LagHistory,
    errors=(404,),
    example="curl '$URL/api/v1/groups/billing/lag/history?from_ms=-3600000&points=60'",
)
async def get_lag_history(call: Call[LagHistoryQuery, None]) -> LagHistory:
    """See how far a group was behind over time, at most a month back.

    Lag is sampled every ten seconds unless the setting `lag_sample_s` says otherwise. Where there
    are more samples than points, each point tells the highest and the mean of its stretch. A
    stretch without a sample (the server did not run) has null, not 0.
    """
    broker, query = call.host.broker, call.query
    group = broker.group(call.path("group")).name
    to_ms = query.to_ms or call.host.clock.now_ms() + 1
    from_ms = query.from_ms if query.from_ms > 0 else max(0, to_ms + query.from_ms)
    found: asyncio.Future[LagHistoryPage] = asyncio.get_running_loop().create_future()

    def done(page: LagHistoryPage) -> None:
        if not found.done():
            found.set_result(page)

    broker.statistics.lag_history(
        group,
        done,
        from_ms=from_ms,
        to_ms=to_ms,
        topic=query.topic or None,
        queue=query.queue,
        points_max=query.points,
    )
    return _history_out(group, await found)


def _broker_out(found: BrokerMetrics, keeping: LagHistoryRetention) -> BrokerStatistics:
    latency = found.put_latency
    return BrokerStatistics(
        found.since_ms,
        _traffic_out(found.traffic),
        Rates(*found.acked),
        Rates(*found.retried),
        Rates(*found.dead),
        Rates(*found.refused),
        found.refused_by_code,
        PutLatencyOut(_latency_out(latency.stored), _latency_out(latency.flushed)),
        _spread_out(found.message_size),
        LagHistoryState(
            keeping.interval_s,
            keeping.days,
            keeping.oldest_ms,
            keeping.samples,
            keeping.size_bytes,
            keeping.size_bytes_max,
            keeping.rows,
            keeping.rounds_lost,
            keeping.failure,
        ),
    )


def _traffic_out(found: TrafficRates) -> TrafficOut:
    return TrafficOut(
        Rates(*found.messages_in),
        Rates(*found.bytes_in),
        Rates(*found.messages_out),
        Rates(*found.bytes_out),
    )


def _queue_out(found: QueueMetrics) -> QueueStatistics:
    return QueueStatistics(found.queue, _traffic_out(found.traffic))


def _reader_out(found: ReaderMetrics) -> ReaderStatistics:
    return ReaderStatistics(
        found.topic,
        found.group,
        Rates(*found.messages_out),
        Rates(*found.bytes_out),
        Rates(*found.acked),
        Rates(*found.retried),
        Rates(*found.dead),
    )


def _spread_out(found: Spread) -> SpreadOut:
    return SpreadOut(
        found.count, found.mean, found.p50, found.p95, found.p99, found.p999, found.maximum
    )


def _latency_out(found: LatencySpreads) -> LatencyOut:
    distribution = dict(zip(ROCKETMQ_LABELS, found.distribution, strict=True))
    return LatencyOut(_spread_out(found.recent), _spread_out(found.ever), distribution)


def _history_out(group: str, page: LagHistoryPage) -> LagHistory:
    return LagHistory(
        group,
        page.from_ms,
        page.to_ms,
        page.step_ms,
        [
            LagPointOut(
                point.at_ms,
                point.samples,
                point.count_max,
                point.count_avg,
                point.oldest_age_max_ms,
                point.inflight_max,
                point.retry_waiting_max,
                point.dead_max,
                None if point.committed is None else str(point.committed),
                None if point.max_offset is None else str(point.max_offset),
            )
            for point in page.points
        ],
        page.damaged,
    )


OPERATIONS = (get_statistics, get_topic_statistics, get_group_statistics, get_lag_history)
