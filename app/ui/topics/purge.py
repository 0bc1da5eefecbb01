"""Purging a topic: the extent, a preview by queue, and the confirmation by name."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.services.retention import Extent
from app.ui.framework import forms, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields, Moment, Verbatim
from app.ui.framework.zones import Zone
from app.ui.topics.head import TopicTab, head_of, respond, topic_of
from engine.broker import Purge, TopicConfig
from engine.errors import Invalid, QueueNotFound
from kitemq.model.numbers import is_whole

HOW = (
    ("all", N_("all current messages")),
    ("before", N_("messages stored before a time")),
    ("offset", N_("one queue, up to an offset")),
)
QUEUES_SHOWN_MAX = 200


def offsets_of(text: str) -> dict[int, int]:
    """Parse the new beginnings of the queues in the preview, "0:12 3:7"; {} if invalid."""
    pairs = [part.partition(":") for part in text.split()]
    numbers = [number for queue, __, offset in pairs for number in (queue, offset)]
    if not all(is_whole(each) for each in numbers):
        return {}
    return {int(queue): int(offset) for queue, __, offset in pairs}


class PurgeFields(Fields, frozen=True):
    """The form, with what confirms a preview; the fields of an extent have structs of their own."""

    how: Annotated[Literal["all", "before", "offset"], Meta(title=N_("Extent"))]
    before: Verbatim
    zone: Verbatim
    queue: Verbatim
    offset: Verbatim
    confirm: str
    offsets: Annotated[dict[int, int], offsets_of]


class TimeExtent(Fields, frozen=True):
    """What was stored before a time."""

    before: Moment


class OffsetExtent(Fields, frozen=True):
    """One queue, up to an offset."""

    queue: Annotated[int, Meta(title=N_("Queue"), ge=0, le=65_535)]
    offset: Annotated[int, Meta(title=N_("Offset"), ge=0, le=2**53)]


@dataclass(frozen=True)
class TopicPurge(TopicTab):
    """The context of `topic_purge.html`; `preview` is None without an extent."""

    form: Form
    preview: Purge | None
    offsets: str
    queues: list[int]
    shown_max: int = QUEUES_SHOWN_MAX
    ways: tuple[tuple[str, str], ...] = HOW


async def show(request: PageRequest) -> Response:
    """GET /topics/{topic}/purge: choose the extent and preview it."""
    config, values = await topic_of(request), {**request.query_params, "confirm": ""}
    if "how" not in values:
        form = typed_forms.fill({**values, "how": "before"}, PurgeFields)
        return await _page(request, config, form, None)
    form, fields = typed_forms.read(values, PurgeFields)
    return await _page(request, config, form, _preview(request, config, form, fields))


async def purge(request: PageRequest) -> Response:
    """POST /topics/{topic}/purge: purge exactly the preview if the form repeats the name."""
    config = await topic_of(request)
    form, fields = await request.read_form(PurgeFields)
    if fields.confirm != config.name:
        form.refuse("confirm", _("That is not the topic's name; not purged."))
    if form.is_wrong or not fields.offsets:
        return await _page(request, config, form, _preview(request, config, form, fields), 422)
    purges, extent = request.services.purges, Extent(before_offset=fields.offsets)
    try:
        await purges.purge(request.actor, config.name, extent)
    except (Invalid, QueueNotFound) as error:
        form.error = _(
            "%(detail)s: the topic was deleted and recreated.",
            detail=error.detail[:1].upper() + error.detail[1:],
        )
        form.values["confirm"] = ""
        return await _page(request, config, form, _preview(request, config, form, fields), 409)
    return forms.go(request, f"/topics/{segment(config.name)}?done=purged")


def _preview(
    request: PageRequest, config: TopicConfig, form: Form, fields: PurgeFields
) -> Purge | None:
    """The preview; None after an error at a field."""
    extent = _extent(form, fields, request.zone)
    if form.is_wrong:
        return None
    try:
        return request.services.purges.preview(config.name, extent)
    except (Invalid, QueueNotFound) as error:
        form.blame(error, {form.values["queue"]: "offset"})
        return None


def _extent(form: Form, fields: PurgeFields, zone: Zone) -> Extent:
    if fields.how == "before":
        return Extent(before_ms=typed_forms.parse(form, TimeExtent, zone).before)
    if fields.how == "offset":
        place = typed_forms.parse(form, OffsetExtent)
        return Extent(before_offset={place.queue: place.offset})
    return Extent(everything=True)


async def _page(
    request: PageRequest,
    config: TopicConfig,
    form: Form,
    preview: Purge | None,
    status: int | None = None,
) -> Response:
    queues = preview.queues if preview else []
    context = TopicPurge(
        head=await head_of(request, config, "purge"),
        form=form,
        preview=preview,
        offsets=" ".join(f"{row.queue}:{row.to_offset}" for row in queues),
        queues=list(range(max(config.read_queues, config.write_queues))),
    )
    title = _("Purge %(name)s", name=config.name)
    return await respond(request, "topic_purge.html", context, title=title, status=status)
