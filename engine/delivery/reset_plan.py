"""The target of a reset, its effect on each queue, and the plan that computes it.

`resets.py` makes plans and carries them out.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from engine.delivery.queue_progress import QueueProgress
from engine.errors import Conflict, Invalid

STEP_QUEUES_MAX = 16  # whose place in time is searched in one step: some 20 small reads each
VALUE_MAX = 2**63 - 1

Place = tuple[str, int]  # topic and queue


class ResetTo(StrEnum):
    """Targets of a reset."""

    EARLIEST = "earliest"  # the oldest message kept
    LATEST = "latest"  # the end: nothing that is stored now is read
    TIME = "time"  # the first message stored at or after a time
    OFFSET = "offset"  # one offset, the same in every queue
    SHIFT = "shift"  # so many messages forward, or back if negative
    GROUP = "group"  # where another group is


class ResetTarget(msgspec.Struct, frozen=True):
    """A place: `value` is ms since 1970 UTC, an offset, or a number of messages, as `to` says."""

    to: ResetTo
    value: int = 0
    group: str = ""

    def __str__(self) -> str:
        if self.to is ResetTo.GROUP:
            return f"group {self.group}"
        is_plain = self.to in (ResetTo.EARLIEST, ResetTo.LATEST)
        return str(self.to) if is_plain else f"{self.to} {self.value}"


class ResetNote(StrEnum):
    """Why a queue does not go where it was asked to."""

    NONE = ""
    BEFORE_OLDEST = "before_oldest"  # that is not kept any more: the oldest that is, instead
    PAST_END = "past_end"  # nothing is there yet: the end instead
    NO_PLACE = "no_place"  # there is no offset to copy or to count from: it stays as it is
    QUEUE_GONE = "queue_gone"  # the topic has no such queue any more: it stays as it is


class QueueMove(msgspec.Struct, frozen=True):
    """Effect of a reset on one queue.

    `current` is the committed offset, None where the group never consumed. `target` None leaves
    nothing: the group begins there as a new one (an undo to where it had not been). A queue that
    does not move says why in `note`. `again` counts messages that the group is done with and would
    get again (a filter may hold some back), `skipped` those that it would never get, `inflight`
    those that clients have in hand. `target_stored_ms` is when the message at `target` was stored.
    """

    topic: str
    queue: int
    min_offset: int
    max_offset: int
    current: int | None
    target: int | None
    moves: bool
    note: ResetNote
    redelivered: int
    skipped: int
    inflight: int
    target_stored_ms: int | None


class ResetPreview(msgspec.Struct, frozen=True):
    """Preview of a reset. `precondition` stands for all `current` offsets together.

    `retry_waiting` retries of the group wait for their delay; no reset reaches them.
    """

    group: str
    to: str
    queues: list[QueueMove]
    precondition: str
    retry_waiting: int

    @property
    def redelivered(self) -> int:
        return sum(queue.redelivered for queue in self.queues)

    @property
    def skipped(self) -> int:
        return sum(queue.skipped for queue in self.queues)

    @property
    def inflight(self) -> int:
        return sum(queue.inflight for queue in self.queues)


class OffsetsMoved(Conflict):
    """The offsets are not those of the precondition; `preview` is how it looks now."""

    code = "offsets_moved"

    def __init__(self, detail: str, preview: ResetPreview) -> None:
        super().__init__(
            detail,
            field="precondition",
            remedy="look at the preview again and give its precondition, or use force",
        )
        self.preview = preview


class Goal(NamedTuple):
    """Target of one queue: an offset not yet checked against its bounds, or why there is none."""

    offset: int | None
    note: ResetNote = ResetNote.NONE


STAY = Goal(None, ResetNote.NO_PLACE)


class ResetPlan:
    """A reset that can be looked at and carried out, once `step` has said that it is whole."""

    def __init__(
        self,
        look: Callable[["ResetPlan"], ResetPreview],
        group: str,
        places: Sequence[Place],
        to: str,
        goal: Callable[[Place, QueueProgress | None], Goal],
        *,
        search: Callable[[Place], None] | None = None,
        undoes: int = 0,
        expected: str = "",
    ) -> None:
        self._look = look
        self._goal = goal
        self._search = search
        self._unsearched = list(places) if search is not None else []
        self.group = group
        self.places = places
        self.to = to
        self.undoes = undoes
        self.expected = expected  # the precondition where the caller gives none; "" for none

    def step(self) -> bool:
        """Find the place in time of at most 16 more queues; whether there are more."""
        part, self._unsearched = (
            self._unsearched[:STEP_QUEUES_MAX],
            self._unsearched[STEP_QUEUES_MAX:],
        )
        for place in part:
            assert self._search is not None
            self._search(place)
        return bool(self._unsearched)

    def preview(self) -> ResetPreview:
        """What would happen now; searches on to the end if `step` has not."""
        while self.step():
            pass
        return self._look(self)

    def goal(self, place: Place, progress: QueueProgress | None) -> Goal:
        """The target of a queue."""
        return self._goal(place, progress)


def check_value(target: ResetTarget) -> None:
    """Raises Invalid unless `value` is one that this kind of place can have."""
    least = -VALUE_MAX if target.to is ResetTo.SHIFT else 0
    if not least <= target.value <= VALUE_MAX:
        raise Invalid(
            f"{target.to} {target.value}", field="value", remedy=f"choose {least} or more"
        )


def token_of(group: str, current: Sequence[tuple[str, int, int | None]]) -> str:
    """A short text that stands for a group's offsets in certain queues."""
    content = msgspec.msgpack.encode((group, sorted(current, key=lambda each: each[:2])))
    return blake2b(content, digest_size=16).hexdigest()
