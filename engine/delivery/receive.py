"""Receive: delivers messages to a client for a time, across the queues of several topics.

What was delivered before and came back goes first in its queue, then the cursor moves on. A
message that the filter holds back is done; one whose lane is busy is set aside. Each call looks
at a bounded number of entries and reads a bounded number of bytes.
"""

import struct
from collections.abc import Mapping, Sequence

import msgspec

from engine.context import EngineContext
from engine.delivery.changes import CursorAdvanced, DeliverySettled, HandedOut
from engine.delivery.message_state import Transition
from engine.delivery.min_offset_corrector import MinOffsetCorrector
from engine.delivery.order import OPEN_LANE
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import QueueProgress
from engine.delivery.receive_targets import ReceiveTarget, ReceiveTargets
from engine.delivery.values import Delivery, DeliveryColumns, DeliveryRun, Receipt, ReceiptRun
from engine.errors import EngineError, Invalid
from engine.events import MessagesDelivered
from engine.message import RETRY_TOPIC, StoredMessage
from engine.run_length import to_runs
from engine.store.consume_queue import QueueEntry
from engine.store.entry_reading import find_entries, fit

COUNT_MAX = 1024
INVISIBLE_MS_MIN = 10
INVISIBLE_MS_MAX = 12 * 3600 * 1000
CLIENT_CHARS_MAX = 255
BYTES_MAX = 4 * 1024 * 1024
SCAN_MAX = 800  # entries that one call examines, or as many as it wants messages
CHUNK = 64  # entries that are looked at together where not all of them will do


class ReceiveCall(msgspec.Struct):
    """What remains of a receive's limits."""

    want: int
    deadline_ms: int
    client: str
    scans: int
    size_bytes: int = BYTES_MAX
    deliveries: list[Delivery] = []


class MessageSelection(msgspec.Struct):
    """Messages selected from one queue, in order of offset, and the cursor behind them."""

    cursor: int
    messages: list[StoredMessage] = []
    again: int = 0  # how many of them were delivered or set aside before
    misses: int = 0  # records that were read and did not match
    lanes: list[str] = []
    deferred: list[int] = []
    deferred_lanes: list[str] = []
    missing: list[int] = []


