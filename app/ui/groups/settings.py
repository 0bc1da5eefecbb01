"""The settings of a consumer group, pausing it, and deleting it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.db.rows import Actor
from app.ui.framework import formats, forms, typed_forms
from app.ui.framework.console import Console
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Moment
from app.ui.framework.typed_time import moment_text
from app.ui.framework.zones import Zone
from app.ui.groups import policy as group_policy
from app.ui.groups.confirm import Confirmation, ask
from app.ui.groups.head import (
    GroupTab,
    group_of,
    head_of,
    path_of,
    respond,
    topics_of_group,
)
from engine.broker import GroupConfig, QueueLag, total
from engine.errors import Forbidden, Invalid
from kitemq.model.conversion import convert
from kitemq.model.groups import GroupSettings, Mode, StartAt, Strategy

NAMES = {**group_policy.ENGINE_NAMES, "start_at_ms": "start_at"}


def rooms_of(text: str) -> tuple[str, ...]:
    """Typed names of machine rooms."""
    return tuple(room.strip() for room in text.split(",") if room.strip())


class GroupFields(Fields, frozen=True):
    """The form for a group's settings; a time to begin at and a policy have their own."""

    retry_max: Annotated[int, Meta(title=N_("Retries"), ge=0, le=10_000)]
    start: Annotated[StartAt, Meta(title=N_("Begins at"))]
    start_at: str
    zone: str
    mode: Annotated[Mode, Meta(title=N_("Mode"))]
    strategy: Annotated[Strategy, Meta(title=N_("Strategy"))]
    rooms: Annotated[tuple[str, ...], rooms_of]
    dead_letters: Annotated[Literal["keep", "drop"], Meta(title=N_("Dead letters"))]
    ordered: Annotated[Literal["no", "yes"], Meta(title=N_("Order"))]
    dismiss_when_resent: Annotated[Literal["no", "yes"], Meta(title=N_("Resent dead letters"))]
    policy: str
    initial: str
    longest: str
    multiplier: str
    steps: str


class StartFields(Fields, frozen=True):
    """The time of a group that begins at a time."""

    start_at: Moment


@dataclass(frozen=True)
class PauseRow:
    """A topic of the group, and whether it is delivered."""

    topic: str
    is_paused: bool
    lag: int


@dataclass(frozen=True)
class GroupConfigPage(GroupTab):
    """The context of `group_config.html`."""

    form: Form
    topics: Sequence[PauseRow]
    inflight: int | None


@dataclass(frozen=True)
class GroupDeletion(GroupTab):
    """The context of `group_delete.html`: what a deletion removes and keeps."""

    form: Form
    queues: int
    topics: int
    lag: int
    inflight: int | None
    retry_waiting: int | None
    retry_messages: int
    rate: float | None


async def show(request: PageRequest) -> Response:
    """GET /groups/{group}/config"""
    config = await group_of(request)
    zone = request.zone
    form = Form(
        {
            "retry_max": str(config.retry_max),
            "start": config.start.value,
            "start_at": moment_text(config.start_at_ms, zone) if config.start_at_ms else "",
            "mode": config.mode.value,
            "strategy": config.strategy.value,
            "rooms": ", ".join(config.rooms),
            "dead_letters": "keep" if config.dead_letters else "drop",
            "ordered": "yes" if config.ordered else "no",
            "dismiss_when_resent": "yes" if config.dismiss_when_resent else "no",
            **group_policy.values_of(config.retry_policy),
        }
    )
    return await _config_page(request, config, form)


async def change(request: PageRequest) -> Response:
    """POST /groups/{group}/config"""
    config = await group_of(request)
    form, fields = await request.read_form(GroupFields)
    changes = _changes(form, fields, request.zone)
    if form.is_wrong:
        return await _config_page(request, config, form)
    groups, actor = request.services.groups, request.actor
    try:
        await groups.change(actor, config.name, changes)
    except (Invalid, Forbidden) as error:
        form.blame(error, NAMES)
        return await _config_page(request, config, form)
    return forms.go(request, f"{path_of(config.name)}/config?done=changed")


def _changes(form: Form, fields: GroupFields, zone: Zone) -> GroupSettings:
    start_at_ms = 0
    if fields.start is StartAt.TIME:
        start_at_ms = typed_forms.parse(form, StartFields, zone).start_at or 1
    return convert(
        fields,
        GroupSettings,
        start_at_ms=start_at_ms,
        dead_letters=fields.dead_letters == "keep",
        retry_policy=group_policy.read(form),
        ordered=fields.ordered == "yes",
        dismiss_when_resent=fields.dismiss_when_resent == "yes",
    )


