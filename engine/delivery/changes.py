"""Every change of consumer progress, as the journal keeps it.

A verb decides, journals one of these, and applies it; a restart applies them again. So what is
in memory is always what a restart would find. Offsets are written as runs: first, count, first, …
"""

import msgspec

from engine.delivery.message_state import MessageState, Transition
from engine.run_length import Runs
from engine.store.journal import JournalEntry


class QueueChange(JournalEntry, frozen=True):
    """A change in one queue of a topic, for one group."""

    group: str
    topic: str
    queue: int


class CursorAdvanced(QueueChange, frozen=True, tag="passed"):
    """The cursor moved over messages that the filter did not let through; or a group began."""

    cursor: int


class OffsetCommitted(QueueChange, frozen=True, tag="committed"):
    """Progress was set by hand or by a pulling client; what was outstanding is forgotten."""

    cursor: int


class HandedOut(QueueChange, frozen=True, tag="handed_out"):
    """One batch went to one client; `deferred` was examined but has to wait for its lane.

    `lanes` belong to the offsets at or past the old cursor, `deferred_lanes` to `deferred`.
    """

    cursor: int
    runs: Runs
    serial: int
    deadline_ms: int
    client: str
    lanes: list[str]
    deferred: Runs
    deferred_lanes: list[str]


class DeliverySettled(QueueChange, frozen=True, tag="settled"):
    """These are done for this group. `delayed` and `direct` count what went to the retry topic.

    `record_end` is where the log ended after what they became was written, 0 if it was nothing.
    """

    runs: Runs
    move: Transition
    delayed: int = 0
    direct: int = 0
    record_end: int = 0

    @property
    def follows(self) -> int:
        return self.record_end


class HeldLonger(QueueChange, frozen=True, tag="held_longer"):
    """Their clients keep them until another deadline; with a `serial`, under another receipt."""

    runs: Runs
    deadline_ms: int
    serial: int = 0


class HeldForRetry(QueueChange, frozen=True, tag="kept"):
    """These failed and come back at their place when due."""

    runs: Runs
    due_ms: int


class PutBack(QueueChange, frozen=True, tag="put_back"):
    """These were returned unused."""

    runs: Runs


class CameDue(QueueChange, frozen=True, tag="came_due"):
    """These have waited long enough after a failure."""

    runs: Runs


class CutOff(QueueChange, frozen=True, tag="cut_off"):
    """Messages before `first` are gone, `count` of them before the group was done with them."""

    first: int
    count: int


class Restored(QueueChange, frozen=True, tag="restored"):
    """From a snapshot: messages of one slot; `lanes` is empty where there are none."""

    runs: Runs
    phase: MessageState
    serial: int
    until_ms: int
    client: str
    failures: int
    lanes: list[str]


class SentBack(JournalEntry, frozen=True, tag="sent_back"):
    """Retries that a pulling client asked for; also what a snapshot says of all retries."""

    group: str
    delayed: int
    direct: int


class SerialUsed(JournalEntry, frozen=True, tag="serial_used"):
    """From a snapshot: deliveries to come are numbered above this."""

    serial: int


class GroupCleared(JournalEntry, frozen=True, tag="group_cleared"):
    """A group's progress is forgotten."""

    group: str


class OrderEnded(JournalEntry, frozen=True, tag="order_ended"):
    """A group is not ordered any more: what waited for earlier messages waits no longer."""

    group: str


class TopicCleared(JournalEntry, frozen=True, tag="topic_cleared"):
    """A topic's progress is forgotten, in all groups, and so are retries that came from it."""

    topic: str


class OffsetMove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One queue of a reset; None stands for no progress at all: the group begins as a new one."""

    topic: str
    queue: int
    before: int | None
    after: int | None


class Reset(msgspec.Struct, frozen=True, array_like=True):
    """An offset reset as it was carried out; `number` counts a group's resets from 1.

    `to` says in words where to, `undoes` is the number of the reset that this one took back,
    `undone_by` that of the one which took this back; 0 for none.
    """

    number: int
    at_ms: int
    to: str
    queues: list[OffsetMove]
    undoes: int = 0
    undone_by: int = 0


class GroupReset(JournalEntry, frozen=True, tag="group_reset"):
    """A group was moved, in all queues of the reset at once; what was outstanding is forgotten.

    Commits of pulling clients do not count there until they have heard of it (ResetSeen).
    """

    group: str
    reset: Reset


class ResetSeen(QueueChange, frozen=True, tag="reset_seen"):
    """A pulling client of the group has learned that the queue was reset."""


class ResetUnseen(QueueChange, frozen=True, tag="reset_unseen"):
    """From a snapshot: no client of the group has heard yet that the queue was reset."""


class ResetKept(JournalEntry, frozen=True, tag="reset_kept"):
    """From a snapshot: a reset of the past; it moves nothing."""

    group: str
    reset: Reset
