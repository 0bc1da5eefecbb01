"""The history of a group: its resets, with results and undo, and its audit trail."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from app.db.rows import AuditEntry
from app.services.client_figures import PASSAGES_MAX, Passage
from app.ui.framework import forms, tables
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.tables import Cut
from app.ui.framework.typed_forms import Fields, Moment
from app.ui.groups.head import GroupTab, group_of, head_of, path_of, respond
from app.ui.groups.reset_review import (
    OffsetChange,
    Review,
    ReviewFields,
    offset_changes,
    place_in_words,
    review,
)
from engine.broker import OffsetsMoved, Reset
from engine.errors import Conflict, EngineError, NotFound, Refused
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole

ENTRIES_LISTED = 50
CHANGES_LISTED_MAX = 8
VALUE_CHARS_MAX = 120


class GroupHistoryQuery(Fields, frozen=True, rename={"from_ms": "from"}):
    """The entry of the audit trail before which the page begins; the time whose members to show."""

    before: int | None = None
    from_ms: Moment | None = None
    zone: str = ""


@dataclass(frozen=True)
class MembersThen:
    """The members of a group at a time in the past; None if they are unknown."""

    at_ms: int
    clients: Sequence[str] | None


@dataclass(frozen=True)
class ResetRow:
    """A stored reset; `undoes` and `undone_by` are 0 if there is no such reset."""

    number: int
    at_ms: int
    to: str
    queues: int
    undoes: int
    undone_by: int


@dataclass(frozen=True)
class EntryRow:
    """An entry of the audit trail; `changes` names the fields that differ before and after."""

    id: int
    at_ms: int
    actor: str
    action: str
    result: str
    changes: Sequence[str]
    request_id: str


@dataclass(frozen=True)
class GroupHistory(GroupTab):
    """The context of `group_history.html`; `passages` are since the server started, newest first.

    `older` is where the next entries begin, "" at the end.

    `trouble` is the reason why the audit trail is unavailable.
    """

    resets: Sequence[ResetRow]
    passages: Sequence[Passage]
    passages_max: int
    then: MembersThen | None
    entries: Sequence[EntryRow]
    older: str
    trouble: str


@dataclass(frozen=True)
class ResetPage(GroupTab):
    """The context of `group_reset.html`: what a reset did, queue by queue."""

    reset: ResetRow
    cut: Cut[OffsetChange]


@dataclass(frozen=True)
class UndoPage(GroupTab):
    """The context of `group_undo.html`: the preview of undoing a reset."""

    form: Form
    reset: ResetRow
    review: Review | None
    is_conflict: bool


async def show(request: PageRequest) -> Response:
    """GET /groups/{group}/history"""
    console = request.console
    config = await group_of(request)
    audit = request.services.audit
    query = request.read_query(GroupHistoryQuery)
    before_id = query.before
    entries: list[AuditEntry] = []
    trouble = ""
    try:
        entries = await audit.entries(
            limit=ENTRIES_LISTED + 1, before_id=before_id, kind="group", name=config.name
        )
    except EngineError as error:
        trouble = error.detail
    visible_entries = entries[:ENTRIES_LISTED]
    passages = request.services.client_figures.passages(config.name)
    now = [member.client for member in await console.administration.members.of(config.name)]
    context = GroupHistory(
        head=await head_of(console, config, "history"),
        resets=[_reset_row(each) for each in await request.services.resets.history(config.name)],
        passages=passages,
        passages_max=PASSAGES_MAX,
        then=members_then(query.from_ms, now, passages, console.started_ms)
        if query.from_ms
        else None,
        entries=[_entry_row(entry) for entry in visible_entries],
        older=str(visible_entries[-1].id) if len(entries) > len(visible_entries) else "",
        trouble=trouble,
    )
    return await respond(request, "group_history.html", context)


def members_then(
    at_ms: int, now: Sequence[str], passages: Sequence[Passage], started_ms: int
) -> MembersThen:
    """The members at a time, from those of now and the joins and leaves since, newest first."""
    is_cut = len(passages) >= PASSAGES_MAX and passages[-1].at_ms > at_ms
    if at_ms < started_ms or is_cut:
        return MembersThen(at_ms, None)
    clients = set(now)
    for passage in passages:
        if passage.at_ms > at_ms and passage.kind == "joined":
            clients.discard(passage.client)
        elif passage.at_ms > at_ms:
            clients.add(passage.client)
    return MembersThen(at_ms, sorted(clients))


async def reset(request: PageRequest) -> Response:
    """GET /groups/{group}/resets/{id}"""
    console = request.console
    config = await group_of(request)
    record = await request.services.resets.get(config.name, _number(request))
    query = tables.parse_query(request.query_params, ("queue",), "queue")
    context = ResetPage(
        head=await head_of(console, config, "history"),
        reset=_reset_row(record),
        cut=tables.cut(offset_changes(record), query),
    )
    title = _("Reset %(number)s of %(name)s", number=record.number, name=config.name)
    return await respond(request, "group_reset.html", context, title=title)


async def undo_page(request: PageRequest) -> Response:
    """GET /groups/{group}/resets/{id}/undo"""
    form = Form({})
    undo_review = None
    try:
        preview = await request.services.resets.preview(
            request.path_params["group"], _number(request)
        )
        undo_review = review(preview)
    except (Conflict, Refused) as error:
        form.blame(error)
    return await _undo_page(request, form, undo_review)


async def undo(request: PageRequest) -> Response:
    """POST /groups/{group}/resets/{id}/undo: with the precondition of the preview, or by force."""
    config = await group_of(request)
    __, fields = await request.read_form(ReviewFields)
    try:
        record = await request.services.resets.apply(
            request.actor,
            config.name,
            _number(request),
            precondition=fields.precondition,
            force=fields.is_forced,
        )
    except OffsetsMoved as error:
        conflict_review = review(error.preview, offsets=fields.offsets)
        return await _undo_page(request, Form({}), conflict_review, is_conflict=True)
    except (Conflict, Refused) as error:
        form = Form({})
        form.blame(error)
        return await _undo_page(request, form, None)
    return forms.go(request, f"{path_of(config.name)}/resets/{record.number}?done=changed")


async def _undo_page(
    request: PageRequest, form: Form, undo_review: Review | None, *, is_conflict: bool = False
) -> Response:
    console = request.console
    config = await group_of(request)
    former = await request.services.resets.get(config.name, _number(request))
    context = UndoPage(
        head=await head_of(console, config, "history"),
        form=form,
        reset=_reset_row(former),
        review=undo_review,
        is_conflict=is_conflict,
    )
    title = _("Undo reset %(number)s of %(name)s", number=former.number, name=config.name)
    status = 409 if is_conflict or form.is_wrong else 200
    return await respond(request, "group_undo.html", context, title=title, status=status)


def _number(request: PageRequest) -> int:
    text: str = request.path_params["id"]
    if is_whole(text):
        return int(text)
    raise NotFound(
        _("%(text)s is not the number of a reset", text=f"{text!r}"),
        remedy=_("see the group's history"),
    )


def _reset_row(record: Reset) -> ResetRow:
    return convert(record, ResetRow, to=place_in_words(record.to), queues=len(record.queues))


def _entry_row(entry: AuditEntry) -> EntryRow:
    action = entry.action.removeprefix("group.").replace("_", " ")
    return convert(entry, EntryRow, action=action, changes=_changes(entry))


def _changes(entry: AuditEntry) -> list[str]:
    """The changed fields of an entry as sentences: the first eight, and how many more."""
    before, after = _object(entry.before_json), _object(entry.after_json)
    if not after:
        return []
    names = [name for name in after if name != "queues" and _is_change(name, before, after)]
    lines = [_line(name, before, after) for name in names]
    if isinstance(after.get("queues"), list):
        lines.append(_("%(n)s queues moved", n=f"{len(after['queues']):,}"))
    more = len(lines) - CHANGES_LISTED_MAX
    return [*lines[:CHANGES_LISTED_MAX], _("and %(more)s more", more=more)] if more > 0 else lines


def _is_change(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a field differs; a new field only counts if it is not empty."""
    return bool(after[name]) if name not in before else before[name] != after[name]


def _line(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if name not in before:
        return f"{name}: {_text(after[name])}"
    return f"{name}: {_text(before[name])} → {_text(after[name])}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
