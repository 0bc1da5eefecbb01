"""Deadlines of deliveries and of waiting messages: one heap, one item for a whole batch.

An item is not searched for when its messages are done: it is stale once none of them still has
the slot it was made for, and stale items are swept when they are the majority.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from engine.delivery.queue_progress import OffsetBatch, QueueProgress

SWEEP_ITEMS_MIN = 1024


class DueBatch(NamedTuple):
    """Messages of one queue whose time has come, all of one slot."""

    progress: QueueProgress
    batch: OffsetBatch


Item = tuple[int, int, QueueProgress, OffsetBatch]


def _nobody() -> None:
    """Does nothing, until a callback is set."""


class Deadlines:
    """Times are ms since 1970 UTC, so they mean the same after a restart.

    `on_first` is called when a batch is added that is due before all others.
    """

    def __init__(self) -> None:
        self._heap: list[Item] = []
        self._count = 0
        self._sweep_at = SWEEP_ITEMS_MIN
        self.on_first: Callable[[], None] = _nobody

    def add(self, progress: QueueProgress, batch: OffsetBatch) -> None:
        """Watch a batch until its slot's `until_ms`."""
        self._count += 1
        item = (batch.slot.until_ms, self._count, progress, batch)
        heappush(self._heap, item)
        if self._heap[0] is item:
            self.on_first()
        if len(self._heap) >= self._sweep_at:
            self._heap[:] = [item for item in self._heap if item[3].slot.open]
            heapify(self._heap)
            self._sweep_at = max(SWEEP_ITEMS_MIN, 2 * len(self._heap))

    def take_due(self, now_ms: int, count_max: int) -> list[DueBatch]:
        """Take out what is due, at most `count_max` messages; the rest of a batch stays.

        A caller that cannot process a batch adds it again.
        """
        batches: list[DueBatch] = []
        heap = self._heap
        while count_max > 0 and heap and heap[0][0] <= now_ms:
            _, _, progress, batch = heappop(heap)
            offsets = _still(progress, batch)
            if len(offsets) > count_max:
                self.add(progress, OffsetBatch(batch.slot, offsets[count_max:]))
                offsets = offsets[:count_max]
            if offsets:
                batches.append(DueBatch(progress, OffsetBatch(batch.slot, offsets)))
                count_max -= len(offsets)
        return batches

    def next_ms(self) -> int | None:
        """Due time of the earliest item that is not stale; None when there is none."""
        heap = self._heap
        while heap and not heap[0][3].slot.open:
            heappop(heap)
        return heap[0][0] if heap else None

    def __len__(self) -> int:
        return len(self._heap)


def _still(progress: QueueProgress, batch: OffsetBatch) -> Sequence[int]:
    """Those of the batch that have not moved on."""
    if not batch.slot.open:
        return ()
    slots, slot = progress.slots, batch.slot
    return [offset for offset in batch.offsets if slots.get(offset) is slot]
