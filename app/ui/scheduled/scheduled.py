"""The pages of scheduled messages: due times, the list, and changing one message."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.pause import paced
from app.security.access import Principal
from app.security.message_rights import visible
from app.services.bodies import decompress
from app.services.topic_kinds import group_of
from app.ui.bodies.bodies import preview_of
from app.ui.framework import forms, pages, tables, typed_forms
from app.ui.framework.console import Console
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Moment
from app.ui.framework.zones import Zone
from app.ui.messages.message import address
from app.ui.scheduled import due_histogram
from app.ui.scheduled.due_histogram import DueHistogram
from engine.broker import LevelWaiting, Scheduled, TimerAnswer
from engine.errors import Conflict, Invalid, MessageNotFound
from kitemq.model.conversion import convert

DO = ("deliver", "reschedule", "recall")
DONE = {
    TimerAnswer.RECALLED: "recalled",
    TimerAnswer.DELIVERED: "delivered",
    TimerAnswer.RESCHEDULED: "rescheduled",
}
LATER = (
    ("60000", N_("in 1 minute")),
    ("600000", N_("in 10 minutes")),
    ("3600000", N_("in 1 hour")),
    ("86400000", N_("in 1 day")),
    ("604800000", N_("in 7 days")),
    ("", N_("at a set time")),
)


class WaitingQuery(Fields, frozen=True):
    """The page of the list, and the span of the histogram."""

    topic: Annotated[str, Meta(max_length=255)] = ""
    size: tables.Size = tables.SIZE_DEFAULT
    cursor: str = ""
    span: str = ""


class ChangeFields(Fields, frozen=True):
    """The form that changes a message; its new time has structs of its own."""

    do: str
    later: str
    at: str
    zone: str
    confirm: str


class LaterFields(Fields, frozen=True):
    """The new time by a length of time from now, None for a time of its own."""

    later: Annotated[
        Literal[60_000, 600_000, 3_600_000, 86_400_000, 604_800_000] | None, Meta(title=N_("When"))
    ]


class ChangedTime(Fields, frozen=True):
    """The new time."""

    at: Moment


@dataclass(frozen=True)
class WaitingRow:
    """A waiting message; `offset_id` identifies it in paths, `href` is its record.

    `delay_level` is 0 for an exact time, `group` the group that waits to retry it, or "".
    """

    message_id: str
    offset_id: str
    topic: str
    due_ms: int
    born_ms: int
    tag: str
    keys: tuple[str, ...]
    size_bytes: int
    preview: str
    href: str
    delay_level: int
    group: str


@dataclass(frozen=True)
class ScheduledList:
    """The context of `scheduled.html`. `total` counts all topics; a page may be short.

    The histogram counts all of them, `levels` those in delay levels. `unknown` says why there may
    be more.
    """

    rows: list[WaitingRow]
    query: WaitingQuery
    next_cursor: str
    total: int
    histogram: DueHistogram
    levels: list[LevelWaiting]
    levels_total: int
    unknown: str
    sizes: tuple[int, ...] = tables.SIZES


@dataclass(frozen=True)
class ScheduledMessage:
    """The context of `scheduled_message.html`: the actions on one message."""

    row: WaitingRow
    form: Form
    later: tuple[tuple[str, str], ...] = LATER


async def show(request: PageRequest) -> Response:
    """GET /scheduled"""
    console = request.console
    query = request.read_query(WaitingQuery)
    page = await console.messaging.scheduled(
        topic=query.topic, after=query.cursor, count_max=query.size
    )
    levels = await console.messaging.delay_levels()
    levels_total = sum(level.count for level in levels)
    await decompress([item.message for item in page.items])
    context = ScheduledList(
        rows=[row_of(request.who, item) async for item in paced(page.items)],
        query=query,
        next_cursor=page.next or "",
        total=page.count,
        histogram=await due_histogram.histogram(
            console.messaging.scheduled_counts, console.now_ms(), query.span
        ),
        levels=levels,
        levels_total=levels_total,
        unknown=page.unknown,
    )
    return await pages.respond(
        request, "scheduled.html", context, title=_("Scheduled"), is_live=True
    )


def row_of(who: Principal, item: Scheduled) -> WaitingRow:
    """A waiting message as a row of a table."""
    message = visible(who, item.message)
    return convert(
        message,
        WaitingRow,
        topic=item.topic,
        due_ms=item.due_ms,
        preview=preview_of(message),
        href=address(message.topic, message.queue, message.offset),
        delay_level=item.delay_level,
        group=group_of(item.topic) if item.is_retry else "",
    )


async def detail(request: PageRequest) -> Response:
    """GET /scheduled/{id}: the actions on a waiting message."""
    item = await _item(request.console, request.path_params["id"])
    form = typed_forms.fill({"later": LATER[2][0]}, ChangeFields)
    return await _detail(request, item, form)


async def change(request: PageRequest) -> Response:
    """POST /scheduled/{id}: recall it, deliver it now, or reschedule it."""
    console = request.console
    item = await _item(console, request.path_params["id"])
    form, fields = await request.read_form(ChangeFields)
    do = fields.do
    if do not in DO:
        raise Invalid(_("%(do)s is not an action", do=f"{do[:40]!r}"), field="do")
    due_ms = 0
    if do == "reschedule":
        due_ms = _new_time(form, console.now_ms(), request.zone)
    if do == "recall" and fields.confirm != "recall":
        form.refuse("confirm", _("Confirmation text does not match; not recalled."))
    if form.is_wrong:
        return await _detail(request, item, form)
    try:
        answer = await _carry_out(request, item.message.message_id, do, due_ms)
    except (Conflict, Invalid) as error:
        form.blame(error, {"deliver_at_ms": "at", "delay_ms": "at"})
        return await _detail(request, item, form)
    if answer not in DONE:
        form.error = _("The message has just been delivered; not changed.")
        form.error_status = 409
        return await _detail(request, item, form)
    return forms.go(request, f"/scheduled?done={DONE[answer]}")


async def _carry_out(request: PageRequest, message_id: str, do: str, due_ms: int) -> TimerAnswer:
    scheduled = request.services.scheduled
    actor = request.actor
    if do == "recall":
        return await scheduled.recall(actor, message_id)
    if do == "deliver":
        return await scheduled.deliver_now(actor, message_id)
    return await scheduled.reschedule(actor, message_id, due_ms)


async def _item(console: Console, message_id: str) -> Scheduled:
    item = await console.messaging.find_scheduled(message_id)
    if item is None:
        raise MessageNotFound(
            _(
                "no scheduled message has the id %(message_id)s",
                message_id=message_id[:100],
            ),
            field="id",
            remedy=_("it may have been delivered or recalled: search for its message id"),
        )
    return item


def _new_time(form: Form, now_ms: int, zone: Zone) -> int:
    """The new due time: a length of time from now, or an absolute time."""
    later = typed_forms.parse(form, LaterFields).later
    if later or form.is_wrong:
        return now_ms + (later or 0)
    at_ms = typed_forms.parse(form, ChangedTime, zone).at
    if at_ms <= now_ms:
        form.refuse("at", _("That time has passed. Use Deliver now instead."))
    return at_ms


async def _detail(request: PageRequest, item: Scheduled, form: Form) -> Response:
    await decompress([item.message])
    context = ScheduledMessage(row_of(request.who, item), form)
    return await pages.respond(
        request, "scheduled_message.html", context, title=_("Scheduled message")
    )
