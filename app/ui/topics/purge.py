"""Purging a topic: the extent, a preview by queue, and the confirmation by name."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.rows import actor_at
from app.services.retention import Extent
from app.ui.framework import forms, pages, preferences
from app.ui.framework.console import client_of
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.templating import segment
from app.ui.framework.zones import Zone
from app.ui.topics.head import Head, head_of
from engine.broker import Purge, TopicConfig
from engine.errors import Invalid, QueueNotFound
from kitemq.model.numbers import is_whole

FIELDS = ("how", "before", "zone", "queue", "offset", "confirm", "shown")
HOW = (
    ("all", N_("everything that can be read now")),
    ("before", N_("what was stored before a time")),
    ("offset", N_("one queue, up to an offset")),
)
QUEUES_SHOWN_MAX = 200


@dataclass(frozen=True)
class TopicPurge:
    """The context of `topic_purge.html`; `preview` is None without an extent."""

    head: Head
    tab: str
    form: Form
    preview: Purge | None
    shown: str
    queues: list[int]
    shown_max: int = QUEUES_SHOWN_MAX
    ways: tuple[tuple[str, str], ...] = HOW


async def show(request: Request) -> Response:
    """GET /topics/{topic}/purge: choose the extent and preview it."""
    console = pages.console_of(request)
    config = console.broker.topic(request.path_params["topic"])
    values = request.query_params
    form = Form({name: values.get(name, "") for name in FIELDS})
    form.values["confirm"] = ""
    if "how" not in values:
        form.values["how"] = "before"
        return await _page(request, config, form, None, 200)
    preview = _preview(request, config, form)
    return await _page(request, config, form, preview, 422 if form.is_wrong else 200)


async def purge(request: Request) -> Response:
    """POST /topics/{topic}/purge: purge exactly the preview if the form repeats the name."""
    console = pages.console_of(request)
    config = console.broker.topic(request.path_params["topic"])
    form = forms.fill(await forms.read(request), FIELDS)
    offsets = _offsets(form.values["shown"])
    if form.values["confirm"].strip() != config.name:
        form.refuse("confirm", _("That is not the topic's name; nothing was purged."))
    if form.is_wrong or not offsets:
        preview = _preview(request, config, form)
        return await _page(request, config, form, preview, 422)
    purges = services_of(request.scope).purges
    try:
        await purges.purge(actor_at(client_of(request)), config.name, Extent(before_offset=offsets))
    except (Invalid, QueueNotFound) as error:
        form.error = _(
            "%(detail)s: the topic is another by now.",
            detail=error.detail[:1].upper() + error.detail[1:],
        )
        form.values["confirm"] = ""
        return await _page(request, config, form, _preview(request, config, form), 409)
    return forms.go(request, f"/topics/{segment(config.name)}?done=purged")


def _offsets(text: str) -> dict[int, int]:
    """Parse the new beginnings of the queues in the preview, "0:12 3:7"; {} if invalid."""
    pairs = [part.partition(":") for part in text.split()]
    numbers = [number for queue, __, offset in pairs for number in (queue, offset)]
    if not all(is_whole(each) for each in numbers):
        return {}
    return {int(queue): int(offset) for queue, __, offset in pairs}


def _preview(request: Request, config: TopicConfig, form: Form) -> Purge | None:
    """The preview; None after an error at a field."""
    extent = _extent(form, preferences.read(request).zone)
    if extent is None:
        return None
    purges = services_of(request.scope).purges
    try:
        return purges.preview(config.name, extent)
    except (Invalid, QueueNotFound) as error:
        form.blame(error, {form.values["queue"]: "offset"})
        return None


def _extent(form: Form, display_zone: Zone) -> Extent | None:
    how = form.choice("how", _("How much"), tuple(value for value, __ in HOW))
    if how == "all" and not form.is_wrong:
        return Extent(everything=True)
    if how == "before":
        at_ms = form.moment("before", form.values["zone"], display_zone)
        form.values["zone"] = display_zone.name
        return None if at_ms is None or form.is_wrong else Extent(before_ms=at_ms)
    queue = form.number("queue", _("The queue"), 0, 65_535)
    offset = form.number("offset", _("The offset"), 0, 2**53)
    return None if form.is_wrong else Extent(before_offset={queue: offset})


async def _page(
    request: Request, config: TopicConfig, form: Form, preview: Purge | None, status: int
) -> Response:
    context = TopicPurge(
        head=await head_of(request, config),
        tab="purge",
        form=form,
        preview=preview,
        shown=" ".join(f"{row.queue}:{row.to_offset}" for row in preview.queues) if preview else "",
        queues=list(range(max(config.read_queues, config.write_queues))),
    )
    title = _("Purge %(name)s", name=config.name)
    return await pages.respond(
        request, "topic_purge.html", context, title=title, section="topics", status=status
    )
