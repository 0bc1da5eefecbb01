"""Resetting a consumer group's offsets: preview, apply, history, undo."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, Raw, operation
from app.api.messages.messages import OFFSET_MAX, number_in_path
from app.api.topics.topics import actor_of
from app.errors import PROBLEM_TYPE, problem_of
from app.security.access import Action, Kind, Needs
from app.services.resets import ResetOrder
from engine.broker import OffsetsMoved, Reset, ResetNote, ResetPreview, ResetTarget, ResetTo
from engine.errors import Invalid

TAG = "groups"
HISTORY_DEFAULT = 20
HISTORY_MAX = 100

FORCE = "Move whatever the offsets are by now."
PRECONDITION = (
    "The preview's `precondition`. If the group's offsets are others by now, nothing is moved and "
    "the answer is 409 with a fresh `preview`."
)
# The field that says where to, for each kind of place that needs one.
VALUES = {ResetTo.TIME: "time_ms", ResetTo.OFFSET: "offset", ResetTo.SHIFT: "by"}
Precondition = Annotated[str, Meta(max_length=64, description=PRECONDITION)]


class ResetPlace(msgspec.Struct, forbid_unknown_fields=True):
    """Which queues are to go where."""

    topics: Annotated[
        list[str],
        Meta(
            min_length=1,
            max_length=64,
            description="The group's own retry topic `%RETRY%group` is moved only if named.",
        ),
    ]
    to: Annotated[
        ResetTo,
        Meta(
            description="earliest, latest, time (give `time_ms`), offset (give `offset`), shift "
            "(give `by`), group (give `from_group`)."
        ),
    ]
    queues: Annotated[
        list[int], Meta(max_length=1024, description="Of a single topic; empty means all.")
    ] = []
    time_ms: Annotated[
        int | None, Meta(description="Go on at the first message stored then or later.")
    ] = None
    offset: Annotated[str | int | None, Meta(description="The same in every queue.")] = None
    by: Annotated[int | None, Meta(description="Messages forward; back if negative.")] = None
    from_group: Annotated[str, Meta(description="The group whose offsets are copied.")] = ""


class NewReset(ResetPlace, forbid_unknown_fields=True):
    """A reset to be carried out."""

    precondition: Precondition = ""
    force: Annotated[bool, Meta(description=FORCE)] = False


class UndoReset(msgspec.Struct, forbid_unknown_fields=True):
    """Under which condition a reset is undone."""

    precondition: Annotated[
        str,
        Meta(
            max_length=64,
            description="Of the undo's preview; without one the group must still be where the "
            "reset put it.",
        ),
    ] = ""
    force: Annotated[bool, Meta(description=FORCE)] = False


class QueuePreview(msgspec.Struct):
    """What a reset means for one queue."""

    topic: str
    queue: int
    min_offset: str
    max_offset: str
    current: Annotated[str | None, Meta(description="Null where the group never consumed.")]
    target: Annotated[str | None, Meta(description="Null: the group begins there as a new one.")]
    moves: bool
    note: Annotated[
        ResetNote,
        Meta(
            description="before_oldest, past_end: brought to the nearer end; no_place, "
            "queue_gone: stays as it is."
        ),
    ]
    redelivered: Annotated[int, Meta(description="Messages done that would be delivered again.")]
    skipped: Annotated[int, Meta(description="Messages not done that never would be.")]
    inflight: Annotated[int, Meta(description="With clients; their receipts become stale.")]
    target_stored_ms: Annotated[
        int | None, Meta(description="When the message at the target was stored.")
    ]


class Preview(msgspec.Struct):
    """What a reset would do; nothing was changed."""

    group: str
    to: str
    redelivered: int
    skipped: int
    inflight: int
    retry_waiting: Annotated[
        int, Meta(description="Retries that wait for their delay: no reset reaches them.")
    ]
    precondition: str
    queues: list[QueuePreview]


class MovedQueue(msgspec.Struct):
    """Where a queue was, and where the reset put it."""

    topic: str
    queue: int
    before: str | None
    after: str | None


class ResetDone(msgspec.Struct):
    """A reset that was carried out."""

    id: str
    group: str
    at_ms: int
    to: str
    undoes: Annotated[str | None, Meta(description="The reset that this one took back.")]
    undone_by: Annotated[str | None, Meta(description="The reset that took this one back.")]
    queues: list[MovedQueue]


class ResetPage(msgspec.Struct):
    """Resets of a group, newest first."""

    items: list[ResetDone]
    next_cursor: str | None


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How much of the past."""

    limit: Annotated[int, Meta(ge=1, le=HISTORY_MAX)] = HISTORY_DEFAULT
    cursor: Annotated[str, Meta(description="`next_cursor` of the page before.")] = ""


def preview_out(preview: ResetPreview) -> Preview:
    """A preview as the API shows it."""
    return Preview(
        preview.group,
        preview.to,
        preview.redelivered,
        preview.skipped,
        preview.inflight,
        preview.retry_waiting,
        preview.precondition,
        [
            QueuePreview(
                each.topic,
                each.queue,
                str(each.min_offset),
                str(each.max_offset),
                _text(each.current),
                _text(each.target),
                each.is_moved,
                each.note,
                each.redelivered,
                each.skipped,
                each.inflight,
                each.target_ms,
            )
            for each in preview.queues
        ],
    )


