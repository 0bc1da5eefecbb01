"""Transactions of a cluster: decisions go to the broker that has the half message.

A decision finds it by its message id: in memory where this process began it or was asked about it,
else by the brokers' index. Brokers do not keep what was decided, and would deliver a second time
what is committed twice: so a decision is remembered here, of the last DECIDED_MAX, and the topic is
looked into for what another process committed, which its index shows a little later.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from pathlib import Path
from typing import NoReturn

import msgspec

from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterError
from app.cluster.half_messages import HALF_TOPIC, HalfMessage, TransactionQuestion
from app.cluster.messages import ClusterMessage
from app.cluster.sending import ClusterSent
from app.cluster.verbs.callbacks import ClusterCallbacks
from app.cluster.verbs.part import ClusterPart, stored_message
from app.messaging import TransactionVerbs
from app.tasks import end_tasks
from engine.broker import (
    Asker,
    Callback,
    Decider,
    Transaction,
    TransactionCheck,
    TransactionDecision,
    TransactionPage,
    TransactionState,
    TransactionSubsystem,
)
from engine.errors import Busy, Conflict, MessageNotFound
from engine.message import (
    CHECK_TIMES,
    KEYS,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    UNIQ_KEY,
    Message,
    StoredMessage,
    join_properties,
)
from protocol.remoting.codes import SysFlag

log = logging.getLogger("kitemq.cluster")

DECIDED_MAX = 100_000
BEGUN_MAX = 1_000  # with their messages; others are looked up
GROUPS_MAX = 10_000
CHECKS_MAX = 1_000  # of a group, that wait for a poll
POLL_COUNT_MAX = 32
HEARTBEAT_S = 20.0  # brokers forget a producer after 120 s
RETRY_S = 2.0  # after one that failed
FLAGS = {
    TransactionDecision.COMMIT: SysFlag.TRANSACTION_COMMIT,
    TransactionDecision.ROLLBACK: SysFlag.TRANSACTION_ROLLBACK,
}
STATES = {
    TransactionDecision.COMMIT: TransactionState.COMMITTED,
    TransactionDecision.ROLLBACK: TransactionState.ROLLED_BACK,
}


class ClusterTransactions(ClusterPart, TransactionVerbs):
    """Between `start` and `close` it answers for the producer groups that it has heard of."""

    def __init__(self, catalog: ClusterCatalog, folder: Path | None = None) -> None:
        """Callbacks are kept in a `folder`."""
        super().__init__(catalog)
        self._callbacks = ClusterCallbacks(folder)
        self._askers: list[Asker] = []
        self._begun: OrderedDict[str, tuple[HalfMessage, StoredMessage]] = OrderedDict()
        self._decided: OrderedDict[str, Transaction] = OrderedDict()
        self._deciding: dict[str, asyncio.Lock] = {}
        self._checks: dict[str, deque[TransactionCheck]] = {}
        self._groups: dict[str, None] = {}
        self._beats: asyncio.Task[None] | None = None
        self._drops: set[asyncio.Task[None]] = set()
        self._is_new = asyncio.Event()

    @property
    def callbacks(self) -> ClusterCallbacks:
        return self._callbacks

    @property
    def askers(self) -> list[Asker]:
        return self._askers

    @property
    def _engine(self) -> TransactionSubsystem:
        raise not_supported("has no such verb", field="transaction", remedy="ask its producer")

    async def start(self) -> None:
        """Hear the brokers' questions, and give signs of life for groups that have callbacks."""
        for callback in self.callbacks.all():
            await self.answer_for(callback.group)
        self._client.half_messages.listen(self._on_question)
        self._client.half_messages.on_connect(self._is_new.set)
        self._beats = asyncio.get_running_loop().create_task(self._beat())

    async def close(self) -> None:
        """End that."""
        self._client.half_messages.close()
        await end_tasks(self._beats, *self._drops)

    async def answer_for(self, group: str) -> None:
        """Producers of a group are here: brokers ask us from now on; Busy for one too many."""
        if group in self._groups:
            return
        if len(self._groups) >= GROUPS_MAX:
            raise Busy(f"{GROUPS_MAX} producer groups are the most", field="transaction_group")
        self._groups[group] = None
        self._is_new.set()

    def begin(self, message: Message, sent: ClusterSent, position: int) -> None:
        """A half message was stored: decisions find it here before the brokers' index has it."""
        half = HalfMessage(
            sent.queue.broker,
            message.transaction_group,
            message.message_id,
            sent.offset,
            position,
        )
        self._note(half, stored_half(message, sent, position, self._catalog.now_ms()))

    # -- verbs -----------------------------------------------------------------------------------

    async def decide(
        self,
        transaction_id: str,
        decision: TransactionDecision,
        *,
        group: str = "",
        by: Decider = Decider.PRODUCER,
    ) -> Transaction:
        """As `TransactionVerbs.decide`; returns once the broker has it."""
        lock = self._deciding.setdefault(transaction_id, asyncio.Lock())
        try:
            async with lock:
                return await self._decide(transaction_id, decision, group, by)
        finally:
            if not lock.locked():
                self._deciding.pop(transaction_id, None)

    async def set_callback(self, callback: Callback) -> Callback:
        """Register one, and give signs of life for its group; Invalid, Busy, DiskFull."""
        self.callbacks.check_new(callback)
        await self.answer_for(callback.group)
        return await self.callbacks.set(callback)

    async def delete_callback(self, group: str) -> None:
        """Call a group no more; GroupNotFound where it has no callback."""
        await self.callbacks.delete(group)

    async def resume(self, transaction_id: str, *, group: str = "") -> NoReturn:
        """Refused, as the transactions that a broker gave up are not known here."""
        raise _unlisted()

    async def get(self, transaction_id: str, *, group: str = "") -> Transaction:
        """As far as it is known here: what another process rolled back is pending."""
        return await self.decide(transaction_id, TransactionDecision.UNKNOWN, group=group)

    async def pending(self, *, group: str = "", after: str = "", count_max: int = 50) -> NoReturn:
        """Refused."""
        raise _unlisted()

    async def given_up(
        self, *, group: str = "", after: str = "", count_max: int = 50
    ) -> TransactionPage:
        """Refused."""
        raise _unlisted()

    async def checks(self, group: str, count_max: int = POLL_COUNT_MAX) -> list[TransactionCheck]:
        """Take up to 32 questions that no producer was asked; brokers repeat them later."""
        await self.answer_for(group)
        waiting = self._checks.get(group, deque())
        count = max(1, min(count_max, POLL_COUNT_MAX, len(waiting) or 1))
        checks = [waiting.popleft() for _ in range(min(count, len(waiting)))]
        if not waiting:
            self._checks.pop(group, None)
        return [each for each in checks if each.transaction_id not in self._decided]

    # -- inside ----------------------------------------------------------------------------------

    async def _decide(
        self, transaction_id: str, decision: TransactionDecision, group: str, by: Decider
    ) -> Transaction:
        known = self._decided.get(transaction_id)
        if known is not None and group in ("", known.producer_group):
            return _as_decided(known, decision)
        half, stored = await self._find(transaction_id, group)
        transaction = _transaction(half, stored, TransactionState.PENDING)
        delivered = await self._delivered(stored, half)
        if delivered is not None:
            committed = _at(transaction, delivered, self._numbers.number(delivered.place))
            return _as_decided(self._remember(committed), decision)
        if decision is TransactionDecision.UNKNOWN:
            return transaction
        with engine_errors("transaction_id"):
            await self._client.half_messages.end(
                half, FLAGS[decision], is_checked=by is Decider.CHECK
            )
        done = msgspec.structs.replace(transaction, state=STATES[decision])
        self._begun.pop(transaction_id, None)
        return self._remember(done)

    async def _find(self, transaction_id: str, group: str) -> tuple[HalfMessage, StoredMessage]:
        """The half message of an id; MessageNotFound."""
        begun = self._begun.get(transaction_id)
        if begun is not None and group in ("", begun[0].producer_group):
            return begun
        failure: Busy | None = None
        for broker in self._numbers.brokers:
            try:
                with engine_errors("transaction_id"):
                    halves = await self._client.reads.by_key(
                        HALF_TOPIC, transaction_id, is_id=True, broker=broker
                    )
            except Busy as error:
                failure = error
                continue
            for message in reversed(halves):  # a broker that asked has written it anew
                producer_group = message.properties.get(PGROUP, "")
                if group in ("", producer_group):
                    place = message.offset, message.position
                    half = HalfMessage(broker, producer_group, transaction_id, *place)
                    return half, self._bound(message)
        if failure is not None:
            raise failure
        raise MessageNotFound(
            f"there is no transaction {transaction_id[:80]!r}",
            field="transaction_id",
            remedy="take the id of its half message; brokers keep it as long as other messages",
            code="transaction_not_found",
        )

    async def _delivered(self, stored: StoredMessage, half: HalfMessage) -> ClusterMessage | None:
        """The message that was committed before, if its broker's index has it."""
        with engine_errors("transaction_id"):
            messages = await self._client.reads.by_key(
                stored.topic, half.transaction_id, is_id=True, broker=half.broker
            )
        same = [each for each in messages if each.properties.get(PGROUP) == half.producer_group]
        return same[0] if same else None

    def _on_question(self, question: TransactionQuestion) -> None:
        half, stored = question.half, self._bound(question.message)
        if half.transaction_id in self._decided:
            self._drop(half)
            return
        self._note(half, stored)
        times = question.message.properties.get(CHECK_TIMES, "1")
        number = int(times) if times.isdecimal() else 1
        check = TransactionCheck(
            half.transaction_id, half.producer_group, max(1, number), half.offset, stored
        )
        if any(asker(check) for asker in self._askers):
            return
        waiting = self._checks.setdefault(half.producer_group, deque(maxlen=CHECKS_MAX))
        if all(each.transaction_id != half.transaction_id for each in waiting):
            waiting.append(check)

    def _drop(self, half: HalfMessage) -> None:
        """Roll back a copy that its broker wrote while the transaction was decided."""

        async def drop() -> None:
            try:
                await self._client.half_messages.end(
                    half, SysFlag.TRANSACTION_ROLLBACK, is_checked=True
                )
            except ClusterError as error:  # the broker asks again
                log.warning("a transaction's copy was not dropped: %s", error)

        task = asyncio.get_running_loop().create_task(drop())
        self._drops.add(task)
        task.add_done_callback(self._drops.discard)

    def _note(self, half: HalfMessage, stored: StoredMessage) -> None:
        self._begun[half.transaction_id] = half, stored
        self._begun.move_to_end(half.transaction_id)
        if len(self._begun) > BEGUN_MAX:
            self._begun.popitem(last=False)

    def _bound(self, message: ClusterMessage) -> StoredMessage:
        """A half message as it would be delivered: of the topic and queue that it is bound for."""
        properties = message.properties
        topic = properties.get(REAL_TOPIC, message.place.topic)
        text = properties.get(REAL_QID, "")
        place = message.place._replace(
            topic=topic, queue=int(text) if text.isdecimal() else message.place.queue
        )
        return stored_message(message, self._numbers.number(place), topic=topic)

    def _remember(self, transaction: Transaction) -> Transaction:
        self._decided[transaction.transaction_id] = transaction
        if len(self._decided) > DECIDED_MAX:
            self._decided.popitem(last=False)
        return transaction

    async def _beat(self) -> None:
        said = ""
        while True:
            wait_s, failure = HEARTBEAT_S, ""
            self._is_new.clear()
            if self._groups:
                try:
                    await self._client.half_messages.heartbeat(list(self._groups))
                except ClusterError as error:
                    wait_s, failure = RETRY_S, error.detail
                if failure and failure != said:
                    log.warning("a sign of life of producers failed: %s", failure)
                said = failure
            try:
                async with asyncio.timeout(wait_s):
                    await self._is_new.wait()
            except TimeoutError:
                pass


