"""Checks whether a change of consumer progress is legal in the current state.

The progress store asks before it journals a change, and a start asks again before it applies one.
A change that passes cannot fail when it is applied, and keeps what `queue_progress.py` relies on:
every slot lies before the cursor, and each transition is in the table of `message_state.py`.

A change may name messages without a slot; it does nothing to them. A start that leaves out what
followed from records lost in a power failure meets such changes.
"""

from collections.abc import Callable, Sequence

from engine.delivery.changes import (
    CameDue,
    CursorAdvanced,
    CutOff,
    DeliverySettled,
    GroupReset,
    HandedOut,
    HeldForRetry,
    HeldLonger,
    OffsetCommitted,
    PutBack,
    QueueChange,
    Reset,
    ResetKept,
    Restored,
    SentBack,
    SerialUsed,
)
from engine.delivery.message_state import ENDS, TRANSITIONS, MessageState, Transition
from engine.delivery.queue_progress import QueueProgress
from engine.errors import Illegal
from engine.legality import (
    CURSOR_MAX,
    NUMBER_MAX,
    QUEUE_MAX,
    check_number,
    check_queue,
    check_text,
    offsets_of,
)
from engine.store.journal import JournalEntry

SERIAL_MAX = NUMBER_MAX - (1 << 40)  # leaves room for the deliveries to come
RESET_NUMBER_MAX = 1 << 53
FAILURES_MAX = (1 << 31) - 1

Phases = tuple[MessageState, ...]  # found by identity: the hash of an enum's member takes long
# From which phases a move ends what becomes of a message, and from which it goes on.
ENDING: dict[Transition, Phases] = {
    move: tuple(phase for (phase, each), to in TRANSITIONS.items() if each is move and to in ENDS)
    for move in Transition
}
ONGOING: dict[Transition, Phases] = {
    move: tuple(
        phase for (phase, each), to in TRANSITIONS.items() if each is move and to not in ENDS
    )
    for move in Transition
}
ACK, ACKED, EXTENDED = Transition.ACK, ENDING[Transition.ACK], ONGOING[Transition.EXTEND]
OUTSTANDING = frozenset({MessageState.READY, MessageState.INFLIGHT, MessageState.WAITING})

Moving = DeliverySettled | HeldLonger | PutBack | HeldForRetry | CameDue