def reset_out(group: str, reset: Reset) -> ResetDone:
    """A reset as the API shows it."""
    return ResetDone(
        str(reset.number),
        group,
        reset.at_ms,
        reset.to,
        _text(reset.undoes or None),
        _text(reset.undone_by or None),
        [
            MovedQueue(each.topic, each.queue, _text(each.before), _text(each.after))
            for each in reset.queues
        ],
    )


@operation(
    "POST",
    f"{API}/groups/{{group}}/resets/preview",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    body=ResetPlace,
    answer=Preview,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/resets/preview "
    """-H 'Content-Type: application/json' -d '{"topics": ["orders"], "to": "earliest"}'""",
)
async def preview_reset(call: Call[None, ResetPlace]) -> Preview:
    """See what a reset of a group's offsets would do.

    Queue by queue: where the group is, where it would go on, how many messages would be delivered
    again and how many never. Nothing is changed.
    """
    resets = call.services.resets
    return preview_out(await resets.preview(call.path("group"), _order(call.body)))


@operation(
    "POST",
    f"{API}/groups/{{group}}/resets",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP, "group"),
    body=NewReset,
    answer=ResetDone,
    status=201,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/resets -H 'Content-Type: application/json' "
    """-d '{"topics": ["orders"], "to": "earliest", "force": true}'""",
)
async def reset_offsets(call: Call[None, NewReset]) -> ResetDone | Raw:
    """Reset a group's offsets.

    All queues move together, or none. What clients have in hand is forgotten: their receipts
    become stale. Clients that wait are woken. Commits of pulling clients do not count until they
    have pulled once more and were told (`offset_reset`). Needs `precondition` or `force`.
    """
    new, group = call.body, call.path("group")
    resets = call.services.resets
    try:
        reset = await resets.apply(
            actor_of(call), group, _order(new), precondition=new.precondition, force=new.force
        )
    except OffsetsMoved as error:
        return _moved_answer(error)
    return reset_out(group, reset)


@operation(
    "GET",
    f"{API}/groups/{{group}}/resets",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    query=HistoryQuery,
    answer=ResetPage,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing/resets",
)
async def list_resets(call: Call[HistoryQuery, None]) -> ResetPage:
    """List a group's offset resets, the newest first.

    The last 100 are remembered, fewer where they moved more than 10,000 queues together.
    """
    group, query = call.path("group"), call.query
    resets = call.services.resets
    cursor = query.cursor
    before = int(cursor) if cursor.isdecimal() and cursor.isascii() and len(cursor) < 19 else None
    if cursor and before is None:
        raise Invalid("that is no cursor", field="cursor", remedy="give a page's next_cursor")
    left = [each for each in resets.history(group) if before is None or each.number < before]
    page = left[: query.limit]
    more = len(left) > len(page)
    return ResetPage(
        [reset_out(group, each) for each in page], str(page[-1].number) if more else None
    )


@operation(
    "POST",
    f"{API}/groups/{{group}}/resets/{{id}}/undo/preview",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    answer=Preview,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/resets/1/undo/preview",
)
async def preview_undo(call: Call[None, None]) -> Preview:
    """See what undoing a reset would do. Nothing is changed."""
    resets = call.services.resets
    number = number_in_path(call, "id", OFFSET_MAX)
    return preview_out(await resets.preview_undo(call.path("group"), number))


@operation(
    "POST",
    f"{API}/groups/{{group}}/resets/{{id}}/undo",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP, "group"),
    body=UndoReset,
    answer=ResetDone,
    status=201,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/resets/1/undo "
    "-H 'Content-Type: application/json' -d '{}'",
)
async def undo_reset(call: Call[None, UndoReset]) -> ResetDone | Raw:
    """Undo a reset: back to the committed offsets that it found.

    It is a reset itself, which can be undone. Where the group has gone on since, give the
    `precondition` of the undo's preview, or `force`.
    """
    group, body = call.path("group"), call.body
    resets = call.services.resets
    number = number_in_path(call, "id", OFFSET_MAX)
    try:
        reset = await resets.undo(
            actor_of(call), group, number, precondition=body.precondition, force=body.force
        )
    except OffsetsMoved as error:
        return _moved_answer(error)
    return reset_out(group, reset)


def _order(place: ResetPlace) -> ResetOrder:
    """What is asked for; Invalid names the field that is missing, or that says nothing here."""
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
    target = ResetTarget(place.to, _number(value, needed), place.from_group)
    return ResetOrder(tuple(place.topics), target, tuple(place.queues))


def _number(value: str | int, field: str) -> int:
    if isinstance(value, str):
        if not (value.isdecimal() and value.isascii() and len(value) < 20):
            raise Invalid(f"{value[:40]!r} is no offset", field=field, remedy="a whole number")
        value = int(value)
    if abs(value) > OFFSET_MAX or (value < 0 and field != "by"):
        raise Invalid(f"{field} is {value}", field=field, remedy=f"choose up to {OFFSET_MAX}")
    return value


def _moved_answer(error: OffsetsMoved) -> Raw:
    """The problem, with the preview as it is now beside it."""
    problem: dict[str, Any] = msgspec.to_builtins(problem_of(error))
    problem["preview"] = preview_out(error.preview)
    return Raw(msgspec.json.encode(problem), PROBLEM_TYPE, problem["status"])


def _text(offset: int | None) -> str | None:
    return None if offset is None else str(offset)


OPERATIONS = (preview_reset, reset_offsets, list_resets, preview_undo, undo_reset)
