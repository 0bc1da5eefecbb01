"""Messages in flight: acknowledges, extends, releases and lists them.

All verbs take receipts, check each against the slot of its message, and journal one change for
each queue. A receipt is current until its message is done or delivered again. Receipts come from
outside and may name any place and any serial: only a message in flight has a current one.
"""

from collections.abc import Iterator, Sequence

from engine.clock import Clock
from engine.delivery.broadcast import Broadcasts, progress_name
from engine.delivery.changes import DeliverySettled, HeldLonger, PutBack
from engine.delivery.group import GroupCatalog, Mode
from engine.delivery.message_state import InFlightState, MessageState, Transition
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import QueueProgress
from engine.delivery.receive import invisible_ms
from engine.delivery.values import AckResult, ExtendResult, Receipt, ReceiptRun, Receipts
from engine.errors import Invalid
from engine.events import Acked, EventBus, Returned
from engine.run_length import to_runs

RECEIPTS_MAX = 4096
NEVER_CURRENT = 1  # a serial below all that are given out
Current = list[tuple[QueueProgress, Sequence[int]]]
Checked = tuple[list[AckResult], Current]
DONE, ALREADY, STALE = AckResult.DONE, AckResult.ALREADY, AckResult.STALE
INFLIGHT = MessageState.INFLIGHT


