"""Resetting a consumer group's offsets: preview, apply, history, undo."""

from collections.abc import Awaitable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.administration import ResetOrder
from app.api.framework.operation import Call, Operations, Raw, encode
from app.api.framework.paging import NumberCursor, number_in
from app.errors import PROBLEM_TYPE, problem_of
from app.security.access import Action
from engine.broker import OffsetsMoved, Reset, ResetTarget
from engine.broker import ResetTo as EngineResetTo
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.resets import (
    CompletedReset,
    GroupResetPage,
    GroupResetPreview,
    NewReset,
    ResetPlace,
    ResetTo,
    UndoReset,
)

operations = Operations("groups")
HISTORY_DEFAULT = 20
HISTORY_MAX = 100

# The field that says where to, for each kind of place that needs one.
VALUES = {ResetTo.TIME: "time_ms", ResetTo.OFFSET: "offset", ResetTo.SHIFT: "by"}


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The page of the history."""

    limit: Annotated[int, Meta(ge=1, le=HISTORY_MAX)] = HISTORY_DEFAULT
    cursor: NumberCursor = ""


def reset_out(group: str, reset: Reset) -> CompletedReset:
    """A reset as the API shows it."""
    return convert(
        reset,
        CompletedReset,
        id=reset.number,
        group=group,
        undoes=reset.undoes or None,
        undone_by=reset.undone_by or None,
    )


@operations.post(
    "/groups/{group}/resets/preview",
    capability="offset_resets",
    needs=Action.READ,
    errors=(409,),
    example_body='{"topics": ["orders"], "to": "earliest"}',
)
async def preview_reset(call: Call[None, ResetPlace]) -> GroupResetPreview:
    """Preview a reset of a group's offsets.

    Queue by queue: where the group is, where it would go on, how many messages would be delivered
    again and how many never. Nothing is changed.
    """
    preview = await call.services.resets.preview(call.path("group"), _order(call.body))
    return convert(preview, GroupResetPreview)


@operations.post(
    "/groups/{group}/resets",
    capability="offset_resets",
    needs=Action.ADMINISTER,
    status=201,
    errors=(409,),
    example_body='{"topics": ["orders"], "to": "earliest", "force": true}',
)
async def reset_offsets(call: Call[None, NewReset]) -> CompletedReset | Raw:
    """Reset a group's offsets.

    All queues move together, or none. Deliveries in flight are forgotten: their receipts
    become stale. Clients that wait are woken. Commits of pulling clients do not count until they
    have pulled once more (`offset_reset`). Needs `precondition` or `force`. Before a cluster a
    broker that goes away meanwhile may leave its queues: 409 (`reset_incomplete`) names them.
    """
    new, group = call.body, call.path("group")
    resets = call.services.resets
    applying = resets.apply(
        call.actor, group, _order(new), precondition=new.precondition, force=new.force
    )
    return await _reset_answer(group, applying)


@operations.get("/groups/{group}/resets", capability="reset_history", needs=Action.READ)
async def list_resets(call: Call[HistoryQuery, None]) -> GroupResetPage:
    """List a group's offset resets, the newest first.

    The last 100 are remembered, fewer where they moved more than 10,000 queues together.
    """
    group, query = call.path("group"), call.query
    resets = call.services.resets
    before = number_in(query.cursor)
    history = await resets.history(group)
    older = [each for each in history if before is None or each.number < before]
    page = older[: query.limit]
    more = len(older) > len(page)
    return GroupResetPage(
        [reset_out(group, each) for each in page], str(page[-1].number) if more else None
    )


@operations.post(
    "/groups/{group}/resets/{id}/undo/preview",
    capability="reset_history",
    needs=Action.READ,
    errors=(409,),
)
async def preview_undo(call: Call[None, None]) -> GroupResetPreview:
    """Preview undoing a reset. Nothing is changed."""
    resets = call.services.resets
    number = call.number("id")
    return convert(await resets.preview(call.path("group"), number), GroupResetPreview)


@operations.post(
    "/groups/{group}/resets/{id}/undo",
    capability="reset_history",
    needs=Action.ADMINISTER,
    status=201,
    errors=(409,),
    example_body="{}",
)
async def undo_reset(call: Call[None, UndoReset]) -> CompletedReset | Raw:
    """Undo a reset: back to the committed offsets that it found.

    It is a reset itself, which can be undone. Where the group has gone on since, give the
    `precondition` of the undo's preview, or `force`.
    """
    group, body = call.path("group"), call.body
    resets = call.services.resets
    number = call.number("id")
    undoing = resets.apply(
        call.actor, group, number, precondition=body.precondition, force=body.force
    )
    return await _reset_answer(group, undoing)


def _order(place: ResetPlace) -> ResetOrder:
    """The requested target; Invalid names a field that is missing or does not apply."""
    needed = VALUES.get(place.to, "")
    for field in VALUES.values():
        if field != needed and getattr(place, field) is not None:
            raise Invalid(
                f"{field} means nothing with to={place.to}", field=field, remedy="leave it out"
            )
    if bool(place.from_group) != (place.to is ResetTo.GROUP):
        raise Invalid(
            f"to={place.to} with from_group {place.from_group!r}",
            field="from_group",
            remedy="name the other group with to=group, and only then",
        )
    value = getattr(place, needed) if needed else 0
    if value is None:
        raise Invalid(f"to={place.to} needs {needed}", field=needed, remedy=f"add {needed}")
    target = ResetTarget(EngineResetTo(place.to), int(value), place.from_group)
    return ResetOrder(tuple(place.topics), target, tuple(place.queues))


async def _reset_answer(group: str, resetting: Awaitable[Reset]) -> CompletedReset | Raw:
    """The reset, or where offsets moved the problem, with the preview as it is now beside it."""
    try:
        return reset_out(group, await resetting)
    except OffsetsMoved as error:
        problem: dict[str, Any] = msgspec.to_builtins(problem_of(error))
        problem["preview"] = convert(error.preview, GroupResetPreview)
        return Raw(encode(problem), PROBLEM_TYPE, problem["status"])
