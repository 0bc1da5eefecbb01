"""The page of a group's retries: waits, unread retries and dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from app.ui.framework.page_request import PageRequest
from app.ui.groups import policy as group_policy
from app.ui.groups.head import GroupTab, group_of, head_of, respond
from engine.broker import RETRY_PREFIX, GroupMetrics, total


@dataclass(frozen=True)
class GroupRetries(GroupTab):
    """The context of `group_retries.html`.

    `waits` precede each retry, `waits_more` counts those not listed. `retry_unread` messages are
    due and wait for a consumer; `retry_messages` and `dead_messages` count the
    messages of the topics, None without a topic. `figures` count since `since_ms`.
    """

    retry_max: int
    policy: str
    waits: Sequence[str]
    waits_more: int
    keeps_dead_letters: bool
    retry_waiting: int | None
    retry_unread: int
    retry_inflight: int | None
    retry_messages: int | None
    dead_messages: int | None
    figures: GroupMetrics | None
    since_ms: int


async def show(request: PageRequest) -> Response:
    """GET /groups/{group}/retries"""
    console = request.console
    config = await group_of(request)
    lag = await console.administration.present_lag(config.name)
    head = await head_of(console, config, "retries", lag)
    stats_of = console.administration.present_stats
    retries = [queue for queue in lag.queues if queue.topic.startswith(RETRY_PREFIX)]
    waits, more = group_policy.waits(config.retry_policy, config.retry_max)
    context = GroupRetries(
        head=head,
        retry_max=config.retry_max,
        policy=group_policy.kind_of(config.retry_policy),
        waits=waits,
        waits_more=more,
        keeps_dead_letters=config.dead_letters,
        retry_waiting=lag.retry_waiting,
        retry_unread=sum(queue.count for queue in retries),
        retry_inflight=None if lag.inflight is None else total(queue.inflight for queue in retries),
        retry_messages=(await stats_of(head.retry_topic)).messages
        if head.has_retry_topic
        else None,
        dead_messages=(await stats_of(head.dead_topic)).messages if head.has_dead_topic else None,
        figures=console.meter.group(config.name),
        since_ms=console.meter.since_ms() or console.started_ms,
    )
    return await respond(request, "group_retries.html", context, is_live=True)
