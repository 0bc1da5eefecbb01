"""Bulk changes of groups: pause, resume, or reset to a time, with a preview.

The preview freezes the selection: the form that applies it names each group with the precondition
of its reset. A group that moved meanwhile is reported and left alone. Both steps take a bounded
time; groups that they did not reach are reported as such.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.security.access import Kind
from app.services.resets import ResetOrder
from app.ui.framework import bulk, forms, pages, preferences, typed_forms
from app.ui.framework.console import actor_of
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.typed_forms import Fields, Moment
from app.ui.groups import groups
from engine.broker import RETRY_PREFIX, GroupConfig, GroupLag, ResetTarget, ResetTo


class GroupBulkFields(Fields, frozen=True):
    """What to do with which groups: the ticked ones, or all that match the filter of the list.

    `selection` holds those of a preview, with the precondition of each.
    """

    action: Annotated[Literal["pause", "resume", "reset"], Meta(title=N_("What to do"))]
    scope: str
    q: str
    at: Moment | None
    zone: str
    group: tuple[str, ...]
    selection: Annotated[dict[str, str], bulk.parsed]


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
class GroupAction:
    """The change to make to each group, and the request that asks for it.

    `selection` has the precondition of each group in the preview; it is empty in the first one.
    """

    request: Request
    action: str
    at_ms: int
    selection: Mapping[str, str]

    async def preview(self, name: str) -> BulkRow:
        """What would happen to a group."""
        broker = pages.console_of(self.request).broker
        config, lag = broker.group(name), broker.lag(name)
        row = BulkRow(name, "would", unread=lag.count, inflight=lag.inflight)
        if self.action != "reset":
            return self._mark_unchanged(row, config)
        order = self._reset_of(name, lag)
        if not order.topics:
            return replace(row, outcome="left", note=_("it has no place in any topic yet"))
        preview = await services_of(self.request.scope).resets.preview(name, order)
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

    async def change(self, name: str) -> BulkRow:
        """Change a group; raises OffsetsMoved if it is no longer where the preview showed it."""
        broker, services = pages.console_of(self.request).broker, services_of(self.request.scope)
        actor = actor_of(self.request)
        config = broker.group(name)
        if self.action == "reset":
            order = self._reset_of(name, broker.lag(name))
            reset = await services.resets.apply(
                actor, name, order, precondition=self.selection[name], force=False
            )
            note = _("reset %(id)s", id=reset.number)
            return BulkRow(name, "done", note, moving=len(reset.queues))
        row = self._mark_unchanged(BulkRow(name, "done"), config)
        if row.outcome == "done":
            groups = services.groups
            await (groups.pause if self.action == "pause" else groups.resume)(actor, name)
        return row

    def _reset_of(self, name: str, lag: GroupLag) -> ResetOrder:
        """A reset of all topics of a group, except its retry topic, to a time."""
        topics = {queue.topic: None for queue in lag.queues}
        topics.pop(RETRY_PREFIX + name, None)
        return ResetOrder(tuple(topics), ResetTarget(ResetTo.TIME, self.at_ms))

    def _mark_unchanged(self, row: BulkRow, config: GroupConfig) -> BulkRow:
        """The row, marked as left out if a pause or resume would change nothing."""
        if config.consume_enabled == (self.action == "pause"):
            return row
        note = _("it is paused already") if self.action == "pause" else _("it is not paused")
        return replace(row, outcome="left", note=note)


async def show(request: Request) -> Response:
    """GET /bulk/groups: ask for the time of a reset, then preview the result for each group."""
    zone = preferences.read(request).zone
    form, fields = typed_forms.read(request.query_params, GroupBulkFields, zone)
    names = _names(request, form, fields)
    is_asking = fields.action == "reset" and not fields.at
    if is_asking or not names:
        return await _page(
            request, form, [], len(names), asking=fields.group if is_asking else None
        )
    action = GroupAction(request, fields.action, fields.at or 0, {})
    rows = await bulk.each(request, Kind.GROUP, names[: bulk.ITEMS_MAX], action.preview, BulkRow)
    return await _page(request, form, rows, len(names))


async def apply(request: Request) -> Response:
    """POST /bulk/groups: change the groups of the preview and show the result of each."""
    posted = await forms.read(request, bytes_max=forms.LARGE_BYTES_MAX)
    form, fields = typed_forms.read(posted, GroupBulkFields, preferences.read(request).zone)
    names = list(fields.selection)
    if fields.action == "reset" and not fields.at and not form.is_wrong:
        form.refuse("at", _("Nothing was changed: say the time at which the groups go on."))
    if form.is_wrong or not names:
        form.error = form.errors.get("action", form.error)
        if not form.is_wrong:
            form.error = _("Nothing was changed: no group was named.")
        return await _page(request, form, [], 0, asking=names)
    action = GroupAction(request, fields.action, fields.at or 0, fields.selection)
    rows = await bulk.each(request, Kind.GROUP, names, action.change, BulkRow)
    return await _page(request, form, rows, len(names), is_done=True)


def _names(request: Request, form: Form, fields: GroupBulkFields) -> Sequence[str]:
    """The groups that were ticked, or all that match the filter, by name."""
    if fields.scope != "all":
        if not fields.group:
            form.error = _("No group is ticked: go back and tick some, or choose all that match.")
        return fields.group
    everything = pages.console_of(request).broker.groups()
    return [group.name for group in groups.matching(everything, fields.q)]


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
    title = _("Many groups at once")
    return await pages.respond(request, "group_bulk.html", context, title=title, section="groups")
