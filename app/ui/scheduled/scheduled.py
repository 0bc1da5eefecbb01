"""The pages of scheduled messages: due times, the list, and changing one message."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.security.access import Principal, principal_of
from app.security.message_rights import visible
from app.services.bodies import decompress
from app.ui.bodies.preview import preview_of
from app.ui.framework import forms, pages, preferences, tables
from app.ui.framework.console import Console, actor_of
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.zones import Zone
from app.ui.messages.message import address
from app.ui.scheduled import due_histogram
from app.ui.scheduled.due_histogram import DueHistogram
from engine.broker import LevelWaiting, Scheduled, TimerAnswer
from engine.errors import Invalid, MessageNotFound
from kitemq.model.conversion import convert

TOPIC_CHARS_MAX = 255
DO = ("deliver", "reschedule", "recall")
DONE = {
    TimerAnswer.RECALLED: "recalled",
    TimerAnswer.DELIVERED: "delivered",
    TimerAnswer.RESCHEDULED: "rescheduled",
}
LATER = (
    ("60000", "in 1 minute"),
    ("600000", "in 10 minutes"),
    ("3600000", "in 1 hour"),
    ("86400000", "in 1 day"),
    ("604800000", "in 7 days"),
    ("", N_("at the time below")),
)


@dataclass(frozen=True)
class WaitingRow:
    """A waiting message; `offset_id` identifies it in paths, `href` is its record."""

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


@dataclass(frozen=True)
class ScheduledList:
    """The context of `scheduled.html`. `total` counts all topics; a page may be short."""

    rows: list[WaitingRow]
    topic: str
    size: int
    after: str
    next_cursor: str
    total: int
    histogram: DueHistogram
    levels: list[LevelWaiting]
    levels_total: int
    sizes: tuple[int, ...] = tables.SIZES


@dataclass(frozen=True)
class ScheduledMessage:
    """The context of `scheduled_message.html`: the actions on one message."""

    row: WaitingRow
    form: Form
    do: str
    later: tuple[tuple[str, str], ...] = LATER


async def show(request: Request) -> Response:
    """GET /scheduled"""
    console = pages.console_of(request)
    values = request.query_params
    topic = values.get("topic", "").strip()[:TOPIC_CHARS_MAX]
    size = tables.parse_query(values, ("due",), "due").size
    after = values.get("cursor", "")
    broker = console.broker
    page = await console.messaging.scheduled(topic=topic, after=after, count_max=size)
    levels = broker.delay_levels()
    await decompress([item.message for item in page.items])
    context = ScheduledList(
        rows=[row_of(principal_of(request.scope), item) for item in page.items],
        topic=topic,
        size=size,
        after=after,
        next_cursor=page.next or "",
        total=page.count,
        histogram=due_histogram.histogram(
            broker.scheduled_counts, page.count, console.now_ms(), values.get("span", "")
        ),
        levels=levels,
        levels_total=sum(level.count for level in levels),
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
    )


async def detail(request: Request) -> Response:
    """GET /scheduled/{id}: the actions on a waiting message."""
    item = await _item(pages.console_of(request), request.path_params["id"])
    form = Form({"later": LATER[2][0], "at": "", "confirm": ""})
    return await _detail(request, item, form, "", 200)


async def change(request: Request) -> Response:
    """POST /scheduled/{id}: recall it, deliver it now, or reschedule it."""
    console = pages.console_of(request)
    item = await _item(console, request.path_params["id"])
    posted = await forms.read(request)
    form = forms.fill(posted, ("later", "at", "confirm"))
    do = posted.one("do")
    if do not in DO:
        raise Invalid(_("%(do)s is nothing that can be done", do=f"{do[:40]!r}"), field="do")
    due_ms = 0
    if do == "reschedule":
        zone = preferences.read(request).zone
        due_ms = _new_time(form, console.now_ms(), posted.one("zone"), zone)
    if do == "recall" and form.values["confirm"].strip() != "recall":
        form.refuse("confirm", _("The word was not typed; nothing was recalled."))
    if form.is_wrong:
        return await _detail(request, item, form, do, 422)
    try:
        answer = await _carry_out(request, item.message.message_id, do, due_ms)
    except Invalid as error:
        form.blame(error, {"deliver_at_ms": "at", "delay_ms": "at"})
        return await _detail(request, item, form, do, 422)
    if answer not in DONE:
        form.error = _("It was delivered a moment ago; nothing was changed.")
        return await _detail(request, item, form, do, 409)
    return forms.go(request, f"/scheduled?done={DONE[answer]}")


async def _carry_out(request: Request, message_id: str, do: str, due_ms: int) -> TimerAnswer:
    scheduled = services_of(request.scope).scheduled
    actor = actor_of(request)
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
                "no message with the id %(message_id)s waits for a time",
                message_id=message_id[:100],
            ),
            field="id",
            remedy=_("it may have been delivered or recalled by now: search for its message id"),
        )
    return item


def _new_time(form: Form, now_ms: int, zone_name: str, display_zone: Zone) -> int:
    """The new due time: a length of time from now, or an absolute time."""
    later = form.choice("later", _("When"), tuple(value for value, __ in LATER))
    if later:
        return now_ms + int(later)
    at_ms = form.moment("at", zone_name, display_zone)
    if at_ms is not None and at_ms <= now_ms:
        form.refuse(
            "at", _("That time has passed: to deliver it at once, use the button for that.")
        )
    return at_ms or 0


async def _detail(request: Request, item: Scheduled, form: Form, do: str, status: int) -> Response:
    await decompress([item.message])
    context = ScheduledMessage(row_of(principal_of(request.scope), item), form, do)
    return await pages.respond(
        request, "scheduled_message.html", context, title=_("A waiting message"), status=status
    )
