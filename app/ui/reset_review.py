"""What a reset would do, or did, as rows of a table. Pure.

A review carries what it showed (`seen`) through the form, so that a refused one can say which
queues have moved since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.ui.formats import absolute
from engine.broker import QueueMove, Reset, ResetNote, ResetPreview

SHOWN = 200
NONE = "-"
NOTES = {
    ResetNote.NONE: "",
    ResetNote.BEFORE_OLDEST: "lies before the oldest message kept: goes there instead",
    ResetNote.PAST_END: "lies past the end: goes there instead",
    ResetNote.NO_PLACE: "stays: there is no offset to copy or to count from",
    ResetNote.QUEUE_GONE: "stays: the topic has no such queue any more",
}

Place = tuple[str, int]


@dataclass(frozen=True)
class MoveRow:
    """One queue: `delta` messages forward, or back if negative, None where there is no number.

    `has_moved`: the group is elsewhere than the review before said, `seen_offset`.
    """

    topic: str
    queue: int
    current_offset: int | None
    new_offset: int | None
    delta: int | None
    again: int
    skipped: int
    inflight: int
    target_ms: int | None
    is_moved: bool
    is_clipped: bool
    note: str
    has_moved: bool
    seen_offset: int | None


@dataclass(frozen=True)
class Review:
    """All queues of a reset taken together, and at most 200 of them one by one."""

    to: str
    rows: Sequence[MoveRow]
    total: int
    first: int
    page: int
    pages: int
    moving: int
    clipped: int
    again: int
    skipped: int
    inflight: int
    retry_waiting: int
    precondition: str
    seen: str
    moved_since: int


def review(preview: ResetPreview, *, seen: str = "", page: int = 1) -> Review:
    """A preview as people look at it; queues that moved since `seen` come first."""
    before = _parsed(seen)
    rows = [_row(move, before) for move in preview.queues]
    rows.sort(key=lambda row: not row.has_moved)
    pages = max(1, -(-len(rows) // SHOWN))
    page = min(max(1, page), pages)
    shown = rows[(page - 1) * SHOWN : page * SHOWN]
    return Review(
        to=place_in_words(preview.to),
        rows=shown,
        total=len(rows),
        first=(page - 1) * SHOWN + 1 if shown else 0,
        page=page,
        pages=pages,
        moving=sum(row.is_moved and row.delta != 0 for row in rows),
        clipped=sum(row.is_clipped for row in rows),
        again=preview.again,
        skipped=preview.skipped,
        inflight=preview.inflight,
        retry_waiting=preview.retry_waiting,
        precondition=preview.precondition,
        seen="\n".join(_line(move) for move in preview.queues),
        moved_since=sum(row.has_moved for row in rows),
    )


def place_in_words(to: str) -> str:
    """Where a reset goes, as the engine writes it down, for people."""
    kind, _, value = to.partition(" ")
    if kind == "time":
        return f"the first message stored at {absolute(int(value))} or later"
    if kind == "shift":
        count = int(value)
        noun = "message" if abs(count) == 1 else "messages"
        return f"{abs(count):,} {noun} {'back' if count < 0 else 'forward'}"
    if kind == "offset":
        return f"offset {int(value):,}"
    if kind == "group":
        return f"where group {value} is"
    if kind == "undo":
        return f"where reset {value} found it"
    return {"earliest": "the oldest message kept", "latest": "the end"}.get(kind, to)


@dataclass(frozen=True)
class DoneRow:
    """Where a reset found a queue, and where it put it."""

    topic: str
    queue: int
    current_offset: int | None
    new_offset: int | None
    delta: int | None


def done_rows(reset: Reset) -> list[DoneRow]:
    """A reset that was carried out, queue by queue."""
    return [
        DoneRow(each.topic, each.queue, each.before, each.after, _delta(each.before, each.after))
        for each in reset.queues
    ]


def _row(move: QueueMove, before: Mapping[Place, int | None]) -> MoveRow:
    place = (move.topic, move.queue)
    has_moved = place in before and before[place] != move.current
    return MoveRow(
        topic=move.topic,
        queue=move.queue,
        current_offset=move.current,
        new_offset=move.target,
        delta=_delta(move.current, move.target),
        again=move.again,
        skipped=move.skipped,
        inflight=move.inflight,
        target_ms=move.target_ms,
        is_moved=move.is_moved,
        is_clipped=move.note in (ResetNote.BEFORE_OLDEST, ResetNote.PAST_END),
        note=NOTES[move.note],
        has_moved=has_moved,
        seen_offset=before[place] if has_moved else None,
    )


def _delta(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _line(move: QueueMove) -> str:
    return f"{move.queue} {NONE if move.current is None else move.current} {move.topic}"


def _parsed(seen: str) -> dict[Place, int | None]:
    """What `_line` wrote; whatever else came back with the form is left out."""
    found: dict[Place, int | None] = {}
    for line in seen.splitlines():
        queue, _, rest = line.partition(" ")
        current, _, topic = rest.partition(" ")
        if _is_number(queue) and topic and (current == NONE or _is_number(current)):
            found[topic, int(queue)] = None if current == NONE else int(current)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