class Receiver:
    """Chooses and delivers; `long_polling.py` waits, `inflight.py` takes back."""

    def __init__(
        self,
        context: EngineContext,
        progress_store: ProgressStore,
        targets: ReceiveTargets,
        min_offset_corrector: MinOffsetCorrector,
    ) -> None:
        self._min_offset_corrector = min_offset_corrector
        self._store = context.store
        self._catalog = context.catalog
        self._progress_store = progress_store
        self._targets = targets
        self._clock = context.clock
        self._events = context.events
        self._turns: dict[str, int] = {}

    def receive(
        self,
        group: str,
        topics: Mapping[str, str],
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        client: str = "",
        queue: int | None = None,
    ) -> list[Delivery]:
        """Deliver up to `count_max` (1 to 1,024) messages of `topics` to a client; never waits.

        `topics` maps names to filters (filter.py); with `queue` only that queue of each is looked
        at, and the group's retries. No other client of the group gets these messages
        for `invisible_s` (0.01 s to 12 h). An empty list may also mean that the examined part held
        nothing that matches: then there is more to examine at once. Raises Invalid,
        TopicNotFound, QueueNotFound, GroupNotFound and Forbidden.
        """
        targets, call = self._begin(group, topics, count_max, invisible_s, client, queue=queue)
        return self._take_from(targets, call)

    def receive_columns(
        self,
        group: str,
        topics: Mapping[str, str],
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        client: str = "",
    ) -> DeliveryColumns | list[Delivery]:
        """As `receive`, by column where plain messages come first: fewer than that may come then.

        Plain are messages that no filter chooses, that have no order and did not fail before, and
        whose records are (see `Store.read_columns`).
        """
        targets, call = self._begin(group, topics, count_max, invisible_s, client)
        runs: list[DeliveryRun] = []
        for index, target in enumerate(targets):
            if not self.has_work(target):
                continue
            try:
                run = self._take_columns(target, call)
            except EngineError:
                if not runs:
                    raise
                break  # what is delivered already must reach its client
            if run is None and not runs:
                return self._take_from(targets[index:], call)
            if run is None:
                break
            runs.append(run)
            if call.want <= 0 or call.size_bytes <= 0:
                break
        return DeliveryColumns(runs, call.deadline_ms) if runs else []

    def _begin(
        self,
        group: str,
        topics: Mapping[str, str],
        count_max: int,
        invisible_s: float,
        client: str,
        *,
        queue: int | None = None,
    ) -> tuple[list[ReceiveTarget], ReceiveCall]:
        """Where to look, in this call's order, and its limits."""
        check_count(count_max)
        check_client(client)
        deadline_ms = self._clock.now_ms() + invisible_ms(invisible_s)
        targets = self._targets.of(group, topics, client, queue)
        turn = self._turns[group] = (self._turns.get(group, -1) + 1) % len(targets)
        call = ReceiveCall(count_max, deadline_ms, client, max(SCAN_MAX, count_max))
        return targets[turn:] + targets[:turn], call

    def _take_from(self, targets: Sequence[ReceiveTarget], call: ReceiveCall) -> list[Delivery]:
        for target in targets:
            if self.has_work(target):
                try:
                    self._take(target, call)
                except EngineError:
                    if not call.deliveries:
                        raise
                    break  # what is delivered already must reach its client
                if call.want <= 0 or call.size_bytes <= 0:
                    break
        return call.deliveries

    def has_work(self, target: ReceiveTarget) -> bool:
        """Whether a receive would find something to examine here; it may yet match nothing."""
        progress = target.progress
        if progress.ready and progress.has_ready(target.buckets):
            return True
        if progress.cursor >= self._store.end(progress.topic, progress.queue):
            return False
        first, end = self._store.bounds(progress.topic, progress.queue)
        return first < end and self._progress_store.has_room(progress)

    def forget(self, group: str) -> None:
        """Drop what is remembered of a group that is gone."""
        self._turns.pop(group, None)

    # -- choosing --------------------------------------------------------------------------------

    def _take(self, target: ReceiveTarget, call: ReceiveCall) -> None:
        picked = MessageSelection(target.progress.cursor)
        if target.progress.ready:
            self._pick_again(target, call, picked)
        if len(picked.messages) < call.want:
            self._pick_fresh(target, call, picked)
        self._hand_out(target.progress, call, picked)

    def _take_columns(self, target: ReceiveTarget, call: ReceiveCall) -> DeliveryRun | None:
        """Deliver plain messages from the cursor on; None where what comes first is not plain."""
        progress = target.progress
        place = (progress.topic, progress.queue)
        first, end = self._store.bounds(*place)
        cursor = progress.cursor
        is_again = bool(progress.ready) and progress.has_ready(target.buckets)
        if is_again or cursor < first or not _takes_all(target):
            return None
        count = min(call.want, self._progress_store.window - len(progress.slots), end - cursor)
        columns = self._store.read_columns(
            *place, cursor, count_max=count, bytes_max=call.size_bytes
        )
        if columns is None:
            return None
        count = columns.message_count
        serial = self._progress_store.next_serial()
        self._progress_store.write(
            HandedOut(
                progress.group,
                *place,
                cursor + count,
                [cursor, count],
                serial,
                call.deadline_ms,
                call.client,
                [],
                [],
                [],
            )
        )
        call.want -= count
        call.size_bytes -= columns.size_bytes
        offsets = range(cursor, cursor + count)
        if self._events.has_subscribers:
            numbers = struct.Struct(f">{count}q").unpack
            self._tell(
                progress,
                call.client,
                tuple(offsets),
                born_ms=numbers(columns.born_ms),
                stored_ms=numbers(columns.stored_ms),
                size_bytes=columns.size_bytes,
            )
        return DeliveryRun(ReceiptRun(*place, offsets, serial), columns)

    def _pick_again(
        self, target: ReceiveTarget, call: ReceiveCall, picked: MessageSelection
    ) -> None:
        progress = target.progress
        offsets = progress.ready_offsets(target.buckets, call.want)
        entries = find_entries(self._store, progress.topic, progress.queue, offsets)
        batch = self._fit(entries, call)
        read = self._store.read_entries(batch, (progress.topic, progress.queue))
        picked.messages = [each for each in read if each is not None]
        picked.again = len(picked.messages)
        if picked.again < len(offsets):
            offsets_read = {message.offset for message in picked.messages}
            left_for_later = {entry.offset for entry in entries[len(batch) :]}
            picked.missing = [each for each in offsets if each not in offsets_read | left_for_later]

    def _pick_fresh(
        self, target: ReceiveTarget, call: ReceiveCall, picked: MessageSelection
    ) -> None:
        progress = target.progress
        topic, queue = progress.topic, progress.queue
        first, end = self._store.bounds(topic, queue)
        if picked.cursor < first:
            self._min_offset_corrector.look(progress)
            picked.cursor = first
        is_laned, looks_at_all = _is_laned(target), _takes_all(target)
        room = self._progress_store.window - len(progress.slots)
        while picked.cursor < end and call.scans > 0 and call.size_bytes > 0:
            fresh = len(picked.messages) - picked.again
            want = min(call.want - len(picked.messages), room - fresh - len(picked.deferred))
            if want <= 0:
                return
            count = want if looks_at_all else min(max(want, CHUNK), call.scans)
            entries = self._store.entries(topic, queue, picked.cursor, count)
            if not entries:
                return
            if is_laned:
                count_max = room - fresh - len(picked.deferred)
                self._sift_laned(target, entries[:count_max], call, picked)
            else:
                self._sift(target, entries, want, call, picked)

    def _sift(
        self,
        target: ReceiveTarget,
        entries: list[QueueEntry],
        want: int,
        call: ReceiveCall,
        picked: MessageSelection,
    ) -> None:
        """Choose among entries that do not depend on each other."""
        match = target.filter
        matching = entries
        if not match.is_all:
            matching = [entry for entry in entries if match.may_match(entry.tag_code)]
        # What was read in vain shows how many have to be read for one that matches.
        batch = self._fit(matching[: want + picked.misses], call)
        place = (target.progress.topic, target.progress.queue)
        read = self._store.read_entries(batch, place)
        messages = [each for each in read if each is not None]
        if not match.is_all:
            messages = [each for each in messages if match.matches(each)]
        is_whole = len(batch) == len(matching)
        after = entries[-1].offset + 1 if is_whole else matching[len(batch)].offset
        picked.misses += len(batch) - len(messages)
        if len(messages) > want:
            after = messages[want].offset
        picked.messages += messages[:want]
        call.scans -= after - picked.cursor
        picked.cursor = after

    def _sift_laned(
        self,
        target: ReceiveTarget,
        entries: list[QueueEntry],
        call: ReceiveCall,
        picked: MessageSelection,
    ) -> None:
        """Choose among entries whose lanes decide; what has to wait is set aside."""
        match = target.filter
        matching = [entry for entry in entries if match.may_match(entry.tag_code)]
        batch = self._fit(matching, call)
        after = (
            entries[-1].offset + 1 if len(batch) == len(matching) else matching[len(batch)].offset
        )
        place = self._place_retry if target.progress.is_retry else self._place_in_order
        read = self._store.read_entries(batch, (target.progress.topic, target.progress.queue))
        for entry, message in zip(batch, read, strict=True):
            if len(picked.messages) >= call.want:
                after = entry.offset
                break
            if message is not None and match.matches(message):
                place(target, message, picked)
        call.scans -= after - picked.cursor
        picked.cursor = after

    def _place_in_order(
        self, target: ReceiveTarget, message: StoredMessage, picked: MessageSelection
    ) -> None:
        lane = message.message_group
        is_free = not lane or not (lane in picked.lanes or target.progress.order().is_busy(lane))
        self._place(message, lane, picked, is_free=is_free)

    def _place_retry(
        self, target: ReceiveTarget, message: StoredMessage, picked: MessageSelection
    ) -> None:
        lane = message.properties.get(RETRY_TOPIC, OPEN_LANE)
        is_free = lane in target.buckets
        if is_free or self._catalog.find(lane) is not None:
            self._place(message, lane, picked, is_free=is_free)

    def _place(
        self, message: StoredMessage, lane: str, picked: MessageSelection, *, is_free: bool
    ) -> None:
        if is_free:
            picked.messages.append(message)
            picked.lanes.append(lane)
        else:
            picked.deferred.append(message.offset)
            picked.deferred_lanes.append(lane)

    def _fit(self, entries: Sequence[QueueEntry], call: ReceiveCall) -> Sequence[QueueEntry]:
        """As many as the call may still read; its very first message always."""
        batch = fit(entries, call.size_bytes, is_first=call.size_bytes == BYTES_MAX)
        call.size_bytes -= sum([entry.size_bytes for entry in batch])
        if len(batch) < len(entries):
            call.size_bytes = 0
        return batch

    # -- delivering -----------------------------------------------------------------------------

    def _hand_out(
        self, progress: QueueProgress, call: ReceiveCall, picked: MessageSelection
    ) -> None:
        place = (progress.group, progress.topic, progress.queue)
        if picked.missing:
            self._progress_store.write(
                DeliverySettled(*place, to_runs(picked.missing), Transition.DROP)
            )
        if not picked.messages and not picked.deferred:
            if picked.cursor > progress.cursor:
                self._progress_store.write(CursorAdvanced(*place, picked.cursor))
            return
        offsets = [message.offset for message in picked.messages]
        serial = self._progress_store.next_serial()
        self._progress_store.write(
            HandedOut(
                *place,
                picked.cursor,
                to_runs(offsets),
                serial,
                call.deadline_ms,
                call.client,
                picked.lanes,
                to_runs(picked.deferred),
                picked.deferred_lanes,
            )
        )
        self._deliver(progress, call, picked, serial)
        if offsets and self._events.has_subscribers:
            attempts = [each.attempt for each in call.deliveries[-len(offsets) :]]
            self._tell(
                progress,
                call.client,
                tuple(offsets),
                attempts=() if attempts.count(1) == len(attempts) else tuple(attempts),
                born_ms=tuple([message.born_ms for message in picked.messages]),
                stored_ms=tuple([message.stored_ms for message in picked.messages]),
                size_bytes=sum([message.size_bytes for message in picked.messages]),
            )

    def _tell(
        self,
        progress: QueueProgress,
        client: str,
        offsets: tuple[int, ...],
        *,
        attempts: tuple[int, ...] = (),
        born_ms: tuple[int, ...],
        stored_ms: tuple[int, ...],
        size_bytes: int,
    ) -> None:
        self._events.emit(
            MessagesDelivered(
                self._clock.now_ms(),
                progress.owner,
                progress.topic,
                progress.queue,
                offsets,
                client,
                attempts,
                born_ms,
                stored_ms,
                size_bytes,
            )
        )

    def _deliver(
        self, progress: QueueProgress, call: ReceiveCall, picked: MessageSelection, serial: int
    ) -> None:
        topic, queue, until_ms = progress.topic, progress.queue, call.deadline_ms
        slots, is_retry = progress.slots, progress.is_retry
        append = call.deliveries.append
        for message in picked.messages:
            offset = message.offset
            attempt = slots[offset].failures + (message.attempt if is_retry else 1)
            append(Delivery(message, Receipt(topic, queue, offset, serial), attempt, until_ms))
        call.want -= len(picked.messages)


