"""Handles failed deliveries: a message is retried or becomes a dead letter.

For an ordered group in a FIFO topic it keeps its place and its lane waits. Otherwise it goes on as
a new record, which names the delivery it replaces (SOURCE): a crash after that record was written
and before its source was settled is healed by `replayed`. While the log refuses writes nothing
changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.context import EngineContext
from engine.delivery.broadcast import is_broadcast
from engine.delivery.changes import DeliverySettled, HeldForRetry, SentBack
from engine.delivery.dead_letter import DeadLetterReason, dead_message
from engine.delivery.deadlines import DueBatch
from engine.delivery.group import GroupCatalog, GroupConfig
from engine.delivery.inflight import Inflight
from engine.delivery.message_state import MessageState, Transition
from engine.delivery.order import OrderLanes
from engine.delivery.policy import exact_wait_ms
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import QueueProgress
from engine.delivery.retry import (
    DeliveryFailure,
    RetryLevels,
    attempt_of,
    is_exhausted,
    ladder_level,
    retry_message,
)
from engine.delivery.values import AckResult, Nack, Receipt
from engine.errors import Busy, Corrupt, EngineError, Invalid, MessageNotFound
from engine.events import DeadLettered, Retried
from engine.message import BATCH_BYTES_MAX, SOURCE, Message, StoredMessage
from engine.run_length import to_runs
from engine.store.consume_queue import QueueEntry
from engine.store.entry_reading import find_entries, fit, read_offsets
from engine.topic.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

EXPIRED = "the invisible time ran out before the message was acknowledged"
SOURCE_PARTS = 5


class FailedDelivery(NamedTuple):
    """One failed delivery. `level` None leaves the wait to the ladder, below 0 gives up.

    `delay_ms` is the exact wait where that can be kept, which is where order is kept.
    """

    offset: int
    failure: DeliveryFailure
    level: int | None = None
    delay_ms: int | None = None


class FailurePlan(NamedTuple):
    """The handling of a failed delivery; without a `message` nothing is to be written."""

    offset: int
    move: Transition
    message: Message | None
    attempt: int
    wait_ms: int
    failure: DeliveryFailure
    reason: DeadLetterReason | None = None


class FailureHandler:
    """Decides and carries out, at most 4 MiB of messages with one write."""

    def __init__(
        self,
        context: EngineContext,
        groups: GroupCatalog,
        progress_store: ProgressStore,
        inflight: Inflight,
        levels: RetryLevels,
    ) -> None:
        self._store = context.store
        self._intake = context.intake
        self._catalog = context.catalog
        self._progress_store = progress_store
        self._inflight = inflight
        self._groups = groups
        self._levels = levels
        self._clock = context.clock
        self._events = context.events

    def nack(self, group: str, nacks: Sequence[Nack], client: str = "") -> list[AckResult]:
        """Report failures; a result for each, in the order given.

        Raises GroupNotFound, Invalid, and DiskFull: then asking again finishes what is left.
        """
        config = self._groups.get(group)
        failed_of = {nack.receipt: self._failed(nack, client) for nack in reversed(nacks)}
        results, current = self._inflight.check(group, [nack.receipt for nack in nacks])
        for progress, offsets in current:
            topic, queue, slots = progress.topic, progress.queue, progress.slots
            failed = [failed_of[Receipt(topic, queue, at, slots[at].serial)] for at in offsets]
            self.fail(config, progress, failed)
        return results

    def expire(self, dues: Iterable[DueBatch]) -> None:
        """Deal with deliveries whose time ran out: their messages may be received again at once."""
        for progress, batch in dues:
            config = self._groups.find(progress.owner)
            if config is not None:
                failure = DeliveryFailure(EXPIRED, batch.slot.client, batch.slot.serial)
                self.fail(
                    config,
                    progress,
                    [FailedDelivery(offset, failure, 0) for offset in batch.offsets],
                )

    def send_back(
        self,
        group: str,
        topic: str,
        queue: int,
        offset: int,
        *,
        delay_level: int = 0,
        retry_max: int | None = None,
        error: str = "",
        client: str = "",
    ) -> None:
        """A pulling client gives a message back for a later retry.

        `delay_level` 0 leaves the wait to the ladder, below 0 means the dead letters, where the
        message also goes once it was retried `retry_max` times (the group's, if None). Raises
        GroupNotFound, TopicNotFound, MessageNotFound, DiskFull.
        """
        config = self._groups.get(group)
        self._catalog.get(topic)
        stored = read_offsets(self._store, topic, queue, [offset]).get(offset)
        if stored is None:
            raise MessageNotFound(
                f"queue {queue} of {topic!r} has no message at offset {offset}", field="offset"
            )
        retries = config.retry_max if retry_max is None else retry_max
        failed = FailedDelivery(offset, DeliveryFailure(error, client), delay_level or None)
        plan = self._plan(config, stored, failed, attempt_of(group, stored), retries)
        if plan.message is not None:
            self._intake.put([plan.message])
            if plan.move is Transition.RETRY:
                self._progress_store.write(SentBack(group, *_retry_kinds([plan])))
        self._tell(config.name, topic, queue, [plan])

    def replayed(self, message: StoredMessage) -> None:
        """Recovery found this record: the delivery that it replaced is settled, if it was not."""
        parts = message.properties.get(SOURCE, "").split("@")
        if len(parts) != SOURCE_PARTS:
            return
        group, topic, queue, offset = parts[0], parts[1], int(parts[2]), int(parts[3])
        progress = self._progress_store.find(group, topic, queue)
        slot = None if progress is None else progress.slots.get(offset)
        if progress is None or slot is None or slot.phase is not MessageState.INFLIGHT:
            return
        if slot.serial != int(parts[4], 16):
            return
        is_dead = message.topic.startswith(DEAD_LETTER_PREFIX)
        self._settle(
            progress,
            [offset],
            Transition.GIVE_UP if is_dead else Transition.RETRY,
            delayed=int(message.topic in (SCHEDULE_TOPIC, TIMER_TOPIC)),
            direct=int(message.topic.startswith(RETRY_PREFIX)),
            record_end=message.position + message.size_bytes,
        )

    # -- deciding --------------------------------------------------------------------------------

    def fail(
        self, group: GroupConfig, progress: QueueProgress, failed: Sequence[FailedDelivery]
    ) -> None:
        """Deal with failed deliveries of one queue, ascending; raises DiskFull half-way.

        Then what is not dealt with stays in flight as it was.
        """
        failed_at = {each.offset: each for each in failed}
        entries = find_entries(self._store, progress.topic, progress.queue, list(failed_at))
        missing = failed_at.keys() - {entry.offset for entry in entries}
        place = (progress.topic, progress.queue)
        for chunk in _chunks(entries):
            plans: list[FailurePlan] = []
            for entry, stored in zip(chunk, self._store.read_entries(chunk, place), strict=True):
                if stored is None:
                    missing.add(entry.offset)
                    continue
                failures = progress.slots[entry.offset].failures
                attempt = attempt_of(group.name, stored, failures)
                plans.append(
                    self._plan(
                        group, stored, failed_at[entry.offset], attempt, group.retry_max, progress
                    )
                )
            self._keep(progress, [plan for plan in plans if plan.move is Transition.KEEP])
            self._move(progress, [plan for plan in plans if plan.move is not Transition.KEEP])
        if missing:
            self._settle(progress, sorted(missing), Transition.DROP)

    def _failed(self, nack: Nack, client: str) -> FailedDelivery:
        receipt = nack.receipt
        failure = DeliveryFailure(nack.error, client, receipt.serial)
        if nack.delay_s is None:
            return FailedDelivery(receipt.offset, failure, nack.delay_level or None)
        if nack.delay_level is not None or not 0 <= nack.delay_s * 1000 <= self._levels.longest_ms:
            raise Invalid(
                f"a delay of {nack.delay_s} s",
                field="delay_s",
                remedy=f"choose 0 to {self._levels.longest_ms // 1000} s, and no delay level",
            )
        delay_ms = round(nack.delay_s * 1000)
        return FailedDelivery(receipt.offset, failure, self._levels.level_for(delay_ms), delay_ms)

    def _plan(
        self,
        group: GroupConfig,
        stored: StoredMessage,
        failed: FailedDelivery,
        attempt: int,
        retry_max: int,
        progress: QueueProgress | None = None,
    ) -> FailurePlan:
        offset, failure, level, delay_ms = failed
        if progress is not None and is_broadcast(progress.group):
            return _broadcast_plan(failed, attempt, retry_max)
        is_rejected = level is not None and level < 0
        if is_rejected or is_exhausted(attempt, retry_max):
            reason = (
                DeadLetterReason.REJECTED if is_rejected else DeadLetterReason.ATTEMPTS_EXHAUSTED
            )
            message = (
                dead_message(group.name, stored, attempt, reason, failure)
                if group.dead_letters
                else None
            )
            return FailurePlan(
                offset=offset,
                move=Transition.GIVE_UP,
                message=message,
                attempt=attempt,
                wait_ms=0,
                failure=failure,
                reason=reason,
            )
        exact_ms = None
        if level is None:
            exact_ms = exact_wait_ms(group.retry_policy, attempt)
            level = ladder_level(attempt) if exact_ms is None else 0
        wait_ms = self._levels.delay_ms(level) if exact_ms is None else exact_ms
        if progress is not None and _keeps_place(progress, offset):
            kept_ms = wait_ms if delay_ms is None else delay_ms
            return FailurePlan(offset, Transition.KEEP, None, attempt, kept_ms, failure)
        deliver_at_ms = self._clock.now_ms() + exact_ms if exact_ms else 0
        message = retry_message(group.name, stored, attempt, level, failure, deliver_at_ms)
        return FailurePlan(offset, Transition.RETRY, message, attempt, wait_ms, failure)

    # -- carrying out ----------------------------------------------------------------------------

    def _keep(self, progress: QueueProgress, plans: Sequence[FailurePlan]) -> None:
        now_ms = self._clock.now_ms()
        waits: dict[int, list[int]] = {}
        for plan in plans:
            waits.setdefault(plan.wait_ms, []).append(plan.offset)
        place = (progress.group, progress.topic, progress.queue)
        for wait_ms, offsets in waits.items():
            self._progress_store.write(HeldForRetry(*place, to_runs(offsets), now_ms + wait_ms))
        self._tell(progress.owner, progress.topic, progress.queue, plans)

    def _move(self, progress: QueueProgress, plans: Sequence[FailurePlan]) -> None:
        messages = [plan.message for plan in plans if plan.message is not None]
        if messages:
            try:
                self._intake.put(messages)
            except (Busy, Corrupt):
                raise
            except EngineError:
                self._move_apart(progress, plans)
                return
        end = self._store.written if messages else 0
        for move in (Transition.RETRY, Transition.GIVE_UP):
            group_plans = [plan for plan in plans if plan.move is move]
            if group_plans:
                offsets = [plan.offset for plan in group_plans]
                self._settle(progress, offsets, move, *_retry_kinds(group_plans), record_end=end)
        self._tell(progress.owner, progress.topic, progress.queue, plans)

    def _move_apart(self, progress: QueueProgress, plans: Sequence[FailurePlan]) -> None:
        """One of them cannot be written as it is: each for itself, and that one stays in place.

        Its properties leave no room for the note of its failure, say; it must not be lost for it.
        """
        if len(plans) > 1:
            for plan in plans:
                self._move(progress, [plan])
            return
        wait_ms = self._levels.delay_ms(ladder_level(plans[0].attempt))
        self._keep(progress, [plans[0]._replace(move=Transition.KEEP, wait_ms=wait_ms)])

    def _settle(
        self,
        progress: QueueProgress,
        offsets: Sequence[int],
        move: Transition,
        delayed: int = 0,
        direct: int = 0,
        record_end: int = 0,
    ) -> None:
        place = (progress.group, progress.topic, progress.queue)
        settled = DeliverySettled(*place, to_runs(offsets), move, delayed, direct, record_end)
        self._progress_store.write(settled, is_owed=record_end > 0)

    def _tell(self, group: str, topic: str, queue: int, plans: Sequence[FailurePlan]) -> None:
        if not self._events.has_subscribers:
            return
        now_ms = self._clock.now_ms()
        for plan in plans:
            place = (group, topic, queue, plan.offset)
            client, error = plan.failure.client, plan.failure.error
            if plan.move is Transition.GIVE_UP:
                self._events.emit(DeadLettered(now_ms, *place, plan.reason or "", client))
            else:
                self._events.emit(
                    Retried(
                        now_ms,
                        *place,
                        plan.attempt + 1,
                        plan.wait_ms,
                        client,
                        error,
                        plan.failure.error is EXPIRED,
                    )
                )


def _broadcast_plan(failed: FailedDelivery, attempt: int, retry_max: int) -> FailurePlan:
    """Nothing of a broadcast is retried: what a client fails with is dropped.

    A delivery that ran out stays with its client, who may have died with it, up to `retry_max`.
    """
    if failed.failure.error is EXPIRED and not is_exhausted(attempt, retry_max):
        return FailurePlan(failed.offset, Transition.KEEP, None, attempt, 0, failed.failure)
    return FailurePlan(
        offset=failed.offset,
        move=Transition.GIVE_UP,
        message=None,
        attempt=attempt,
        wait_ms=0,
        failure=failed.failure,
        reason=DeadLetterReason.BROADCAST,
    )


def _keeps_place(progress: QueueProgress, offset: int) -> bool:
    return isinstance(progress.lanes, OrderLanes) and bool(progress.lanes.lane(offset))


def _retry_kinds(plans: Sequence[FailurePlan]) -> tuple[int, int]:
    """How many of the retries wait in a delay level, and how many do not."""
    retries = [plan for plan in plans if plan.move is Transition.RETRY]
    delayed = sum(plan.wait_ms > 0 for plan in retries)
    return delayed, len(retries) - delayed


def _chunks(entries: Sequence[QueueEntry]) -> Iterator[Sequence[QueueEntry]]:
    """Entries in pieces that can be written at once."""
    start = 0
    while start < len(entries):
        chunk = fit(entries[start:], BATCH_BYTES_MAX, is_first=True)
        yield chunk
        start += len(chunk)
