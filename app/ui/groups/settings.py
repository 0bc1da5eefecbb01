"""The settings of a consumer group, pausing it, and deleting it."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import convert, to_builtins
from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.rows import actor_at
from app.ui.framework import forms, pages, preferences
from app.ui.framework.console import client_of
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.typed_time import moment_text
from app.ui.framework.zones import Zone
from app.ui.groups import policy as group_policy
from app.ui.groups.confirm import Confirmation, ask
from app.ui.groups.head import GroupHead, head_of, topics_of_group
from engine.broker import GroupConfig
from engine.errors import Forbidden, Invalid
from kitemq.model.groups import GroupSettings, Mode, RetryPolicy, StartAt, Strategy

FIELDS = (
    *("retry_max", "start", "start_at", "mode", "strategy", "rooms", "dead_letters", "ordered"),
    *group_policy.FIELDS,
)
NAMES = {**group_policy.ENGINE_NAMES, "start_at_ms": "start_at"}
RETRY_MAX_LIMIT = 10_000


@dataclass(frozen=True)
class PauseRow:
    """A topic of the group, and whether it is delivered."""

    topic: str
    is_paused: bool
    lag: int


@dataclass(frozen=True)
class GroupConfigPage:
    """The context of `group_config.html`."""

    head: GroupHead
    tab: str
    form: Form
    topics: Sequence[PauseRow]
    inflight: int


@dataclass(frozen=True)
class GroupDeletion:
    """The context of `group_delete.html`: what a deletion removes and keeps."""

    head: GroupHead
    form: Form
    queues: int
    topics: int
    lag: int
    inflight: int
    retry_waiting: int
    retry_messages: int
    rate: float


async def show(request: Request) -> Response:
    """GET /groups/{group}/config"""
    config = pages.console_of(request).broker.group(request.path_params["group"])
    zone = preferences.read(request).zone
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
            **group_policy.values_of(config.retry_policy),
        }
    )
    return await _config_page(request, config, form)


async def change(request: Request) -> Response:
    """POST /groups/{group}/config"""
    console = pages.console_of(request)
    config = console.broker.group(request.path_params["group"])
    posted = await forms.read(request)
    form = forms.fill(posted, FIELDS)
    changes = _changes(form, posted.one("zone"), preferences.read(request).zone)
    if form.is_wrong:
        return await _config_page(request, config, form, 422)
    try:
        await services_of(request.scope).groups.change(
            actor_at(client_of(request)), config.name, changes
        )
    except (Invalid, Forbidden) as error:
        form.blame(error, NAMES)
        return await _config_page(request, config, form, 422)
    head = head_of(console, config, console.broker.lag(config.name))
    return forms.go(request, f"{head.path}/config?done=changed")


def _changes(form: Form, zone_name: str, display_zone: Zone) -> GroupSettings:
    start = StartAt(form.choice("start", _("Begins at"), tuple(StartAt)))
    start_at_ms = 0
    if start is StartAt.TIME:
        start_at_ms = form.moment("start_at", zone_name, display_zone) or 1
    rooms = tuple(room.strip() for room in form.values["rooms"].split(",") if room.strip())
    return GroupSettings(
        retry_max=form.number("retry_max", _("Retries"), 0, RETRY_MAX_LIMIT),
        start=start,
        start_at_ms=start_at_ms,
        dead_letters=form.choice("dead_letters", _("Dead letters"), ("keep", "drop")) == "keep",
        mode=Mode(form.choice("mode", _("Mode"), tuple(Mode))),
        retry_policy=convert(to_builtins(group_policy.read(form)), RetryPolicy),
        strategy=Strategy(form.choice("strategy", _("Strategy"), tuple(Strategy))),
        rooms=rooms,
        ordered=form.choice("ordered", _("Order"), ("no", "yes")) == "yes",
    )


async def _config_page(
    request: Request, config: GroupConfig, form: Form, status: int = 200
) -> Response:
    console = pages.console_of(request)
    lag = console.broker.lag(config.name)
    unread: dict[str, int] = {}
    for queue in lag.queues:
        unread[queue.topic] = unread.get(queue.topic, 0) + queue.count
    context = GroupConfigPage(
        head=head_of(console, config, lag),
        tab="config",
        form=form,
        topics=[
            PauseRow(topic, topic in config.paused_topics, unread.get(topic, 0))
            for topic in topics_of_group(console, config, lag)
        ],
        inflight=lag.inflight,
    )
    return await pages.respond(
        request, "group_config.html", context, title=config.name, section="groups", status=status
    )


async def pause_page(request: Request) -> Response:
    """GET /groups/{group}/pause, with ?topic= for one topic: ask before pausing."""
    console = pages.console_of(request)
    config = console.broker.group(request.path_params["group"])
    topic = request.query_params.get("topic", "")
    lag = console.broker.lag(config.name)
    places = [queue for queue in lag.queues if topic in ("", queue.topic)]
    unread = sum(queue.count for queue in places)
    inflight = sum(queue.inflight for queue in places)
    members = console.broker.members.count(config.name)
    what = _("topic %(topic)s", topic=topic) if topic else _("the whole group")
    impact = [
        _(
            "Nothing more of %(what)s is handed out: %(unread)s unread messages wait, "
            "and what comes.",
            what=what,
            unread=f"{unread:,}",
        ),
        _(
            "%(inflight)s messages that are with clients can still be acknowledged or come back.",
            inflight=f"{inflight:,}",
        ),
        _(
            "Receives and pulls are answered 403; %(members)s members are alive now. "
            "WebSocket subscriptions stay open and go on by themselves afterwards.",
            members=f"{members:,}",
        ),
    ]
    question = _("Pause %(what)s?", what=what)
    return await ask(
        request, config, Confirmation("pause", question, impact, _("Pause"), {"topic": topic})
    )


async def pause(request: Request) -> Response:
    """POST /groups/{group}/pause"""
    config, topic = await _posted_topic(request)
    await services_of(request.scope).groups.pause(actor_at(client_of(request)), config.name, topic)
    return _back(request, config, "paused")


async def resume_page(request: Request) -> Response:
    """GET /groups/{group}/resume, with ?topic= for one topic: ask before resuming."""
    console = pages.console_of(request)
    config = console.broker.group(request.path_params["group"])
    topic = request.query_params.get("topic", "")
    queues = console.broker.lag(config.name).queues
    unread = sum(queue.count for queue in queues if topic in ("", queue.topic))
    what = _("topic %(topic)s", topic=topic) if topic else _("the group")
    impact = [
        _("%(unread)s unread messages are handed out again to whoever asks.", unread=f"{unread:,}")
    ]
    if config.paused_topics and not topic:
        names = ", ".join(config.paused_topics)
        impact.append(_("Topics that are paused by themselves stay so: %(names)s.", names=names))
    question = _("Resume %(what)s?", what=what)
    return await ask(
        request, config, Confirmation("resume", question, impact, _("Resume"), {"topic": topic})
    )


async def resume(request: Request) -> Response:
    """POST /groups/{group}/resume"""
    config, topic = await _posted_topic(request)
    await services_of(request.scope).groups.resume(actor_at(client_of(request)), config.name, topic)
    return _back(request, config, "resumed")


async def delete_page(request: Request) -> Response:
    """GET /groups/{group}/delete: ask before deleting, and show what is lost."""
    config = pages.console_of(request).broker.group(request.path_params["group"])
    return await _delete_page(request, config, Form({"confirm": ""}))


async def delete(request: Request) -> Response:
    """POST /groups/{group}/delete: delete the group if the form repeats its name."""
    config = pages.console_of(request).broker.group(request.path_params["group"])
    form = forms.fill(await forms.read(request), ("confirm",))
    if form.values["confirm"].strip() != config.name:
        form.refuse("confirm", _("That is not the group's name; nothing was deleted."))
        return await _delete_page(request, config, form, 422)
    await services_of(request.scope).groups.delete(actor_at(client_of(request)), config.name)
    return forms.go(request, "/groups?done=deleted")


async def _delete_page(
    request: Request, config: GroupConfig, form: Form, status: int = 200
) -> Response:
    console = pages.console_of(request)
    lag = console.broker.lag(config.name)
    head = head_of(console, config, lag)
    places = [queue.topic for queue in lag.queues if queue.topic != head.retry_topic]
    retries = console.broker.topic_stats(head.retry_topic).messages if head.has_retry_topic else 0
    context = GroupDeletion(
        head=head,
        form=form,
        queues=len(places),
        topics=len(set(places)),
        lag=lag.count,
        inflight=lag.inflight,
        retry_waiting=lag.retry_waiting,
        retry_messages=retries,
        rate=console.meter.group_rate(config.name),
    )
    title = _("Delete %(name)s", name=config.name)
    return await pages.respond(
        request, "group_delete.html", context, title=title, section="groups", status=status
    )


async def _posted_topic(request: Request) -> tuple[GroupConfig, str]:
    config = pages.console_of(request).broker.group(request.path_params["group"])
    return config, (await forms.read(request)).one("topic")


def _back(request: Request, config: GroupConfig, done: str) -> Response:
    console = pages.console_of(request)
    head = head_of(console, config, console.broker.lag(config.name))
    return forms.go(request, f"{head.path}/config?done={done}")
