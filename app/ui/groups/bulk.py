"""Bulk changes of groups: pause, resume, or reset to a time, with a preview.

The preview freezes the selection: the form that applies it names each group with the precondition
of its reset. A group that moved meanwhile is reported and left alone. Both steps take a bounded
time; groups that they did not reach are reported as such.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.rows import Actor, actor_at
from app.security.access import Kind
from app.services.resets import ResetOrder
from app.ui.framework import bulk, forms, pages, preferences
from app.ui.framework.console import Console, client_of
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.zones import Zone
from app.ui.groups import groups
from engine.broker import RETRY_PREFIX, GroupConfig, GroupLag, ResetTarget, ResetTo

ACTIONS = ("pause", "resume", "reset")
FIELDS = ("action", "scope", "q", "at", "zone")


@dataclass(frozen=True)
class BulkRow:
    """The planned or actual result for one group; `note` says why it is left out."""

    group: str
    outcome: str
    note: str = ""
    unread: int = 0
    inflight: int = 0
    moving: int = 0
    redelivered: int = 0
    skipped: int = 0
    precondition: str = ""

    @property
    def choice(self) -> tuple[str, str]:
        return self.precondition, self.group


@dataclass(frozen=True, kw_only=True)
class Bulk(bulk.Sheet):
    """The context of `group_bulk.html`."""

    unread: int
    inflight: int
    redelivered: int
    skipped: int


@dataclass(frozen=True)
class Order:
    """The change to make to each group, and the request that asks for it."""

    request: Request
    action: str
    at_ms: int

    @property
    def console(self) -> Console:
        return pages.console_of(self.request)

    def reset_of(self, name: str, lag: GroupLag) -> ResetOrder:
        """A reset of all topics of a group, except its retry topic, to a time."""
        topics = {queue.topic: None for queue in lag.queues}
        topics.pop(RETRY_PREFIX + name, None)
        return ResetOrder(tuple(topics), ResetTarget(ResetTo.TIME, self.at_ms))


async def show(request: Request) -> Response:
    """GET /bulk/groups: ask for the time of a reset, then preview the result for each group."""
    query = request.query_params
    form = Form({name: query.get(name, "").strip() for name in FIELDS})
    action = _action(form)
    names = _names(request, form, query.getlist("group"))
    at_ms = _moment(form, preferences.read(request).zone) if action == "reset" else 0
    if at_ms is None or not names:
        ticked = query.getlist("group") if at_ms is None else None
        return await _page(request, form, [], len(names), asking=ticked)
    order = Order(request, action, at_ms)

    async def preview(name: str) -> BulkRow:
        return await _preview(order, name)

    rows = await bulk.each(request, Kind.GROUP, names[: bulk.ITEMS_MAX], preview, BulkRow)
    return await _page(request, form, rows, len(names))


async def apply(request: Request) -> Response:
    """POST /bulk/groups: change the groups of the preview and show the result of each."""
    posted = await forms.read(request, bytes_max=forms.LARGE_BYTES_MAX)
    form = forms.fill(posted, FIELDS)
    action = _action(form)
    at_ms = _moment(form, preferences.read(request).zone) if action == "reset" else 0
    if at_ms is None and not form.is_wrong:
        form.refuse("at", _("Nothing was changed: say the time at which the groups go on."))
    chosen = bulk.parsed(posted.one("selection"))
    if form.is_wrong or at_ms is None or not chosen:
        form.error = form.errors.get("action", form.error)
        if not form.is_wrong:
            form.error = _("Nothing was changed: no group was named.")
        return await _page(request, form, [], 0, asking=chosen)
    order = Order(request, action, at_ms)
    actor = actor_at(client_of(request))

    async def change(name: str) -> BulkRow:
        return await _change(order, actor, name, chosen[name])

    rows = await bulk.each(request, Kind.GROUP, list(chosen), change, BulkRow)
    return await _page(request, form, rows, len(chosen), is_done=True)


def _action(form: Form) -> str:
    return form.choice("action", _("What to do"), ACTIONS)


def _names(request: Request, form: Form, ticked: Sequence[str]) -> list[str]:
    """The groups that were ticked, or all that match the filter, by name."""
    if form.values["scope"] != "all":
        if not ticked:
            form.error = _("No group is ticked: go back and tick some, or choose all that match.")
        return list(dict.fromkeys(ticked))
    everything = pages.console_of(request).broker.groups()
    return [group.name for group in groups.matching(everything, form.values["q"])]


def _moment(form: Form, display_zone: Zone) -> int | None:
    if not form.values["at"]:
        return None
    at_ms = form.moment("at", form.values["zone"], display_zone)
    form.values["zone"] = display_zone.name
    return at_ms


async def _preview(order: Order, name: str) -> BulkRow:
    config = order.console.broker.group(name)
    lag = order.console.broker.lag(name)
    row = BulkRow(name, "would", unread=lag.count, inflight=lag.inflight)
    if order.action != "reset":
        return _mark_unchanged(row, config, order.action)
    reset_order = order.reset_of(name, lag)
    if not reset_order.topics:
        return replace(row, outcome="left", note=_("it has no place in any topic yet"))
    preview = await services_of(order.request.scope).resets.preview(name, reset_order)
    moving = sum(each.moves and each.target != each.current for each in preview.queues)
    return replace(
        row,
        outcome="would" if moving else "left",
        note="" if moving else _("it is there already"),
        moving=moving,
        redelivered=preview.redelivered,
        skipped=preview.skipped,
        inflight=preview.inflight,
        precondition=preview.precondition,
    )


def _mark_unchanged(row: BulkRow, config: GroupConfig, action: str) -> BulkRow:
    """The row, marked as left out if a pause or resume would change nothing."""
    if config.consume_enabled == (action == "pause"):
        return row
    note = _("it is paused already") if action == "pause" else _("it is not paused")
    return replace(row, outcome="left", note=note)


async def _change(order: Order, actor: Actor, name: str, precondition: str) -> BulkRow:
    config = order.console.broker.group(name)
    if order.action == "reset":
        lag = order.console.broker.lag(name)
        reset_order = order.reset_of(name, lag)
        reset = await services_of(order.request.scope).resets.apply(
            actor, name, reset_order, precondition=precondition, force=False
        )
        return BulkRow(name, "done", _("reset %(id)s", id=reset.number), moving=len(reset.queues))
    row = _mark_unchanged(BulkRow(name, "done"), config, order.action)
    if row.outcome == "done":
        change = services_of(order.request.scope).groups
        await (change.pause if order.action == "pause" else change.resume)(actor, name)
    return row


async def _page(
    request: Request,
    form: Form,
    rows: list[BulkRow],
    matching: int,
    *,
    asking: Iterable[str] | None = None,
    is_done: bool = False,
) -> Response:
    changed = [row for row in rows if row.outcome in ("would", "done")]
    context = Bulk(
        **vars(bulk.sheet(Kind.GROUP, form, rows, matching, asking=asking, is_done=is_done)),
        unread=sum(row.unread for row in changed),
        inflight=sum(row.inflight for row in changed),
        redelivered=sum(row.redelivered for row in changed),
        skipped=sum(row.skipped for row in changed),
    )
    return await pages.respond(
        request,
        "group_bulk.html",
        context,
        title=_("Many groups at once"),
        section="groups",
        status=422 if form.is_wrong else 200,
    )
