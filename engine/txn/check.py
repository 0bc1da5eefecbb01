"""Check-back: asks producers for the state of transactions that they have not decided.

A check is begun when it is due, whether a producer is connected or not; one without a producer
waits for a poll. After the last one, a transaction is given up. Where very many are due
they are taken in turns, a bounded number in each tick.
"""

from array import array
from collections.abc import Callable, Sequence

import msgspec

from engine.clock import Clock
from engine.errors import EngineError
from engine.events import Checked, EventBus
from engine.message import REAL_QID, REAL_TOPIC, StoredMessage
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.txn.journal import HALVES
from engine.txn.pending_transactions import PendingTransactions
from engine.txn.records import TransactionReader, identity_of
from engine.txn.resolve import Resolver

TICK_CHECKS_MAX = 25  # more would hold up the event loop for over 10 ms
MORE_WAIT_S = 0.005  # where more are due: time for everything else in between
POLL_COUNT_MAX = 32
POLL_LOOKED_AT_MAX = 1000


class TransactionCheck(msgspec.Struct, frozen=True):
    """A question to a producer group: what became of this transaction?

    `message` is as it would be delivered: of its real topic and queue. `number` counts from 1.
    """

    transaction_id: str
    producer_group: str
    number: int
    half_offset: int
    message: StoredMessage


Asker = Callable[[TransactionCheck], bool]  # whether a producer is asked now; must return at once


class TransactionChecker(Service):
    """At most 25 checks in a tick, and 1 MiB of half messages; woken by what is due earlier."""

    name = "transaction checks"

    def __init__(
        self,
        pending_transactions: PendingTransactions,
        records: TransactionReader,
        resolver: Resolver,
        clock: Clock,
        events: EventBus,
        *,
        check_max: int,
    ) -> None:
        super().__init__()
        self._pending_transactions = pending_transactions
        self._records = records
        self._resolver = resolver
        self._clock = clock
        self._events = events
        self._check_max = check_max
        self._waiting: dict[
            str, OffsetQueue
        ] = {}  # begun, but no producer asked, by producer group
        self.askers: list[Asker] = []
        pending_transactions.on_earlier = self.wake

    def tick(self) -> float:
        """Begin what checks are due; seconds until the next is. DiskFull: none has begun."""
        due = self._pending_transactions.due(TICK_CHECKS_MAX)
        if due:
            self._begin(due)
        wait_s = self._pending_transactions.wait_s()
        if wait_s is None:
            return IDLE_WAIT_MAX_S
        return max(wait_s, MORE_WAIT_S)

    def poll(self, group: str, count_max: int) -> list[TransactionCheck]:
        """Checks of a group that no producer was asked for; the caller has until the next is due.

        At most 32, and a page may be short although there are more: 1,000 are looked at.
        """
        queue = self._waiting.get(group)
        if queue is None:
            return []
        offsets: list[int] = []
        looked_at = 0
        count_max = max(1, min(count_max, POLL_COUNT_MAX))
        while queue and len(offsets) < count_max and looked_at < POLL_LOOKED_AT_MAX:
            looked_at += 1
            offset = queue.pop()
            if self._pending_transactions.waits(offset):
                offsets.append(offset)
        read = self._records.read_half_messages(HALVES, offsets) if offsets else {}
        half_messages = [(offset, stored) for offset, stored in read.items() if stored is not None]
        left = [offset for offset in offsets if offset not in read]
        try:
            if half_messages:
                self._lease([offset for offset, _ in half_messages])
        except EngineError:
            left = offsets
            raise
        finally:
            queue.put_back(left)
            if not queue:
                del self._waiting[group]
        return [self._check(offset, stored) for offset, stored in half_messages]

    def _lease(self, offsets: Sequence[int]) -> None:
        """A producer has them: the next check is a whole interval from now."""
        entries = self._pending_transactions.entries(HALVES, offsets)
        self._pending_transactions.begin_checks(
            entries, [self._pending_transactions.checks(each.offset) for each in entries]
        )
        for offset in offsets:
            self._pending_transactions.set_waits(offset, False)

    def _begin(self, due: Sequence[int]) -> None:
        read = self._records.read_half_messages(HALVES, due)
        lost = [offset for offset, stored in read.items() if stored is None]
        if lost:
            self._pending_transactions.finish(half_offsets=lost)
        known = {offset: stored for offset, stored in read.items() if stored is not None}
        ended = {
            offset
            for offset in known
            if self._pending_transactions.checks(offset) >= self._check_max
        }
        if ended:
            self._resolver.give_up([known[offset] for offset in sorted(ended)])
        checks = {offset: stored for offset, stored in known.items() if offset not in ended}
        if checks:
            entries = self._pending_transactions.entries(HALVES, list(checks))
            counts = [self._pending_transactions.checks(each.offset) + 1 for each in entries]
            self._pending_transactions.begin_checks(entries, counts)
            for offset, stored in checks.items():
                self._ask(self._check(offset, stored))

    def _ask(self, check: TransactionCheck) -> None:
        is_asked = any(asker(check) for asker in self.askers)
        offset = check.half_offset
        if self._pending_transactions.is_finished(HALVES, offset):
            return  # the producer answered at once
        if is_asked:
            self._pending_transactions.set_waits(offset, False)
        elif not self._pending_transactions.waits(offset):
            self._pending_transactions.set_waits(offset, True)
            self._waiting.setdefault(check.producer_group, OffsetQueue()).put(offset)
        if self._events.has_subscribers:
            message = check.message
            self._events.emit(
                Checked(
                    at_ms=self._clock.now_ms(),
                    producer_group=check.producer_group,
                    topic=message.topic,
                    queue=message.queue,
                    half_offset=offset,
                    message_id=check.transaction_id,
                    number=check.number,
                    is_asked=is_asked,
                )
            )

    def _check(self, offset: int, half: StoredMessage) -> TransactionCheck:
        identity = identity_of(half)
        number = max(1, self._pending_transactions.checks(offset))
        return TransactionCheck(identity.message_id, identity.group, number, offset, as_bound(half))


class OffsetQueue:
    """Offsets, first in, first out; eight bytes each."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._first = 0

    def __len__(self) -> int:
        return len(self._offsets) - self._first

    def put(self, offset: int) -> None:
        self._offsets.append(offset)

    def put_back(self, offsets: Sequence[int]) -> None:
        """These are the first again."""
        if offsets:
            self._offsets[: self._first] = array("q", offsets)
            self._first = 0

    def pop(self) -> int:
        offset = self._offsets[self._first]
        self._first += 1
        if self._first >= 1024 and self._first * 2 >= len(self._offsets):
            del self._offsets[: self._first]
            self._first = 0
        return offset


def as_bound(half: StoredMessage) -> StoredMessage:
    """A half message as it would be delivered: the topic and queue that it is bound for."""
    properties = half.properties
    text = properties.get(REAL_QID, "")
    queue = int(text) if text.isdecimal() else 0
    return msgspec.structs.replace(half, topic=properties.get(REAL_TOPIC, ""), queue=queue)
