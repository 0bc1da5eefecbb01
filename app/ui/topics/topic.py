"""The pages of one topic: queues, readers, configuration, and deletion."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from starlette.responses import Response

from app.monitoring import sparkline
from app.monitoring.sparkline import Sparkline
from app.pause import paced
from app.ui.framework import forms
from app.ui.framework.console import Console
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.groups.status import StatusView, view_of
from app.ui.topics import fields as topic_fields
from app.ui.topics.defaults import PERMISSIONS, InForce, in_force
from app.ui.topics.head import TopicTab, head_of, respond, topic_of
from app.ui.topics.sizes import NO_SIZE, QUEUE_MESSAGES_MAX, Size, size_of
from app.ui.topics.topics import DURABILITIES, SettingFields
from engine.broker import QueueContent, QueueStats, TopicConfig, TopicMetrics, TopicStats, total
from engine.config import EngineConfig
from engine.errors import Forbidden, Invalid, NotFound
from kitemq.model.conversion import convert
from kitemq.model.topics import TopicSettings

AGE_MAX_MS = 2_000
TRAFFIC = "#topic-traffic"  # the element of the table of rates
QUEUES_SHOWN_MAX = 200


class ConfigFields(SettingFields, frozen=True, rename={"retention_ms": "retention"}):
    """The form for a topic's settings."""

    retention_ms: Annotated[int | None, topic_fields.retention_ms] = None
    trace_sample: Annotated[float | None, topic_fields.share_of] = None


class ListedQueue(QueueStats, frozen=True, kw_only=True):
    """A queue of the topic, its `share` of the messages in the fullest one.

    `messages` is None for a queue whose figures are unknown.
    """

    messages: int | None
    share: float = 0.0
    first_ms: int | None = None
    size: Size = NO_SIZE


@dataclass(frozen=True)
class TopicOverview(TopicTab):
    """The context of `topic.html`.

    `figures` change all the time. They do not count when a fragment is compared for changes; the
    one table that shows them uses `moving`.
    """

    rate: float | None
    history: Sparkline
    history_counts: list[int]
    last_ms: int | None
    worst_lag: int | None
    queues: list[ListedQueue]
    queues_total: int
    size: Size
    figures: TopicMetrics | None = field(repr=False)
    since_ms: int
    moving: str


@dataclass(frozen=True)
class Reader:
    """A group that reads the topic."""

    group: str
    lag: int
    inflight: int | None
    oldest_ms: int | None
    rate: float | None
    is_ordered: bool
    status: StatusView | None
    unknown: str


@dataclass(frozen=True)
class TopicReaders(TopicTab):
    """The context of `topic_groups.html`."""

    readers: list[Reader]
    readers_total: int
    as_of_ms: int


@dataclass(frozen=True)
class TopicConfigPage(TopicTab):
    """The context of `topic_config.html`."""

    form: Form
    config: TopicConfig
    defaults: EngineConfig = field(repr=False)
    in_force: list[InForce]
    permissions: tuple[tuple[str, str], ...] = PERMISSIONS
    durabilities: tuple[tuple[str, str], ...] = DURABILITIES


@dataclass(frozen=True)
class TopicDeletion(TopicTab):
    """The context of `topic_delete.html`: what a deletion removes."""

    form: Form
    last_ms: int | None
    rate: float | None
    readers: list[tuple[str, int]]


async def show(request: PageRequest) -> Response:
    """GET /topics/{topic}"""
    console = request.console
    config = await topic_of(request)
    stats = await console.administration.present_stats(config.name)
    fullest = max((queue.max_offset - queue.min_offset for queue in stats.queues), default=0)
    counts = console.meter.topic_history(config.name)
    figures = console.meter.topic(config.name)
    queues, size = await _queues(console, config.name, stats, fullest)
    missing = _missing(config, stats)
    queues = sorted([*queues, *missing], key=lambda each: each.queue)[:QUEUES_SHOWN_MAX]
    context = TopicOverview(
        head=await head_of(request, config, "overview"),
        rate=console.meter.topic_rate(config.name),
        history=sparkline.line(counts, 240, 48),
        history_counts=counts,
        last_ms=_last_ms(stats),
        worst_lag=console.sampler.snapshot.worst_lag(config.name),
        queues=queues,
        queues_total=len(stats.queues) + len(missing),
        size=size,
        figures=figures,
        since_ms=console.meter.since_ms() or console.started_ms,
        moving=repr(figures) if request.headers.get("hx-target", "").endswith(TRAFFIC) else "",
    )
    return await respond(request, "topic.html", context, is_live=True)


async def _queues(
    console: Console, topic: str, stats: TopicStats, fullest: int
) -> tuple[list[ListedQueue], Size]:
    """The first queues of a topic, and an estimate of the topic's size from them."""
    rows: list[ListedQueue] = []
    contents: list[QueueContent] = []
    async for queue in paced(stats.queues[:QUEUES_SHOWN_MAX]):
        content = await console.messaging.queue_content(
            topic, queue.queue, count_max=QUEUE_MESSAGES_MAX
        )
        contents.append(content)
        messages = queue.max_offset - queue.min_offset
        rows.append(
            convert(
                queue,
                ListedQueue,
                messages=messages,
                share=messages / fullest if fullest else 0.0,
                first_ms=content.first_stored_ms,
                size=size_of([content], messages),
            )
        )
    return rows, size_of(contents, stats.messages)


