"""A consumer group's progress in one queue: a cursor, and the state of each outstanding message.

A message before the cursor that has no state is done, so memory grows with what is outstanding and
not with what is stored. This module decides and writes nothing: `progress_store.py` applies the
journal's changes through it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from engine.delivery.changes import (
    CursorAdvanced,
    CutOff,
    HandedOut,
    QueueChange,
    ResetUnseen,
    Restored,
)
from engine.delivery.message_state import (
    ENDS,
    TRANSITIONS,
    InFlightState,
    MessageState,
    Transition,
    state_after,
)
from engine.delivery.order import OPEN_LANE, Lanes, OrderLanes, TopicLanes
from engine.run_length import from_runs, to_runs
from engine.topic.names import retry_topic

SNAPSHOT_OFFSETS_MAX = 1000  # in one journal entry
MOVED_KEPT_MAX = 1000
CLIENT_MARK = "@"  # "group@client" names the progress of one client of a broadcast group


class OffsetBatch(NamedTuple):
    """Messages that share a slot, for the deadlines."""

    slot: InFlightState
    offsets: Sequence[int]


class QueueProgress:
    """`slots` are keyed by offset. Not journalled: `moved`, the last receipts whose message went
    on to the retry topic, so that a late acknowledgement differs from a repeated one. While
    `is_reset_unseen`, no client of the group has heard that the queue was reset. `group` is the
    name that it is kept under, `owner` the group itself.
    """

    __slots__ = (
        "cursor",
        "expired",
        "group",
        "is_reset_unseen",
        "is_retry",
        "lanes",
        "moved",
        "owner",
        "queue",
        "ready",
        "slots",
        "topic",
    )

    def __init__(self, group: str, topic: str, queue: int, cursor: int = 0) -> None:
        self.group = group
        self.owner = owner_of(group)
        self.topic = topic
        self.queue = queue
        self.is_retry = topic == retry_topic(group)  # the group's own retry topic
        self.moved: dict[int, int] = {}
        self.is_reset_unseen = False
        self.expired = 0  # messages that went before the group was done with them
        self.restart(cursor)

    def restart(self, cursor: int) -> None:
        """Begin at `cursor` with nothing outstanding."""
        for slot in getattr(self, "slots", {}).values():
            slot.open = 0
        self.cursor = cursor
        self.slots: dict[int, InFlightState] = {}
        self.ready: dict[str, dict[int, None]] = {}
        self.lanes: Lanes | None = TopicLanes() if self.is_retry else None

    @property
    def floor(self) -> int:
        """The committed offset: everything before it is done."""
        return min(self.slots, default=self.cursor)

    def overtaken(self, first: int) -> list[int]:
        """What is outstanding before `first` and in no client's hands, ascending."""
        return sorted(
            offset
            for offset, slot in self.slots.items()
            if offset < first and slot.phase is not MessageState.INFLIGHT
        )

    @property
    def done_count(self) -> int:
        """Number of messages that are done, those before its beginning included."""
        return self.cursor - len(self.slots)

    def shared_slot(self, offsets: Sequence[int]) -> InFlightState | None:
        """The state that all of these messages share; None where they do not share one."""
        find = self.slots.get
        slot = find(offsets[0]) if offsets else None
        if slot is not None and slot.open == len(offsets) and slot.span == offsets:
            return slot  # a whole delivery, as most often
        return slot if len(set(map(id, map(find, offsets)))) == 1 else None

    def ready_offsets(self, buckets: Sequence[str], count_max: int) -> list[int]:
        """Offsets that were examined before and may be delivered now, from these lanes."""
        offsets = [
            offset for name in buckets for offset in islice(self.ready.get(name, ()), count_max)
        ]
        offsets.sort()
        return offsets[:count_max]

    def has_ready(self, buckets: Sequence[str]) -> bool:
        return bool(self.ready) and any(map(self.ready.get, buckets))

    def order(self) -> OrderLanes:
        """The message groups of this queue; only for an ordered group in a FIFO topic."""
        if self.lanes is None:
            self.lanes = OrderLanes()
        assert isinstance(self.lanes, OrderLanes)
        return self.lanes

    # -- applying changes ------------------------------------------------------------------------

    def hand_out(self, change: HandedOut) -> list[OffsetBatch]:
        """Give the batch to its client, set aside what is deferred, move the cursor."""
        offsets = from_runs(change.runs)
        again = 0
        if offsets and offsets[0] < self.cursor:
            again = sum(offset < self.cursor for offset in offsets)
        batches = self._hand_out_again(offsets[:again], change)
        fresh = offsets[again:]
        if fresh:
            slot = InFlightState(
                MessageState.INFLIGHT,
                change.serial,
                change.deadline_ms,
                change.client,
                open=len(fresh),
                span=fresh,
            )
            self.slots.update(dict.fromkeys(fresh, slot))
            batches.append(OffsetBatch(slot, fresh))
        self._enter_lanes(fresh, change.lanes)
        if change.deferred:
            deferred = from_runs(change.deferred)
            aside = InFlightState(MessageState.READY, open=len(deferred))
            self.slots.update(dict.fromkeys(deferred, aside))
            free = self._enter_lanes(deferred, change.deferred_lanes)
            for offset in free:
                self._make_ready(offset)
        self.cursor = change.cursor
        return batches

    def settle(self, offsets: Sequence[int], move: Transition) -> list[int]:
        """Take out what is done; the offsets which that sets free."""
        slots = self.slots
        lanes = self.lanes
        freed: list[int] = []
        slot = self.shared_slot(offsets) if move is Transition.ACK and lanes is None else None
        if slot is not None and slot.phase is MessageState.INFLIGHT:  # as most often
            slot.open -= len(offsets)
            for offset in offsets:
                del slots[offset]
            return freed
        last: InFlightState | None = None
        for offset in offsets:
            slot = slots.pop(offset, None)
            if slot is None:
                continue
            if slot is not last:
                assert TRANSITIONS[slot.phase, move] in ENDS
                last = slot
            slot.open -= 1
            if slot.phase is MessageState.READY:
                self._unready(offset)
            elif move is Transition.RETRY or move is Transition.GIVE_UP:
                self._remember_moved(offset, slot.serial)
            if lanes is not None:
                following = lanes.leave(offset)
                if following is not None and slots[following].phase is MessageState.READY:
                    self._make_ready(following)
                    freed.append(following)
        return freed

    def change_slots(
        self, offsets: Sequence[int], move: Transition, until_ms: int = 0, serial: int = 0
    ) -> list[OffsetBatch]:
        """Let each follow `move`; those that shared a slot share the next one too."""
        batches: dict[int, tuple[InFlightState, InFlightState, list[int]]] = {}
        for offset in offsets:
            old = self.slots.get(offset)
            if old is None:
                continue
            # The old slot is held on to: its id must not be given to another one meanwhile.
            _, slot, members = batches.setdefault(
                id(old), (old, state_after(old, move, until_ms, serial), [])
            )
            members.append(offset)
            old.open -= 1
            slot.open += 1
            self.slots[offset] = slot
            if slot.phase is MessageState.READY:
                self._make_ready(offset)
        return [OffsetBatch(slot, members) for _, slot, members in batches.values()]

    def end_order(self) -> int:
        """Forget the message groups; how many messages may go now, as none waits for another."""
        if not isinstance(self.lanes, OrderLanes):
            return 0
        offsets, self.lanes = self.lanes.offsets(), None
        ready = [offset for offset in offsets if self.slots[offset].phase is MessageState.READY]
        for offset in ready:
            self._make_ready(offset)
        return len(ready)

    def restore(self, change: Restored) -> OffsetBatch:
        """Take over one slot of a snapshot."""
        offsets = from_runs(change.runs)
        slot = InFlightState(
            change.phase,
            change.serial,
            change.until_ms,
            change.client,
            change.failures,
            len(offsets),
        )
        self.slots.update(dict.fromkeys(offsets, slot))
        free = self._enter_lanes(offsets, change.lanes)
        if slot.phase is MessageState.READY:
            for offset in free:
                self._make_ready(offset)
        return OffsetBatch(slot, offsets)

    def snapshot(self) -> Iterator[QueueChange]:
        """Changes that rebuild this progress from nothing.

        What is with a client comes first and what waits its turn last, so that each lane is
        entered by its earliest message first.
        """
        place = (self.group, self.topic, self.queue)
        yield CursorAdvanced(*place, self.cursor)
        if self.is_reset_unseen:
            yield ResetUnseen(*place)
        if self.expired:
            yield CutOff(*place, 0, self.expired)
        groups: dict[tuple[bool, int], tuple[InFlightState, list[int]]] = {}
        for offset, slot in self.slots.items():
            is_ready = slot.phase is MessageState.READY
            key = (is_ready, -slot.failures if is_ready else id(slot))
            groups.setdefault(key, (slot, []))[1].append(offset)
        in_order = [groups[key] for key in sorted(groups)]
        for slot, offsets in in_order:
            offsets.sort()
            for start in range(0, len(offsets), SNAPSHOT_OFFSETS_MAX):
                part = offsets[start : start + SNAPSHOT_OFFSETS_MAX]
                lanes = [] if self.lanes is None else [self.lanes.lane(each) for each in part]
                yield Restored(
                    *place,
                    to_runs(part),
                    slot.phase,
                    slot.serial,
                    slot.until_ms,
                    slot.client,
                    slot.failures,
                    lanes,
                )

    # -- inside ----------------------------------------------------------------------------------

    def _hand_out_again(self, offsets: Sequence[int], change: HandedOut) -> list[OffsetBatch]:
        by_failures: dict[int, list[int]] = {}
        for offset in offsets:
            old = self.slots[offset]
            assert TRANSITIONS[old.phase, Transition.DELIVER] is MessageState.INFLIGHT
            old.open -= 1
            self._unready(offset)
            by_failures.setdefault(old.failures, []).append(offset)
        batches = []
        for failures, members in by_failures.items():
            slot = InFlightState(
                MessageState.INFLIGHT,
                change.serial,
                change.deadline_ms,
                change.client,
                failures,
                len(members),
            )
            self.slots.update(dict.fromkeys(members, slot))
            batches.append(OffsetBatch(slot, members))
        return batches

    def _enter_lanes(self, offsets: Sequence[int], lanes: list[str]) -> Sequence[int]:
        """Put offsets into their lanes; those that may go now."""
        if not lanes:
            return offsets
        if self.lanes is None:
            self.lanes = OrderLanes()
        enter = self.lanes.enter
        pairs = zip(offsets, lanes, strict=True)
        return [offset for offset, lane in pairs if enter(offset, lane)]

    def _bucket(self, offset: int) -> str:
        return OPEN_LANE if self.lanes is None else self.lanes.bucket(offset)

    def _make_ready(self, offset: int) -> None:
        self.ready.setdefault(self._bucket(offset), {})[offset] = None

    def _unready(self, offset: int) -> None:
        bucket = self._bucket(offset)
        waiting = self.ready.get(bucket)
        if waiting is not None:
            waiting.pop(offset, None)
            if not waiting:
                del self.ready[bucket]

    def _remember_moved(self, offset: int, serial: int) -> None:
        self.moved[offset] = serial
        if len(self.moved) > MOVED_KEPT_MAX:
            del self.moved[next(iter(self.moved))]


def owner_of(name: str) -> str:
    """The group whose progress is kept under this name: its own, or that of one of its clients."""
    return name.partition(CLIENT_MARK)[0]