class Legality:
    """A check for each type of change, which raises Illegal; `ProgressStore` names them all.

    `find` gives the progress of a group in a queue, `retries` how many retries of a group took
    the way through the delay levels, and how many did not. With `has_gap` changes before this one
    are lost: then no cursor moves over messages that one of them may have handed out.
    """

    def __init__(
        self,
        find: Callable[[str, str, int], QueueProgress | None],
        retries: Callable[[str], tuple[int, int]],
        has_gap: Callable[[], bool],
    ) -> None:
        self._find = find
        self._retries = retries
        self._has_gap = has_gap

    # -- the hot ones ----------------------------------------------------------------------------

    def settled(self, change: DeliverySettled) -> None:
        if change.delayed or change.direct or change.record_end:
            check_number("record_end", change.record_end)
            self._count(change.group, change.delayed, change.direct)
        move = change.move
        self._move(change, move, ACKED if move is ACK else ENDING[move])

    def held_longer(self, change: HeldLonger) -> None:
        if not (0 <= change.deadline_ms <= NUMBER_MAX and 0 <= change.serial <= SERIAL_MAX):
            raise Illegal(f"{_name(change)}: its deadline or serial is out of bounds")
        self._move(change, Transition.EXTEND, EXTENDED)

    def put_back(self, change: PutBack) -> None:
        self._move(change, Transition.RELEASE, ONGOING[Transition.RELEASE])

    def held_for_retry(self, change: HeldForRetry) -> None:
        check_number("due_ms", change.due_ms)
        self._move(change, Transition.KEEP, ONGOING[Transition.KEEP])

    def came_due(self, change: CameDue) -> None:
        self._move(change, Transition.DUE, ONGOING[Transition.DUE])

    def _move(self, change: Moving, move: Transition, phases: Phases) -> None:
        """Messages that have a slot are in one of `phases`."""
        progress = self._progress_of(change)
        runs = change.runs
        if progress is None:
            check_queue(change.queue)
            offsets_of(runs)
            return
        if len(runs) == 2 and runs[1] == 1:  # a single message, as most often
            slot = progress.slots.get(runs[0])
            if slot is not None and slot.phase not in phases:
                raise _wrong_move(change, slot.phase, move)
            return
        offsets = offsets_of(runs)
        shared = progress.shared_slot(offsets)
        last = None
        for slot in map(progress.slots.get, offsets) if shared is None else (shared,):
            if slot is not last:
                if slot is not None and slot.phase not in phases:
                    raise _wrong_move(change, slot.phase, move)
                last = slot

    def handed_out(self, change: HandedOut) -> None:
        progress = self._progress_of(change)
        cursor = 0 if progress is None else progress.cursor
        if not (
            0 < change.serial <= SERIAL_MAX
            and 0 <= change.deadline_ms <= NUMBER_MAX
            and cursor <= change.cursor <= CURSOR_MAX
            and 0 <= change.queue <= QUEUE_MAX
        ):
            raise Illegal(f"{_name(change)}: a number is out of bounds, or the cursor goes back")
        offsets = offsets_of(change.runs)
        again = 0
        if offsets:
            if offsets[-1] >= change.cursor:
                raise Illegal(f"{_name(change)}: offset {offsets[-1]} is past its cursor")
            if offsets[0] < cursor and progress is not None:
                again = _check_again(change, progress, offsets)
        if change.lanes:
            _check_lanes(change, len(change.lanes), len(offsets) - again)
        if change.deferred:
            _check_deferred(change, cursor, offsets)
        if self._has_gap():
            new = (*offsets[again : again + 1], *change.deferred[:1], change.cursor)
            _check_gap(change, cursor, min(new))

    # -- the others ------------------------------------------------------------------------------

    def passed(self, change: CursorAdvanced) -> None:
        progress = self._at(change)
        check_number("cursor", change.cursor, CURSOR_MAX)
        if progress is not None and change.cursor < progress.cursor:
            last = max(progress.slots, default=-1)
            if last >= change.cursor:
                raise Illegal(f"{_name(change)}: offset {last} past the cursor is outstanding")
        if progress is not None and self._has_gap():
            _check_gap(change, progress.cursor, change.cursor)

    def committed(self, change: OffsetCommitted) -> None:
        self._at(change)
        check_number("cursor", change.cursor, CURSOR_MAX)

    def cut_off(self, change: CutOff) -> None:
        progress = self._at(change)
        check_number("first", change.first, CURSOR_MAX)
        expired = 0 if progress is None else progress.expired
        check_number("count", change.count, NUMBER_MAX - expired)

    def restored(self, change: Restored) -> None:
        progress = self._at(change)
        offsets = offsets_of(change.runs)
        if change.phase not in OUTSTANDING:
            raise Illegal(f"{_name(change)}: what is {change.phase} is not outstanding")
        is_inflight = change.phase is MessageState.INFLIGHT
        check_number("serial", change.serial, SERIAL_MAX * is_inflight, least=int(is_inflight))
        check_number("until_ms", change.until_ms)
        check_number("failures", change.failures, FAILURES_MAX)
        _check_lanes(change, len(change.lanes), len(offsets))
        if offsets and (progress is None or offsets[-1] >= progress.cursor):
            raise Illegal(f"{_name(change)}: offset {offsets[-1]} is not before the cursor")
        if progress is not None and not progress.slots.keys().isdisjoint(offsets):
            raise Illegal(f"{_name(change)}: it was restored already")

    def sent_back(self, change: SentBack) -> None:
        self._count(change.group, change.delayed, change.direct)

    def serial_used(self, change: SerialUsed) -> None:
        check_number("serial", change.serial, SERIAL_MAX)

    def group_reset(self, change: GroupReset | ResetKept) -> None:
        reset: Reset = change.reset
        check_number("number", reset.number, RESET_NUMBER_MAX, least=1)
        for name in ("at_ms", "undoes", "undone_by"):
            check_number(name, getattr(reset, name))
        check_text("group", change.group)
        for moved in reset.queues:
            check_text("topic", moved.topic)
            check_queue(moved.queue)
            check_number("before", moved.before or 0, CURSOR_MAX)
            check_number("after", moved.after or 0, CURSOR_MAX)

    # -- inside ----------------------------------------------------------------------------------

    def _progress_of(self, change: QueueChange) -> QueueProgress | None:
        """The group's progress in the queue; where there is none yet the names must be possible."""
        progress = self._find(change.group, change.topic, change.queue)
        if progress is None:
            check_text("group", change.group)
            check_text("topic", change.topic)
        return progress

    def _at(self, change: QueueChange) -> QueueProgress | None:
        check_queue(change.queue)
        return self._progress_of(change)

    def _count(self, group: str, delayed: int, direct: int) -> None:
        before = self._retries(group)
        check_number("delayed", delayed, NUMBER_MAX - before[0])
        check_number("direct", direct, NUMBER_MAX - before[1])


def anything(change: JournalEntry) -> None:
    """It can be applied in any state."""


def place(change: QueueChange) -> None:
    check_queue(change.queue)
    check_text("group", change.group)
    check_text("topic", change.topic)


def _check_deferred(change: HandedOut, cursor: int, offsets: Sequence[int]) -> None:
    """What is set aside is new, and not delivered at the same time."""
    deferred = offsets_of(change.deferred)
    if deferred[0] < cursor or deferred[-1] >= change.cursor:
        raise Illegal(f"{_name(change)}: what is set aside is not between the cursors")
    if not set(deferred).isdisjoint(offsets):
        raise Illegal(f"{_name(change)}: what is set aside is handed out as well")
    _check_lanes(change, len(change.deferred_lanes), len(deferred))


def _check_gap(change: QueueChange, cursor: int, begin: int) -> None:
    if begin > cursor:
        raise Illegal(f"{_name(change)}: a change of the offsets from {cursor} on is lost")


def _check_again(change: HandedOut, progress: QueueProgress, offsets: Sequence[int]) -> int:
    """How many were examined before; each of them is ready."""
    count, cursor, slots = 0, progress.cursor, progress.slots
    for offset in offsets:
        if offset >= cursor:
            break
        slot = slots.get(offset)
        if slot is None or slot.phase is not MessageState.READY:
            state = "done" if slot is None else slot.phase
            raise Illegal(f"{_name(change)}: offset {offset} is {state}, not ready")
        count += 1
    return count


def _check_lanes(change: QueueChange, lanes: int, offsets: int) -> None:
    if lanes and lanes != offsets:
        raise Illegal(f"{_name(change)}: {lanes} lanes for {offsets} messages")


def _wrong_move(change: QueueChange, phase: MessageState, move: Transition) -> Illegal:
    return Illegal(f"{_name(change)}: a message that is {phase} has no move {move!s}")


def _name(change: QueueChange) -> str:
    kind = type(change).__name__
    return f"{kind} of group {change.group[:200]!r}, {change.topic[:200]!r}/{change.queue}"
