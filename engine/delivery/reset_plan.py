"""The target of a reset, its effect on each queue, and the plan that computes it.

`resets.py` makes plans and carries them out.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from engine.delivery.changes import OffsetMove
from engine.delivery.queue_progress import QueueProgress
from engine.errors import Conflict, Invalid, QueueNotFound, Refused
from engine.legality import QUEUE_MAX
from engine.topic.names import RETRY_PREFIX, retry_topic

TOPICS_MAX = 64
QUEUES_MAX = 1024  # as many as one topic can have: some 10 ms of work
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
    those that clients have in hand, None where that is not known. `target_stored_ms` is when the
    message at `target` was stored.
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
    inflight: int | None
    target_stored_ms: int | None


class ResetPreview(msgspec.Struct, frozen=True):
    """Preview of a reset. `precondition` stands for all `current` offsets together.

    `retry_waiting` retries of the group wait for their delay, None where that is not known; no
    reset reaches them.
    """

    group: str
    to: str
    queues: list[QueueMove]
    precondition: str
    retry_waiting: int | None

    @property
    def redelivered(self) -> int:
        return sum(queue.redelivered for queue in self.queues)

    @property
    def skipped(self) -> int:
        return sum(queue.skipped for queue in self.queues)

    @property
    def inflight(self) -> int | None:
        counts = [each.inflight for each in self.queues if each.inflight is not None]
        return sum(counts) if len(counts) == len(self.queues) else None


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

    @property
    def moves(self) -> bool:
        """Whether the queue goes anywhere."""
        return self.note not in (ResetNote.NO_PLACE, ResetNote.QUEUE_GONE)

    def within(self, first: int, end: int) -> "Goal":
        """The same, brought to the nearer end of what the queue holds."""
        if not self.moves or self.offset is None or first <= self.offset <= end:
            return self
        if self.offset < first:
            return Goal(first, ResetNote.BEFORE_OLDEST)
        return Goal(end, ResetNote.PAST_END)


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


def reset_token(group: str, current: Sequence[tuple[str, int, int | None]]) -> str:
    """A short text that stands for a group's offsets in certain queues."""
    content = msgspec.msgpack.encode((group, sorted(current, key=lambda each: each[:2])))
    return blake2b(content, digest_size=16).hexdigest()


def check_reset(
    group: str,
    topics: Sequence[str],
    target: ResetTarget,
    queues: Sequence[int],
    own_retries: Collection[str] = (),
) -> list[str]:
    """Each topic once; raises Invalid for topics, queues or a value that no reset has.

    `own_retries` are retry topics of the group beside the usual one.
    """
    least = -VALUE_MAX if target.to is ResetTo.SHIFT else 0
    if not least <= target.value <= VALUE_MAX:
        raise Invalid(
            f"{target.to} {target.value}", field="value", remedy=f"choose {least} or more"
        )
    names = list(dict.fromkeys(topics))
    if not 0 < len(names) <= TOPICS_MAX:
        raise Invalid(
            f"{len(names)} topics, it must be 1 to {TOPICS_MAX}",
            field="topics",
            remedy="name the topics to move in",
        )
    if queues and len(names) > 1:
        raise Invalid(
            "queues of several topics", field="queues", remedy="name one topic with its queues"
        )
    for name in names:
        _check_retries(group, name, target, own_retries)
    return names


def check_reset_goals(
    group: str, goals: Mapping[Place, int | None], own_retries: Collection[str] = ()
) -> list[str]:
    """The topics; raises Invalid unless these are 1 to 1,024 queues with possible offsets."""
    if not 0 < len(goals) <= QUEUES_MAX:
        raise Invalid(
            f"{len(goals)} queues in one plan, it must be 1 to {QUEUES_MAX}",
            field="queues",
            remedy="divide the plan",
        )
    for (_, queue), offset in goals.items():
        if not 0 <= queue <= QUEUE_MAX or abs(offset or 0) > VALUE_MAX:
            raise Invalid(
                f"offset {offset} of queue {queue}"[:100],
                field="queues",
                remedy=f"name queues from 0 on, and offsets up to {VALUE_MAX}",
            )
    names = list(dict.fromkeys(topic for topic, _ in goals))
    for name in names:
        _check_retries(group, name, ResetTarget(ResetTo.OFFSET), own_retries)
    return names


def reset_places(there: Mapping[str, Collection[int]], queues: Sequence[int]) -> list[Place]:
    """The queues to move, of those that are there by topic: all, or `queues` of a single one.

    Raises QueueNotFound, and Invalid for more than one reset moves.
    """
    places: list[Place] = []
    for topic, numbers in there.items():
        for queue in queues:
            if queue not in numbers:
                raise QueueNotFound(
                    f"topic {topic!r} has no queue {queue}",
                    field="queues",
                    remedy=f"choose 0 to {max(numbers, default=0)}",
                )
        places += [(topic, queue) for queue in sorted(set(queues)) or numbers]
    if len(places) > QUEUES_MAX:
        raise Invalid(
            f"{len(places)} queues in one reset, {QUEUES_MAX} is the most",
            field="topics",
            remedy="name fewer topics at once",
        )
    return places


def reset_moves(preview: ResetPreview, precondition: str, *, force: bool) -> list[OffsetMove]:
    """The queues that move if the preview is as the precondition has it, or by force.

    Raises Invalid where there is neither, OffsetsMoved, and Refused where no queue would move.
    """
    if not precondition and not force:
        raise Invalid(
            "a reset needs the precondition of its preview",
            field="precondition",
            remedy="give what the preview says, or use force to move whatever the offsets are",
        )
    if not force and preview.precondition != precondition:
        raise OffsetsMoved(
            f"the offsets of group {preview.group!r} are not those of the precondition", preview
        )
    moves = [
        OffsetMove(each.topic, each.queue, each.current, each.target)
        for each in preview.queues
        if each.moves
    ]
    if not moves:
        raise Refused("no queue would move", field="to", remedy="see the notes of the preview")
    return moves


def _check_retries(
    group: str, topic: str, target: ResetTarget, own_retries: Collection[str]
) -> None:
    usual = retry_topic(group)
    is_own = topic == usual or topic in own_retries
    if topic.startswith(RETRY_PREFIX) and not is_own:
        raise Invalid(
            f"{topic!r} is the retry topic of another group",
            field="topics",
            remedy=f"this group's own is {usual!r}",
        )
    if target.to is ResetTo.GROUP and is_own:
        raise Invalid(
            "another group has no place in this group's retry topic",
            field="topics",
            remedy="leave it out, or move it to the latest",
        )