def stored_half(message: Message, sent: ClusterSent, position: int, now_ms: int) -> StoredMessage:
    """A half message that was sent from here, as it would be delivered."""
    properties = {UNIQ_KEY: message.message_id, PGROUP: message.transaction_group}
    properties |= {TAGS: message.tag} if message.tag else {}
    properties |= {KEYS: " ".join(message.keys)} if message.keys else {}
    return StoredMessage(
        topic=message.topic,
        queue=message.queue,
        offset=sent.offset,
        position=position,
        size_bytes=len(message.body),
        body=message.body,
        property_block=join_properties({**message.properties, **properties}).encode(),
        flag=message.flag,
        sys_flag=message.sys_flag,
        attempt=message.attempt,
        born_ms=message.born_ms,
        born_host="",
        stored_ms=now_ms,
        store_host="",
    )


def _transaction(half: HalfMessage, stored: StoredMessage, state: TransactionState) -> Transaction:
    return Transaction(
        transaction_id=half.transaction_id,
        producer_group=half.producer_group,
        topic=stored.topic,
        queue=stored.queue,
        state=state,
        message=stored,
        begun_ms=stored.stored_ms,
    )


def _at(transaction: Transaction, delivered: ClusterMessage, queue: int) -> Transaction:
    return msgspec.structs.replace(
        transaction, state=TransactionState.COMMITTED, queue=queue, offset=delivered.offset
    )


def _as_decided(transaction: Transaction, decision: TransactionDecision) -> Transaction:
    """The transaction again; Conflict where the opposite was decided."""
    if decision is TransactionDecision.UNKNOWN or STATES[decision] is transaction.state:
        return transaction
    raise Conflict(
        f"the transaction {transaction.transaction_id!r} was {transaction.state.replace('_', ' ')}",
        field="id",
        remedy="a decision is final: send a new message to say otherwise",
        code=f"transaction_{transaction.state}",
    )


def _unlisted() -> Exception:
    return not_supported(
        "neither lists nor looks up transactions",
        field="transaction_queries",
        remedy="ask the producer that began the transaction",
    )
