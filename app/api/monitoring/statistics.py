"""Statistics: rates and totals, how long sends took, and the lag of groups over time."""

import asyncio
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations
from app.security.access import READ_SERVER, Action
from app.tasks import settle
from engine.broker import LagHistoryPage
from kitemq.model.conversion import convert
from kitemq.model.statistics import BrokerStatistics, GroupStatistics, LagHistory, TopicStatistics

operations = Operations("statistics")
HOUR_MS = 3_600_000
POINTS_MAX = 2_000
TIME_MAX = 2**53


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


@operations.get("/statistics", capability="traffic_figures", needs=READ_SERVER)
async def get_statistics(call: Call[None, None]) -> BrokerStatistics:
    """Get the totals and rates of the whole broker, and the latency of sends.

    Everything is counted since the server started; only the history of lag is older. What the
    engine does not tell is null, 503 says that nothing is known just now: a cluster is sampled.
    """
    statistics = call.host.statistics
    lag_history = call.host.lags.lag_keeping()
    return convert(statistics.broker(), BrokerStatistics, lag_history=lag_history)


@operations.get("/topics/{topic}/statistics", capability="traffic_figures", needs=Action.READ)
async def get_topic_statistics(call: Call[None, None]) -> TopicStatistics:
    """Get a topic's rates in and out, by queue and by group."""
    name = (await call.messaging.topic(call.path("topic"))).name
    return convert(call.host.statistics.topic(name), TopicStatistics)


@operations.get("/groups/{group}/statistics", capability="traffic_figures", needs=Action.READ)
async def get_group_statistics(call: Call[None, None]) -> GroupStatistics:
    """Get a group's deliveries, acknowledgements, failures and dead letters, by topic."""
    name = (await call.messaging.group(call.path("group"))).name
    return convert(call.host.statistics.group(name), GroupStatistics)


@operations.get(
    "/groups/{group}/lag/history",
    capability="lag_history",
    needs=Action.READ,
    example="?from_ms=-3600000&points=60",
)
async def get_lag_history(call: Call[LagHistoryQuery, None]) -> LagHistory:
    """Get the lag of a group over time, at most a month back.

    Lag is sampled every ten seconds unless the setting `lag_sample_s` says otherwise. Where there
    are more samples than points, each point tells the highest and the mean of its stretch. A
    stretch without a sample (the server did not run, or its cluster was away) has null, not 0.
    """
    query = call.query
    group = (await call.messaging.group(call.path("group"))).name
    to_ms = query.to_ms or call.host.clock.now_ms() + 1
    from_ms = query.from_ms if query.from_ms > 0 else max(0, to_ms + query.from_ms)
    future: asyncio.Future[LagHistoryPage] = asyncio.get_running_loop().create_future()
    call.host.lags.lag_history(
        group,
        partial(settle, future),
        from_ms=from_ms,
        to_ms=to_ms,
        topic=query.topic or None,
        queue=query.queue,
        points_max=query.points,
    )
    return convert(await future, LagHistory, group=group)