class Inflight:
    """Raises GroupNotFound, and Invalid for more than 4,096 receipts; never waits."""

    def __init__(
        self,
        progress_store: ProgressStore,
        groups: GroupCatalog,
        broadcasts: Broadcasts,
        clock: Clock,
        events: EventBus,
    ) -> None:
        self._progress_store = progress_store
        self._broadcasts = broadcasts
        self._groups = groups
        self._clock = clock
        self._events = events

    def ack(self, group: str, receipts: Receipts) -> list[AckResult]:
        """Mark messages as done; a result for each receipt, in the order given."""
        results, current = self.check(group, receipts)
        for progress, offsets in current:
            place = (progress.topic, progress.queue)
            self._progress_store.write(
                DeliverySettled(progress.group, *place, to_runs(offsets), Transition.ACK)
            )
            if self._events.has_subscribers:
                self._events.emit(Acked(self._clock.now_ms(), group, *place, tuple(offsets)))
        return results

    def extend(
        self, group: str, receipts: Sequence[Receipt], invisible_s: float
    ) -> list[ExtendResult]:
        """Keep messages for `invisible_s` from now on; their receipts stay current."""
        until_ms = self._clock.now_ms() + invisible_ms(invisible_s)
        results, current = self.check(group, receipts)
        for progress, offsets in current:
            place = (progress.group, progress.topic, progress.queue)
            self._progress_store.write(HeldLonger(*place, to_runs(offsets), until_ms))
        return [ExtendResult(result, until_ms if result is DONE else 0) for result in results]

    def renew(self, group: str, receipt: Receipt, invisible_s: float) -> Receipt | None:
        """Keep a message for `invisible_s` from now on under a new receipt, which is returned.

        The old one is stale from then on, and so it is where None is returned.
        """
        until_ms = self._clock.now_ms() + invisible_ms(invisible_s)
        _, current = self.check(group, [receipt])
        for progress, offsets in current:
            serial = self._progress_store.next_serial()
            place = (progress.group, progress.topic, progress.queue)
            self._progress_store.write(HeldLonger(*place, to_runs(offsets), until_ms, serial))
            return receipt._replace(serial=serial)
        return None

    def release(self, group: str, receipts: Receipts) -> list[AckResult]:
        """Put messages back unused: they are delivered again, and no attempt is counted."""
        results, current = self.check(group, receipts)
        for progress, offsets in current:
            place = (progress.topic, progress.queue)
            self._progress_store.write(PutBack(progress.group, *place, to_runs(offsets)))
            if self._events.has_subscribers:
                self._events.emit(Returned(self._clock.now_ms(), group, *place, tuple(offsets)))
        return results

    def held(self, group: str, client: str) -> list[Receipt]:
        """Receipts of everything that is in this client's hands, by topic, queue and offset."""
        config = self._groups.get(group)
        name = progress_name(group, client) if config.mode is Mode.BROADCAST else group
        return [
            Receipt(progress.topic, progress.queue, offset, progress.slots[offset].serial)
            for progress in self._progress_store.of_group(name)
            for offset in sorted(_held_by(progress, client))
        ]

    def receipt_until(
        self, group: str, topic: str, queue: int, offset: int, until_ms: int
    ) -> Receipt:
        """The receipt of the delivery whose invisible time ends at `until_ms`.

        RocketMQ's own receipts name a delivery by that. Without such a delivery the receipt is one
        that was never current: it counts as settled where the message is done, else as stale.
        """
        progress = self._progress_store.find(group, topic, queue)
        slot = None if progress is None else progress.slots.get(offset)
        is_current = slot is not None and slot.phase is INFLIGHT and slot.until_ms == until_ms
        return Receipt(topic, queue, offset, slot.serial if slot and is_current else NEVER_CURRENT)

    def check(self, group: str, receipts: Receipts) -> Checked:
        """A result for each receipt; and the current ones by queue, ascending, without doubles."""
        config = self._groups.get(group)
        if len(receipts) > RECEIPTS_MAX:
            raise Invalid(
                f"{len(receipts)} receipts in one call, {RECEIPTS_MAX} is the most",
                field="receipts",
                remedy="split them",
            )
        if isinstance(receipts, ReceiptRun):
            progress = self._progress_store.find(group, receipts.topic, receipts.queue)
            if progress is not None and _holds_all(progress, receipts):
                return [DONE] * len(receipts), [(progress, receipts.offsets)]
            receipts = list(receipts)
        if config.mode is Mode.BROADCAST:
            return self._check_each(group, receipts)
        return self._check(group, receipts)

    def _check_each(self, group: str, receipts: Sequence[Receipt]) -> Checked:
        """The same where every client has progress of its own; a receipt does not say whose."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(self._broadcasts.holders(group, receipts)):
            places.setdefault(name, []).append(place)
        results = [STALE] * len(receipts)
        current: Current = []
        for name, indexes in places.items():
            deliveries, queues = self._check(name, [receipts[place] for place in indexes])
            current += queues
            for place, result in zip(indexes, deliveries, strict=True):
                results[place] = result
        return results, current

    def _check(self, group: str, receipts: Sequence[Receipt]) -> Checked:
        results: list[AckResult] = []
        by_queue: dict[tuple[str, int], tuple[QueueProgress, dict[int, None]]] = {}
        progress: QueueProgress | None = None
        current: dict[int, None] = {}
        last_topic, last_queue = "", -1
        slots: dict[int, InFlightState] = {}
        for topic, queue, offset, serial in receipts:
            if queue != last_queue or topic != last_topic:
                last_topic, last_queue, slots = topic, queue, {}
                progress = self._progress_store.find(group, topic, queue)
                if progress is not None:
                    slots = progress.slots
                    _, current = by_queue.setdefault((topic, queue), (progress, {}))
            slot = slots.get(offset)
            if (
                slot is not None
                and slot.serial == serial
                and slot.phase is INFLIGHT
                and offset not in current
            ):
                current[offset] = None
                results.append(DONE)
            else:
                results.append(_why_not(progress, offset, serial, current))
        return results, [
            (progress, sorted(offsets)) for progress, offsets in by_queue.values() if offsets
        ]


def _holds_all(progress: QueueProgress, receipts: ReceiptRun) -> bool:
    """Whether all of these are current."""
    slot = progress.shared_slot(receipts.offsets)
    return slot is not None and slot.serial == receipts.serial and slot.phase is INFLIGHT


def _why_not(
    progress: QueueProgress | None, offset: int, serial: int, current: dict[int, None]
) -> AckResult:
    if progress is None:
        return STALE
    if offset in current and progress.slots[offset].serial == serial:
        return ALREADY  # named twice
    is_done = 0 <= offset < progress.cursor and offset not in progress.slots and serial > 0
    # Numbers only go up: an earlier receipt of a message that moved on is as stale as its last.
    return ALREADY if is_done and serial > progress.moved.get(offset, -1) else STALE


def _held_by(progress: QueueProgress, client: str) -> Iterator[int]:
    return (
        offset
        for offset, slot in progress.slots.items()
        if slot.phase is INFLIGHT and slot.client == client
    )