def _missing(config: TopicConfig, stats: TopicStats) -> list[ListedQueue]:
    """The queues of a topic that are not there just now."""
    if not stats.unknown:
        return []
    there = {each.queue for each in stats.queues}
    numbers = range(max(config.read_queues, config.write_queues))
    return [ListedQueue(each, 0, 0, None, messages=None) for each in numbers if each not in there]


def _last_ms(stats: TopicStats) -> int | None:
    return max((q.last_stored_ms for q in stats.queues if q.last_stored_ms), default=None)


async def groups(request: PageRequest) -> Response:
    """GET /topics/{topic}/groups"""
    console = request.console
    config = await topic_of(request)
    snapshot = await console.sampler.fresh(AGE_MAX_MS)
    lags = snapshot.readers(config.name)
    names = {*lags, *await console.administration.groups_of(config.name)}
    behind = sorted(names, key=lambda group: (-lags.get(group, 0), group))
    readers: list[Reader] = []
    async for group in paced(behind[:QUEUES_SHOWN_MAX]):
        with contextlib.suppress(NotFound):  # deleted since the snapshot
            readers.append(await _reader(console, config.name, group))
    context = TopicReaders(
        head=await head_of(request, config, "groups"),
        readers=readers,
        readers_total=len(behind),
        as_of_ms=snapshot.taken_ms,
    )
    return await respond(request, "topic_groups.html", context, is_live=True)


async def _reader(console: Console, topic: str, group: str) -> Reader:
    config = await console.administration.group(group)
    lag = await console.administration.present_lag(group)
    queues = [queue for queue in lag.queues if queue.topic == topic]
    figures, snapshot = await console.sampler.read(group, lag), console.sampler.snapshot
    return Reader(
        group=group,
        lag=sum(queue.count for queue in queues),
        inflight=total(queue.inflight for queue in queues),
        oldest_ms=min((q.oldest_ms for q in queues if q.oldest_ms is not None), default=None),
        rate=figures.pace,
        is_ordered=config.ordered,
        status=None if lag.unknown else view_of(group, snapshot.standing(config, figures)),
        unknown=lag.unknown,
    )


async def config_page(request: PageRequest) -> Response:
    """GET /topics/{topic}/config"""
    config = await topic_of(request)
    values = {
        "read_queues": str(config.read_queues),
        "write_queues": str(config.write_queues),
        "permission": str(config.permission),
        "durability": config.durability or "",
        "retention": topic_fields.retention_text(config.retention_ms),
        "trace_sample": topic_fields.percent_text(config.trace_sample),
    }
    return await _config_page(request, config, Form(values))


async def change(request: PageRequest) -> Response:
    """POST /topics/{topic}/config"""
    config = await topic_of(request)
    form, fields = await request.read_form(ConfigFields)
    if form.is_wrong:
        return await _config_page(request, config, form)
    topics, actor = request.services.topics, request.actor
    try:
        await topics.change(actor, config.name, convert(fields, TopicSettings))
    except (Invalid, Forbidden) as error:
        form.blame(error, {"retention_ms": "retention"})
        return await _config_page(request, config, form)
    return forms.go(request, f"/topics/{segment(config.name)}/config?done=changed")


async def _config_page(request: PageRequest, config: TopicConfig, form: Form) -> Response:
    settings = request.console.host.config
    context = TopicConfigPage(
        head=await head_of(request, config, "config"),
        form=form,
        config=config,
        defaults=settings,
        in_force=in_force(config, settings),
    )
    return await respond(request, "topic_config.html", context)


async def delete(request: PageRequest) -> Response:
    """POST /topics/{topic}/delete: delete the topic if the form repeats its name."""
    config = await topic_of(request)
    refusal = _("That is not the topic's name; not deleted.")
    form = await forms.confirmation(request, config.name, refusal)
    if form.is_wrong:
        return await delete_page(request, form)
    await request.services.topics.delete(request.actor, config.name)
    return forms.go(request, "/topics?done=deleted")


async def _readers(
    console: Console, topic: str, sampled: Mapping[str, int]
) -> list[tuple[str, int]]:
    """The groups that read a topic with their lag, the largest lag first.

    Groups that are newer than the last sample are read from the engine.
    """
    lags = dict(sampled)
    for group in await console.administration.groups_of(topic):
        if group not in lags:
            queues = (await console.administration.lag(group)).queues
            lags[group] = sum(queue.count for queue in queues if queue.topic == topic)
    return sorted(lags.items(), key=lambda item: -item[1])


async def delete_page(request: PageRequest, form: Form | None = None) -> Response:
    """GET /topics/{topic}/delete: ask before deleting, and show what is lost."""
    console, config = request.console, await topic_of(request)
    snapshot = await console.sampler.fresh(AGE_MAX_MS)
    context = TopicDeletion(
        head=await head_of(request, config),
        form=form or Form({"confirm": ""}),
        last_ms=_last_ms(await console.administration.topic_stats(config.name)),
        rate=console.meter.topic_rate(config.name),
        readers=await _readers(console, config.name, snapshot.readers(config.name)),
    )
    title = _("Delete %(name)s", name=config.name)
    return await respond(request, "topic_delete.html", context, title=title)