def _is_laned(target: ReceiveTarget) -> bool:
    """Whether a message may have to wait for others."""
    return target.is_ordered or target.progress.is_retry


def _takes_all(target: ReceiveTarget) -> bool:
    """Whether every message is delivered when its turn comes."""
    return target.filter.is_all and not _is_laned(target)


def check_count(count_max: int) -> None:
    if not 1 <= count_max <= COUNT_MAX:
        raise Invalid(
            f"{count_max} messages at once, it must be 1 to {COUNT_MAX}",
            field="count_max",
            remedy=f"ask for at most {COUNT_MAX}",
        )


def check_client(client: str) -> None:
    if len(client) > CLIENT_CHARS_MAX or not client.isprintable():
        raise Invalid(
            f"a client name has at most {CLIENT_CHARS_MAX} printable characters",
            field="client",
            remedy="shorten it, or leave it out",
        )


def invisible_ms(invisible_s: float) -> int:
    """The time in ms; Invalid outside 10 ms to 12 h."""
    if not INVISIBLE_MS_MIN <= invisible_s * 1000 <= INVISIBLE_MS_MAX:
        raise Invalid(
            f"an invisible time of {invisible_s} s",
            field="invisible_s",
            remedy="choose 0.01 s to 43200 s; extend it while the work goes on",
        )
    return round(invisible_s * 1000)
