"""Bulk changes of groups: pause, resume, or reset to a time, with a preview.

The preview freezes the selection: the form that applies it names each group with the precondition
of its reset. A group that moved meanwhile is reported and left alone. Both steps take a bounded
time; groups that they did not reach are reported as such.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.administration import ResetOrder
from app.security.access import Kind
from app.ui.framework import bulk, forms, typed_forms
from app.ui.framework.bulk import BulkRow
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Moment
from app.ui.groups import groups
from engine.broker import RETRY_PREFIX, GroupConfig, GroupLag, ResetTarget, ResetTo

SUMMED = ("unread", "inflight", "redelivered", "skipped")


class GroupBulkFields(Fields, frozen=True):
    """What to do with which groups: the ticked ones, or all that match the filter of the list.

    `selection` holds those of a preview, with the precondition of each.
    """

    action: Annotated[Literal["pause", "resume", "reset"], Meta(title=N_("What to do"))]
    scope: str
    q: str
    status: str
    at: Moment | None
    zone: str
    group: tuple[str, ...]
    selection: Annotated[dict[str, str], bulk.parsed]


@dataclass(frozen=True)
class GroupBulkRow(BulkRow):
    """The result for one group; its `state` is the precondition of its reset."""

    unread: int = 0
    inflight: int | None = 0
    moving: int = 0
    redelivered: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class GroupAction:
    """The change to make to each group, and the request that asks for it.

    `selection` has the precondition of each group in the preview; it is empty in the first one.
    """

    request: PageRequest
    action: str
    at_ms: int
    selection: Mapping[str, str]

    async def preview(self, name: str) -> GroupBulkRow:
        """What would happen to a group."""
        administration = self.request.administration
        config, lag = await administration.group(name), await administration.lag(name)
        row = GroupBulkRow(name, "would", unread=lag.count, inflight=lag.inflight)
        if self.action != "reset":
            return self._mark_unchanged(row, config)
        order = self._reset_of(lag)
        if not order.topics:
            return replace(row, outcome="left", note=_("no offset in any topic yet"))
        preview = await self.request.services.resets.preview(name, order)
        moving = sum(each.moves and each.target != each.current for each in preview.queues)
        return replace(
            row,
            outcome="would" if moving else "left",
            note="" if moving else _("already at that position"),
            moving=moving,
            redelivered=preview.redelivered,
            skipped=preview.skipped,
            inflight=preview.inflight,
            state=preview.precondition,
        )

    async def change(self, name: str) -> GroupBulkRow:
        """Change a group; raises OffsetsMoved if it is no longer where the preview showed it."""
        administration, services = self.request.administration, self.request.services
        actor = self.request.actor
        config = await administration.group(name)
        if self.action == "reset":
            order = self._reset_of(await administration.lag(name))
            reset = await services.resets.apply(
                actor, name, order, precondition=self.selection[name], force=False
            )
            note = _("reset %(id)s", id=reset.number) if reset.number else ""
            return GroupBulkRow(name, "done", note, moving=len(reset.queues))
        row = self._mark_unchanged(GroupBulkRow(name, "done"), config)
        if row.outcome == "done":
            groups = services.groups
            await (groups.pause if self.action == "pause" else groups.resume)(actor, name)
        return row

    def _reset_of(self, lag: GroupLag) -> ResetOrder:
        """A reset of all topics of a group, except of its retries, to a time."""
        topics = {each.topic: 0 for each in lag.queues if not each.topic.startswith(RETRY_PREFIX)}
        return ResetOrder(tuple(topics), ResetTarget(ResetTo.TIME, self.at_ms))

    def _mark_unchanged(self, row: GroupBulkRow, config: GroupConfig) -> GroupBulkRow:
        """The row, marked as left out if a pause or resume would change nothing."""
        if config.consume_enabled == (self.action == "pause"):
            return row
        note = _("already paused") if self.action == "pause" else _("not paused")
        return replace(row, outcome="left", note=note)


async def show(request: PageRequest) -> Response:
    """GET /bulk/groups: ask for the time of a reset, then preview the result for each group."""
    zone = request.zone
    form, fields = typed_forms.read(request.query_params, GroupBulkFields, zone)
    names = await _names(request, form, fields)
    is_asking = fields.action == "reset" and not fields.at
    if is_asking or not names:
        asking = fields.group if is_asking else None
        return await bulk.respond(request, Kind.GROUP, form, (), len(names), asking=asking)
    action = GroupAction(request, fields.action, fields.at or 0, {})
    first = names[: bulk.ITEMS_MAX]
    rows = await bulk.each(request, Kind.GROUP, first, action.preview, GroupBulkRow)
    return await bulk.respond(request, Kind.GROUP, form, rows, len(names), summed=SUMMED)


async def apply(request: PageRequest) -> Response:
    """POST /bulk/groups: change the groups of the preview and show the result of each."""
    posted = await forms.read(request, bytes_max=forms.LARGE_BYTES_MAX)
    form, fields = typed_forms.read(posted, GroupBulkFields, request.zone)
    names = list(fields.selection)
    if fields.action == "reset" and not fields.at and not form.is_wrong:
        form.refuse("at", _("Not changed. Enter the time to reset to."))
    if form.is_wrong or not names:
        form.error = form.errors.get("action", form.error)
        if not form.is_wrong:
            form.error = _("Not changed. Select at least one group.")
        return await bulk.respond(request, Kind.GROUP, form, asking=names)
    action = GroupAction(request, fields.action, fields.at or 0, fields.selection)
    rows = await bulk.each(request, Kind.GROUP, names, action.change, GroupBulkRow)
    return await bulk.respond(request, Kind.GROUP, form, rows, len(names), is_done=True)


async def _names(request: PageRequest, form: Form, fields: GroupBulkFields) -> Sequence[str]:
    """The groups that were ticked, or all that match the filter, by name."""
    if fields.scope != "all":
        if not fields.group:
            form.error = _("No group selected. Go back and select some, or choose all that match.")
        return fields.group
    console = request.console
    everything, standing = await console.administration.groups(), console.sampler.snapshot.standing
    return await console.render(
        lambda: [
            each.name
            for each in groups.matching(everything, fields.q)
            if fields.status in ("", standing(each).status)
        ]
    )
