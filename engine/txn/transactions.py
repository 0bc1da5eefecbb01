"""Operations of producers and operators on transactions: `Broker.transactions`.

A transaction begins with a half message: `Broker.send` of a `Message` that names its
`transaction_group`. Its id is the message's id; the half message's offset id names it, too.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from engine.config import EngineConfig
from engine.context import EngineContext
from engine.errors import Invalid
from engine.message import CHECK_TIMES, StoredMessage
from engine.service import Service
from engine.topic.names import HALF_TOPIC
from engine.txn.check import POLL_COUNT_MAX, Asker, TransactionCheck, TransactionChecker, as_bound
from engine.txn.journal import GIVEN_UP, HALVES
from engine.txn.pending_transactions import PendingTransactions
from engine.txn.producers import Callbacks
from engine.txn.records import DeliveredMessage, TransactionReader, TransactionRecords, identity_of
from engine.txn.recovery_evidence import root_of
from engine.txn.resolve import Decider, Resolver, TransactionDecision

PAGE_COUNT_MAX = 200
EXAMINED_MAX = 1000  # records looked at for one page


class TransactionState(StrEnum):
    """State of a transaction."""

    PENDING = "pending"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    GIVEN_UP = "given_up"  # not checked any more, and still to be decided


class Transaction(msgspec.Struct, frozen=True):
    """One transaction. `message` is as it would be delivered, or was; its offset is the half's.

    `begun_ms` is when its first half message was stored; where that is gone, its producer's time.
    `checks` is how many were begun, `next_check_ms` when the next is due (None: none will be).
    `offset` is where the committed message stands, in `queue` of `topic`. With `flush_position`
    above 0 that is promised to be flushed, and is so once the log is on disk up to there.
    """

    transaction_id: str
    producer_group: str
    topic: str
    queue: int
    state: TransactionState
    message: StoredMessage
    checks: int = 0
    next_check_ms: int | None = None
    offset: int | None = None
    flush_position: int = 0
    begun_ms: int = 0


class TransactionPage(msgspec.Struct, frozen=True):
    """Transactions, oldest first; `next` asks for those after them, None at the end.

    `count` is how many there are of all groups together; at least so many where `unknown` says why.
    """

    items: list[Transaction]
    next: str | None
    count: int
    unknown: str = ""


class CheckSettings(NamedTuple):
    """How long a check waits for the next one, and how many there are; None where not told."""

    interval_ms: int | None
    count_max: int | None


class TransactionSubsystem:
    """The verbs. A decision is kept when its verb returns, and is final."""

    def __init__(
        self,
        config: EngineConfig,
        context: EngineContext,
        *,
        pending_transactions: PendingTransactions,
        check_running: Callable[[], None],
    ) -> None:
        """`check_running` raises Stopping where nothing may be changed any more."""
        self._check_running = check_running
        interval_ms = round(config.transaction_check_interval_s * 1000)
        self._check_settings = CheckSettings(interval_ms, config.transaction_check_max)
        self._pending_transactions = pending_transactions
        self._store = context.store
        self._records = TransactionReader(context.store, pending_transactions)
        self._resolver = Resolver(context, pending_transactions, self._records)
        self._checker = TransactionChecker(
            pending_transactions,
            self._records,
            self._resolver,
            context.clock,
            context.events,
            check_max=config.transaction_check_max,
        )
        self.callbacks = Callbacks(context.store.journal)

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """After recovery."""
        self._pending_transactions.start()

    def replayed(self, message: StoredMessage) -> None:
        """Recovery found this record."""
        self._pending_transactions.replayed(message)

    def services(self) -> list[Service]:
        return [self._checker]

    @property
    def askers(self) -> list[Asker]:
        """Askers of producers, in order; the first that returns True has asked.

        Called on the owner's thread, must return at once, and may not call back into the broker.
        """
        return self._checker.askers

    # -- deciding --------------------------------------------------------------------------------

    def decide(
        self,
        transaction_id: str,
        decision: TransactionDecision,
        *,
        group: str = "",
        by: Decider = Decider.PRODUCER,
    ) -> Transaction:
        """Commit, roll back, or say that nothing is known yet; the same again answers the same.

        `group` keeps to that producer group's. Raises MessageNotFound (`transaction_not_found`);
        Conflict where the opposite was decided, or the id names several; TopicNotFound where the
        topic is gone; DiskFull, and then nothing has changed.
        """
        self._check_running()
        records = self._records.find(transaction_id, group)
        if decision is TransactionDecision.COMMIT:
            delivered = self._resolver.commit(records, by)
            return self._transaction_as(records, TransactionState.COMMITTED, delivered)
        if decision is TransactionDecision.ROLLBACK:
            self._resolver.roll_back(records, by)
            return self._transaction_as(records, TransactionState.ROLLED_BACK)
        return self._transaction_now(records)

    def commit(
        self, transaction_id: str, *, group: str = "", by: Decider = Decider.PRODUCER
    ) -> Transaction:
        """Deliver the message, once; see `decide`. After it was given up, too."""
        return self.decide(transaction_id, TransactionDecision.COMMIT, group=group, by=by)

    def rollback(
        self, transaction_id: str, *, group: str = "", by: Decider = Decider.PRODUCER
    ) -> Transaction:
        """Never deliver the message; see `decide`."""
        return self.decide(transaction_id, TransactionDecision.ROLLBACK, group=group, by=by)

    def resume(self, transaction_id: str, *, group: str = "") -> Transaction:
        """Check a given-up transaction again, from the first check on; Conflict for any other."""
        self._check_running()
        records = self._records.find(transaction_id, group)
        self._resolver.resume(records)
        return self._transaction_as(records, TransactionState.PENDING)

    # -- looking ---------------------------------------------------------------------------------

    def check_settings(self) -> CheckSettings:
        """When and how often producers are asked."""
        return self._check_settings

    @property
    def count(self) -> int:
        """Number of undecided transactions, without those that were given up."""
        return self._pending_transactions.count

    def get(self, transaction_id: str, *, group: str = "") -> Transaction:
        """The state of a transaction; MessageNotFound, Conflict as in `decide`."""
        return self._transaction_now(self._records.find(transaction_id, group))

    def pending(self, *, group: str = "", after: str = "", count_max: int = 50) -> TransactionPage:
        """Undecided transactions, oldest first, at most 200 of all groups or of one.

        At most 1,000 are looked at, so a page may be short or empty although `next` says that
        there is more. Invalid for a wrong `after`.
        """
        return self._page(HALVES, group, after, count_max)

    def given_up(self, *, group: str = "", after: str = "", count_max: int = 50) -> TransactionPage:
        """Undecided transactions whose checks were given up; as `pending`."""
        return self._page(GIVEN_UP, group, after, count_max)

    def checks(self, group: str, count_max: int = POLL_COUNT_MAX) -> list[TransactionCheck]:
        """Take up to 32 checks without an asked producer; they are the caller's for an interval.

        It answers by `decide`. Raises DiskFull, and none was taken.
        """
        self._check_running()
        return self._checker.poll(group, count_max)

    def oldest_position(self) -> int | None:
        """Where the oldest undecided half message lies; None when nothing is undecided."""
        entries = self._pending_transactions.entries(
            HALVES, self._pending_transactions.undecided(HALVES, 0, 1)
        )
        return entries[0].position if entries and entries[0].has_record else None

    # -- inside ----------------------------------------------------------------------------------

    def _transaction_now(self, records: TransactionRecords) -> Transaction:
        if records.delivered is not None:
            return self._transaction_as(records, TransactionState.COMMITTED, records.delivered)
        if records.pending:
            return self._transaction_as(records, TransactionState.PENDING)
        if records.given_up:
            return self._transaction_as(records, TransactionState.GIVEN_UP)
        return self._transaction_as(records, TransactionState.ROLLED_BACK)

    def _transaction_as(
        self,
        records: TransactionRecords,
        state: TransactionState,
        delivered: DeliveredMessage | None = None,
    ) -> Transaction:
        half = (*records.open, *records.finished)[0]
        transaction = self._transaction(half, state)
        if delivered is None:
            return transaction
        return msgspec.structs.replace(
            transaction,
            queue=delivered.queue,
            offset=delivered.offset,
            flush_position=delivered.flush_position,
        )

    def _transaction(self, half: StoredMessage, state: TransactionState) -> Transaction:
        identity, message = identity_of(half), as_bound(half)
        is_checked = half.topic == HALF_TOPIC and state is TransactionState.PENDING
        noted = half.properties.get(CHECK_TIMES, "")
        checks = int(noted) if noted.isdecimal() else self._pending_transactions.checks(half.offset)
        return Transaction(
            transaction_id=identity.message_id,
            producer_group=identity.group,
            topic=identity.topic,
            queue=message.queue,
            state=state,
            message=message,
            checks=checks,
            next_check_ms=self._pending_transactions.due_ms(half.offset) if is_checked else None,
            begun_ms=self._begun_ms(half),
        )

    def _begun_ms(self, half: StoredMessage) -> int:
        """When the first half message was stored, of which this may be a later record."""
        root = root_of(half)
        if half.topic == HALF_TOPIC and half.offset == root:
            return half.stored_ms
        first = self._records.read_half_messages(HALVES, [root])[root] if root >= 0 else None
        is_its_own = first is not None and first.message_id == half.message_id
        return first.stored_ms if first is not None and is_its_own else half.born_ms

    def _page(self, kind: int, group: str, after: str, count_max: int) -> TransactionPage:
        state = TransactionState.PENDING if kind == HALVES else TransactionState.GIVEN_UP
        start = _place(after)
        count_max = max(1, min(count_max, PAGE_COUNT_MAX))
        items: list[Transaction] = []
        examined = 0
        while len(items) < count_max and examined < EXAMINED_MAX:
            offsets = self._pending_transactions.undecided(kind, start, count_max)
            if not offsets:
                return TransactionPage(items, None, self._count(kind))
            for offset, half in self._records.read_half_messages(kind, offsets).items():
                start = offset + 1
                examined += 1
                if half is not None and group in ("", identity_of(half).group):
                    items.append(self._transaction(half, state))
                    if len(items) == count_max:
                        break
        has_more = bool(self._pending_transactions.undecided(kind, start, 1))
        return TransactionPage(items, str(start) if has_more else None, self._count(kind))

    def _count(self, kind: int) -> int:
        return (
            self._pending_transactions.count
            if kind == HALVES
            else self._pending_transactions.given_up_count()
        )


def _place(after: str) -> int:
    """The offset that a page's `next` names."""
    if not after:
        return 0
    if not after.isdecimal() or len(after) > 18:
        raise Invalid(
            f"{after[:40]!r} is no place in the list",
            field="after",
            remedy="give a page's `next`",
        )
    return int(after)
