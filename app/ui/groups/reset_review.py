"""The rows of a planned or finished reset. Pure.

A review carries its `offsets` through the form, so that a conflict can mark the queues that have
moved since.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.ui.framework import tables
from app.ui.framework.formats import absolute
from app.ui.framework.language import N_, _, ngettext, translated
from app.ui.framework.tables import Cut, Query
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.broker import OffsetMove, QueueMove, Reset, ResetNote, ResetPreview
from kitemq.model.conversion import convert
from kitemq.model.numbers import INT64_DIGITS, is_whole

PAGE_SIZE = 200
NONE = "-"
NOTES = {
    ResetNote.NONE: "",
    ResetNote.BEFORE_OLDEST: N_("before the oldest message: adjusted to it"),
    ResetNote.PAST_END: N_("past the end: adjusted to it"),
    ResetNote.NO_PLACE: N_("unchanged: no offset to copy or to count from"),
    ResetNote.QUEUE_GONE: N_("unchanged: the queue no longer exists"),
}

Place = tuple[str, int]


class ReviewFields(Fields, frozen=True, rename={"is_forced": "force"}):
    """What the form below a review posts; `offsets` are those that the review showed."""

    precondition: str
    is_forced: bool
    offsets: Verbatim


class MoveRow(QueueMove, frozen=True, kw_only=True):
    """One queue: it moves `delta` messages forward, or back if negative; None if unknown.

    `has_moved` if the group is no longer at the offset of the previous review, `seen_offset`.
    """

    delta: int | None
    is_clipped: bool
    why: str
    has_moved: bool
    seen_offset: int | None


@dataclass(frozen=True)
class Review:
    """The totals over all queues of a reset, and a page of at most 200 queues."""

    to: str
    cut: Cut[MoveRow]
    moving: int
    clipped: int
    offsets: str
    moved_since: int
    preview: ResetPreview = field(repr=False)


def review(preview: ResetPreview, *, offsets: str = "", page: int = 1) -> Review:
    """The review of a preview; queues that moved since `offsets` come first."""
    before = _parsed(offsets)
    rows = [_row(move, before) for move in preview.queues]
    rows.sort(key=lambda row: not row.has_moved)
    return Review(
        to=place_in_words(preview.to),
        cut=tables.cut(rows, Query(page=max(1, page), size=PAGE_SIZE)),
        moving=sum(row.moves and row.delta != 0 for row in rows),
        clipped=sum(row.is_clipped for row in rows),
        offsets="\n".join(_line(move) for move in preview.queues),
        moved_since=sum(row.has_moved for row in rows),
        preview=preview,
    )


def place_in_words(to: str) -> str:
    """The target of a reset in words; the engine stores it as text."""
    kind, __, value = to.partition(" ")
    if kind == "time":
        return _("the first message stored at %(at)s or later", at=absolute(int(value)))
    if kind == "shift":
        count = int(value)
        if count < 0:
            return ngettext("%(num)s message back", "%(num)s messages back", -count)
        return ngettext("%(num)s message forward", "%(num)s messages forward", count)
    if kind == "offset":
        return _("offset %(offset)s", offset=f"{int(value):,}")
    if kind == "group":
        return _("where group %(value)s is", value=value)
    if kind == "undo":
        return _("where reset %(value)s found it", value=value)
    words = {
        "earliest": _("the oldest message kept"),
        "latest": _("the end"),
        "plan": _("the offsets of a plan"),
    }
    return words.get(kind, to)


@dataclass(frozen=True)
class OffsetChange:
    """A queue's offsets before and after a reset; `delta` is None if one is unknown."""

    move: OffsetMove
    delta: int | None


def offset_changes(reset: Reset) -> list[OffsetChange]:
    """The rows of a finished reset."""
    return [OffsetChange(each, _delta(each.before, each.after)) for each in reset.queues]


def _row(move: QueueMove, before: Mapping[Place, int | None]) -> MoveRow:
    place = (move.topic, move.queue)
    has_moved = place in before and before[place] != move.current
    return convert(
        move,
        MoveRow,
        delta=_delta(move.current, move.target),
        is_clipped=move.note in (ResetNote.BEFORE_OLDEST, ResetNote.PAST_END),
        why=translated(NOTES[move.note]),
        has_moved=has_moved,
        seen_offset=before[place] if has_moved else None,
    )


def _delta(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _line(move: QueueMove) -> str:
    return f"{move.queue} {NONE if move.current is None else move.current} {move.topic}"


def _parsed(text: str) -> dict[Place, int | None]:
    """Parse the lines of `_line`; other lines of the form are ignored."""
    places: dict[Place, int | None] = {}
    for line in text.splitlines():
        queue, __, rest = line.partition(" ")
        current, __, topic = rest.partition(" ")
        if _is_number(queue) and topic and (current == NONE or _is_number(current)):
            places[topic, int(queue)] = None if current == NONE else int(current)
    return places


def _is_number(text: str) -> bool:
    return is_whole(text, INT64_DIGITS)