async def _config_page(request: PageRequest, config: GroupConfig, form: Form) -> Response:
    console = request.console
    lag = await console.administration.present_lag(config.name)
    unread: dict[str, int] = {}
    for queue in lag.queues:
        unread[queue.topic] = unread.get(queue.topic, 0) + queue.count
    context = GroupConfigPage(
        head=await head_of(console, config, "config", lag),
        form=form,
        topics=[
            PauseRow(topic, topic in config.paused_topics, unread.get(topic, 0))
            for topic in await topics_of_group(console, config, lag)
        ],
        inflight=lag.inflight,
    )
    return await respond(request, "group_config.html", context)


async def pause_page(request: PageRequest) -> Response:
    """GET /groups/{group}/pause, with ?topic= for one topic: ask before pausing."""
    console, config = request.console, await group_of(request)
    topic = request.query_params.get("topic", "")
    places = await _places(console, config, topic)
    what = _("topic %(topic)s", topic=topic) if topic else _("the whole group")
    impact = [
        _(
            "Delivery stops for %(what)s: %(unread)s unread messages wait, and new ones.",
            what=what,
            unread=f"{sum(queue.count for queue in places):,}",
        ),
        _(
            "%(inflight)s messages in flight can still be acknowledged or redelivered.",
            inflight=formats.count(total(queue.inflight for queue in places)),
        ),
        _(
            "Receives and pulls get a 403; %(members)s consumers are connected. WebSocket "
            "subscriptions stay open and resume by themselves.",
            members=f"{await console.administration.members.count(config.name):,}",
        ),
    ]
    question, fields = _("Pause %(what)s?", what=what), {"topic": topic}
    return await ask(request, config, Confirmation("pause", question, impact, _("Pause"), fields))


async def resume_page(request: PageRequest) -> Response:
    """GET /groups/{group}/resume, with ?topic= for one topic: ask before resuming."""
    config, topic = await group_of(request), request.query_params.get("topic", "")
    places = await _places(request.console, config, topic)
    unread = sum(queue.count for queue in places)
    impact = [_("%(unread)s unread messages are delivered again.", unread=f"{unread:,}")]
    if config.paused_topics and not topic:
        names = ", ".join(config.paused_topics)
        impact.append(_("Topics paused on their own stay paused: %(names)s.", names=names))
    what = _("topic %(topic)s", topic=topic) if topic else _("the group")
    question, fields = _("Resume %(what)s?", what=what), {"topic": topic}
    return await ask(request, config, Confirmation("resume", question, impact, _("Resume"), fields))


async def _places(console: Console, config: GroupConfig, topic: str) -> list[QueueLag]:
    """The group's lag in the queues of one topic, or in all of them without a topic."""
    lag = await console.administration.lag(config.name)
    return [queue for queue in lag.queues if topic in ("", queue.topic)]


async def pause(request: PageRequest) -> Response:
    """POST /groups/{group}/pause"""
    return await _switch(request, request.services.groups.pause, "paused")


async def resume(request: PageRequest) -> Response:
    """POST /groups/{group}/resume"""
    return await _switch(request, request.services.groups.resume, "resumed")


async def _switch(
    request: PageRequest, switch: Callable[[Actor, str, str], Awaitable[object]], notice: str
) -> Response:
    """Pause or resume the group, or the topic that the form names."""
    name = (await group_of(request)).name
    topic = (await forms.read(request)).one("topic")
    await switch(request.actor, name, topic)
    return forms.go(request, f"{path_of(name)}/config?done={notice}")


async def delete(request: PageRequest) -> Response:
    """POST /groups/{group}/delete: delete the group if the form repeats its name."""
    config = await group_of(request)
    refusal = _("Not deleted. Type the group's name exactly.")
    form = await forms.confirmation(request, config.name, refusal)
    if form.is_wrong:
        return await delete_page(request, form)
    await request.services.groups.delete(request.actor, config.name)
    return forms.go(request, "/groups?done=deleted")


async def delete_page(request: PageRequest, form: Form | None = None) -> Response:
    """GET /groups/{group}/delete: ask before deleting, and show what is lost."""
    console, config = request.console, await group_of(request)
    lag = await console.administration.lag(config.name)
    head = await head_of(console, config, lag=lag)
    places = [queue.topic for queue in lag.queues if queue.topic != head.retry_topic]
    stats_of = console.administration.topic_stats
    retries = (await stats_of(head.retry_topic)).messages if head.has_retry_topic else 0
    context = GroupDeletion(
        head=head,
        form=form or Form({"confirm": ""}),
        queues=len(places),
        topics=len(set(places)),
        lag=lag.count,
        inflight=lag.inflight,
        retry_waiting=lag.retry_waiting,
        retry_messages=retries,
        rate=console.meter.group_rate(config.name),
    )
    title = _("Delete %(name)s", name=config.name)
    return await respond(request, "group_delete.html", context, title=title)
