"""Stores the progress of every group in every queue, through the journal.

`write` checks a change (legality.py), journals it and applies it, in this order; loading checks and
applies the same changes again. `on_ready` reports messages that become available other than by
arriving, so that long polls wake.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from engine.delivery.changes import (
    CameDue,
    CursorAdvanced,
    CutOff,
    DeliverySettled,
    GroupCleared,
    GroupReset,
    HandedOut,
    HeldForRetry,
    HeldLonger,
    OffsetCommitted,
    OrderEnded,
    PutBack,
    QueueChange,
    ResetKept,
    ResetSeen,
    ResetUnseen,
    Restored,
    SentBack,
    SerialUsed,
    TopicCleared,
)
from engine.delivery.deadlines import Deadlines
from engine.delivery.legality import Legality, anything, place
from engine.delivery.message_state import Transition
from engine.delivery.order import OPEN_LANE, TopicLanes
from engine.delivery.queue_progress import QueueProgress, owner_of
from engine.delivery.reset_history import ResetHistory
from engine.run_length import from_runs
from engine.store.journal import Journal, JournalEntry
from engine.topic.names import RETRY_PREFIX

SERIAL_SHIFT = 20  # a million deliveries in each millisecond since 1970 before numbers could meet

OnReady = Callable[[str, str, int], None]
Rule = tuple[Callable[[Any], None], Callable[[Any], None]]  # check and apply


class RetryCount(msgspec.Struct):
    """How many retries of a group took the way through the delay levels, and how many did not."""

    delayed: int = 0
    direct: int = 0


def _nobody(group: str, topic: str, count: int) -> None:
    """Until somebody listens."""


class ProgressStore:
    """`window` bounds what one group may have outstanding in one queue."""

    def __init__(self, journal: Journal, deadlines: Deadlines, *, window: int) -> None:
        self._journal = journal
        self._deadlines = deadlines
        self.window = window
        self.on_ready: OnReady = _nobody
        self._groups: dict[str, dict[tuple[str, int], QueueProgress]] = {}
        self._retries: dict[str, RetryCount] = {}
        self.removals = 0  # a `QueueProgress` is the same one until this number changes
        self.resets = ResetHistory()
        self._serial = 0
        rules = self._rules()
        self._appliers = {kind: apply for kind, (_, apply) in rules.items()}
        checks = {kind: check for kind, (check, _) in rules.items()}
        journal.register(tuple(rules), self.apply, self._snapshot, checks)

    def _rules(self) -> dict[type[JournalEntry], Rule]:
        """Of each type of change: whether it can be made, and what it does."""
        legal = Legality(self.find, self._counts_of, lambda: self._journal.has_gap)
        return {
            CursorAdvanced: (legal.passed, self._passed),
            OffsetCommitted: (legal.committed, self._committed),
            HandedOut: (legal.handed_out, self._handed_out),
            DeliverySettled: (legal.settled, self._settled),
            HeldLonger: (legal.held_longer, self._held_longer),
            HeldForRetry: (legal.held_for_retry, self._held_for_retry),
            PutBack: (legal.put_back, self._put_back),
            CameDue: (legal.came_due, self._came_due),
            CutOff: (legal.cut_off, self._cut_off),
            Restored: (legal.restored, self._restored),
            SentBack: (legal.sent_back, self._sent_back),
            SerialUsed: (legal.serial_used, self._serial_used),
            GroupCleared: (anything, self._group_cleared),
            OrderEnded: (anything, self._order_ended),
            TopicCleared: (anything, self._topic_cleared),
            GroupReset: (legal.group_reset, self._group_reset),
            ResetSeen: (place, self._reset_seen),
            ResetUnseen: (place, self._reset_unseen),
            ResetKept: (legal.group_reset, self._reset_kept),
        }

    def start(self, now_ms: int) -> None:
        """After loading: number deliveries above all earlier ones."""
        self._serial = max(self._serial, now_ms << SERIAL_SHIFT)

    def next_serial(self) -> int:
        """The number of the next delivery; higher than any before, also before a restart."""
        return self._serial + 1

    def write(self, change: JournalEntry, *, is_owed: bool = False) -> None:
        """Keep a change and make it so; nothing happens when the journal cannot be written.

        One that `is_owed` follows from a record that the log has, and happens in any case. Raises
        Illegal for a change that cannot be made, and nothing happens.
        """
        self._journal.append(change, is_owed=is_owed)
        self.apply(change)

    def find(self, group: str, topic: str, queue: int) -> QueueProgress | None:
        queues = self._groups.get(group)
        return None if queues is None else queues.get((topic, queue))

    def of_group(self, group: str) -> list[QueueProgress]:
        """All progress of a group, by topic and queue."""
        queues = self._groups.get(group, {})
        return [queues[key] for key in sorted(queues)]

    def every(self) -> list[QueueProgress]:
        """All progress of all groups, as it is now."""
        return [progress for queues in self._groups.values() for progress in queues.values()]

    def has_topic(self, group: str, topic: str) -> bool:
        """Whether the group has consumed from any queue of a topic."""
        return any(name == topic for name, _ in self._groups.get(group, ()))

    def names(self) -> tuple[set[str], set[str]]:
        """Groups and topics that there is any progress of."""
        return set(self._groups), {topic for queues in self._groups.values() for topic, _ in queues}

    def groups_of(self, topic: str) -> list[str]:
        """Groups with progress in a topic, by name."""
        return sorted(
            {
                owner_of(group)
                for group, queues in self._groups.items()
                if any(name == topic for name, _ in queues)
            }
        )

    def retries(self, group: str) -> RetryCount:
        return self._retries.get(group, RetryCount())

    def has_room(self, progress: QueueProgress) -> bool:
        return len(progress.slots) < self.window

    # -- one method for each change --------------------------------------------------------------

    def apply(self, change: JournalEntry) -> None:
        """Make a change that the journal has."""
        self._appliers[type(change)](change)

    def _ensure(self, change: QueueChange) -> QueueProgress:
        queues = self._groups.setdefault(change.group, {})
        key = (change.topic, change.queue)
        progress = queues.get(key)
        if progress is None:
            progress = queues[key] = QueueProgress(change.group, change.topic, change.queue)
        return progress

    def _find(self, change: QueueChange) -> QueueProgress | None:
        return self.find(change.group, change.topic, change.queue)

    def _passed(self, change: CursorAdvanced) -> None:
        self._ensure(change).cursor = change.cursor

    def _committed(self, change: OffsetCommitted) -> None:
        self._ensure(change).restart(change.cursor)
        self.on_ready(change.group, change.topic, self.window)

    def _handed_out(self, change: HandedOut) -> None:
        progress = self._ensure(change)
        progress.is_reset_unseen = False  # a client that receives goes on from there
        for batch in progress.hand_out(change):
            self._deadlines.add(progress, batch)
        if change.serial > self._serial:
            self._serial = change.serial
        if change.deferred and progress.is_retry:
            for lane in change.deferred_lanes:
                self.on_ready(change.group, lane, 1)

    def _settled(self, change: DeliverySettled) -> None:
        if change.delayed or change.direct:
            self._count_retries(change.group, change.delayed, change.direct)
        progress = self._find(change)
        if progress is None:
            return
        was_full = not self.has_room(progress)
        before = len(progress.slots)
        freed = progress.settle(from_runs(change.runs), change.move)
        count = len(freed) + (before - len(progress.slots) if was_full else 0)
        if count:
            self.on_ready(change.group, change.topic, count)

    def _held_longer(self, change: HeldLonger) -> None:
        self._serial = max(self._serial, change.serial)
        offsets = from_runs(change.runs)
        self._rewatch(change, offsets, Transition.EXTEND, change.deadline_ms, change.serial)

    def _held_for_retry(self, change: HeldForRetry) -> None:
        self._rewatch(change, from_runs(change.runs), Transition.KEEP, change.due_ms)

    def _rewatch(
        self,
        change: QueueChange,
        offsets: Sequence[int],
        move: Transition,
        until_ms: int,
        serial: int = 0,
    ) -> None:
        progress = self._find(change)
        if progress is not None:
            for batch in progress.change_slots(offsets, move, until_ms, serial):
                self._deadlines.add(progress, batch)

    def _put_back(self, change: PutBack) -> None:
        self._make_ready(change, from_runs(change.runs), Transition.RELEASE)

    def _came_due(self, change: CameDue) -> None:
        self._make_ready(change, from_runs(change.runs), Transition.DUE)

    def _make_ready(self, change: QueueChange, offsets: Sequence[int], move: Transition) -> None:
        progress = self._find(change)
        if progress is None:
            return
        for batch in progress.change_slots(offsets, move):
            for offset in batch.offsets:
                lane = progress.lanes.bucket(offset) if progress.lanes is not None else OPEN_LANE
                self.on_ready(progress.group, lane or progress.topic, 1)

    def _cut_off(self, change: CutOff) -> None:
        progress = self._ensure(change)
        progress.expired += change.count
        was_full = not self.has_room(progress)
        freed = progress.settle(progress.overtaken(change.first), Transition.DROP)
        progress.cursor = max(progress.cursor, change.first)
        if freed or was_full:
            self.on_ready(change.group, change.topic, max(1, len(freed)))

    def _restored(self, change: Restored) -> None:
        progress = self._ensure(change)
        batch = progress.restore(change)
        if batch.slot.until_ms:
            self._deadlines.add(progress, batch)

    def _sent_back(self, change: SentBack) -> None:
        self._count_retries(change.group, change.delayed, change.direct)

    def _counts_of(self, group: str) -> tuple[int, int]:
        count = self._retries.get(group)
        return (0, 0) if count is None else (count.delayed, count.direct)

    def _count_retries(self, group: str, delayed: int, direct: int) -> None:
        count = self._retries.setdefault(group, RetryCount())
        count.delayed += delayed
        count.direct += direct

    def _serial_used(self, change: SerialUsed) -> None:
        self._serial = max(self._serial, change.serial)

    def _group_cleared(self, change: GroupCleared) -> None:
        self.removals += 1
        self._retries.pop(change.group, None)
        self.resets.forget_group(change.group)
        for progress in self._groups.pop(change.group, {}).values():
            progress.restart(progress.cursor)

    def _order_ended(self, change: OrderEnded) -> None:
        for progress in self._groups.get(change.group, {}).values():
            freed = progress.end_order()
            if freed:
                self.on_ready(progress.group, progress.topic, freed)

    def _topic_cleared(self, change: TopicCleared) -> None:
        self.removals += 1
        if change.topic.startswith(RETRY_PREFIX):
            self._retries.pop(change.topic.removeprefix(RETRY_PREFIX), None)
        self.resets.forget_topic(change.topic)
        for queues in self._groups.values():
            for key in [key for key in queues if key[0] == change.topic]:
                progress = queues.pop(key)
                progress.restart(progress.cursor)
            for progress in queues.values():
                if isinstance(progress.lanes, TopicLanes):
                    dropped = sorted(progress.lanes.offsets_of(change.topic))
                    progress.settle(dropped, Transition.DROP)
                    self.on_ready(progress.group, progress.topic, len(dropped))

    def _group_reset(self, change: GroupReset) -> None:
        self.removals += 1
        group, queues = change.group, self._groups.setdefault(change.group, {})
        for moved in change.reset.queues:
            key = (moved.topic, moved.queue)
            if moved.after is None:
                removed = queues.pop(key, None)
                if removed is not None:
                    removed.restart(removed.cursor)
                continue
            progress = queues.get(key)
            if progress is None:
                progress = queues[key] = QueueProgress(group, *key)
            progress.restart(moved.after)
            progress.is_reset_unseen = True
        self.resets.add(group, change.reset)
        for topic in {each.topic: None for each in change.reset.queues}:
            self.on_ready(group, topic, self.window)

    def _reset_seen(self, change: ResetSeen) -> None:
        progress = self._find(change)
        if progress is not None:
            progress.is_reset_unseen = False

    def _reset_unseen(self, change: ResetUnseen) -> None:
        self._ensure(change).is_reset_unseen = True

    def _reset_kept(self, change: ResetKept) -> None:
        self.resets.keep(change.group, change.reset)

    # -- the snapshot ----------------------------------------------------------------------------

    def _snapshot(self) -> Iterator[JournalEntry]:
        yield SerialUsed(self._serial)
        for group, count in self._retries.items():
            yield SentBack(group, count.delayed, count.direct)
        for queues in self._groups.values():
            for progress in queues.values():
                yield from progress.snapshot()
        for group, reset in self.resets.everything():
            yield ResetKept(group, reset)
