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

import msgspec

from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterError
from app.cluster.half_messages import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    HalfMessage,
    TransactionQuestion,
)
from app.cluster.messages import ClusterMessage
from app.cluster.sending import ClusterSent
from app.cluster.verbs.callbacks import ClusterCallbacks
from app.cluster.verbs.half_lists import ClusterHalfLists, UndecidedHalves
from app.cluster.verbs.part import ClusterPart, stored_message
from app.messaging import TransactionVerbs
from app.tasks import end_tasks
from engine.broker import (
    Asker,
    Callback,
    CheckSettings,
    Decider,
    Transaction,
    TransactionCheck,
    TransactionDecision,
    TransactionPage,
    TransactionState,
    TransactionSubsystem,
)
from engine.errors import Busy, Conflict, Invalid, MessageNotFound
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
PAGE_COUNT_MAX = 200
WRITTEN_ANEW = "TRAN_PREPARED_QUEUE_OFFSET"
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
        self._lists = ClusterHalfLists(catalog)
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

    async def resume(self, transaction_id: str, *, group: str = "") -> Transaction:
        """Have its broker ask again from the first check on; Conflict unless it was given up."""
        now = await self.get(transaction_id, group=group)
        if now.state is not TransactionState.GIVEN_UP:
            raise Conflict(
                f"the checks of transaction {now.transaction_id!r} were not given up",
                field="id",
                remedy="look at its state",
                code=f"transaction_{now.state}",
            )
        with engine_errors("transaction_id"):
            half, _ = await self._find(now.transaction_id, now.producer_group)
            await self._client.half_messages.resume(half.broker, now.message.offset_id)
        self._begun.pop(now.transaction_id, None)  # it has another half message now
        self._lists.forget(half.broker)
        return msgspec.structs.replace(now, state=TransactionState.PENDING, checks=0)

    async def get(self, transaction_id: str, *, group: str = "") -> Transaction:
        """As the broker of its half message knows it, and what this process decided."""
        now = await self.decide(transaction_id, TransactionDecision.UNKNOWN, group=group)
        if now.state is not TransactionState.PENDING:
            return now
        record = await self._newest(now)
        if record is None:  # its broker's index has it in a moment
            return now
        if await self._lists.is_undecided(record.place.broker, record.offset):
            return self._listed(record, TransactionState.PENDING)
        before, record = record, await self._newest(now)
        if record is None or record.offset != before.offset:  # written anew meanwhile
            return self._listed(record or before, TransactionState.PENDING)
        self._begun.pop(now.transaction_id, None)
        given_up = await self._lists.find_given_up(record.place.broker, now.transaction_id)
        if given_up is not None:
            return self._listed(given_up, TransactionState.GIVEN_UP)
        now = await self.decide(now.transaction_id, TransactionDecision.UNKNOWN, group=group)
        is_committed = now.state is not TransactionState.PENDING  # while it was looked up
        return now if is_committed else self._listed(record, TransactionState.ROLLED_BACK)

    async def pending(
        self, *, group: str = "", after: str = "", count_max: int = 50
    ) -> TransactionPage:
        """As the engine's; what another process decided is listed for 3 s."""
        look, state = await self._lists.pending(), TransactionState.PENDING
        return self._page(look, state, group, after, count_max)

    async def given_up(
        self, *, group: str = "", after: str = "", count_max: int = 50
    ) -> TransactionPage:
        """Those whose checks were given up, as `pending`."""
        look, state = await self._lists.given_up(), TransactionState.GIVEN_UP
        return self._page(look, state, group, after, count_max)

    async def check_settings(self) -> CheckSettings:
        """What all brokers that are there have in common."""
        with engine_errors():
            brokers = await self._client.masters()
            settings = [await self._catalog.settings(each) for each in brokers]
        intervals, counts = (
            {each.get(name, "") for each in settings}
            for name in ("transactionCheckInterval", "transactionCheckMax")
        )
        return CheckSettings(_common(intervals), _common(counts))

    async def remote_producers(self) -> dict[str, int]:
        """By group the producers that are connected to a broker, without this server."""
        with engine_errors():
            return await self._client.half_messages.producers()

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

    def _page(
        self,
        look: UndecidedHalves,
        state: TransactionState,
        group: str,
        after: str,
        count_max: int,
    ) -> TransactionPage:
        """A page of what was looked at, without what this process has decided since."""
        records = [each for each in look.records if each.message_id not in self._decided]
        records.sort(key=_order)
        place = _place(after) if after else (-1, "")
        count_max = max(1, min(count_max, PAGE_COUNT_MAX))
        rest = [
            each
            for each in records
            if _order(each) > place and group in ("", each.properties.get(PGROUP, ""))
        ]
        items = [self._listed(each, state) for each in rest[:count_max]]
        has_more = len(rest) > count_max
        next_place = "-".join(map(str, _order(rest[count_max - 1]))) if has_more else None
        return TransactionPage(items, next_place, len(records), look.unknown)

    def _listed(self, record: ClusterMessage, state: TransactionState) -> Transaction:
        """A record of a half message as a transaction."""
        transaction = _transaction(_half_of(record), self._bound(record), state)
        checks = record.properties.get(CHECK_TIMES, "")
        is_anew = checks or WRITTEN_ANEW in record.properties
        return msgspec.structs.replace(
            transaction,
            checks=int(checks) if checks.isdecimal() else 0,
            begun_ms=record.born_ms if is_anew else record.stored_ms,
        )

    async def _decide(
        self, transaction_id: str, decision: TransactionDecision, group: str, by: Decider
    ) -> Transaction:
        known = self._decided.get(transaction_id)
        if known is not None and group in ("", known.producer_group):
            return _as_decided(known, decision)
        half, stored = await self._find(transaction_id, group)
        if half.transaction_id != transaction_id:  # it was named by an offset id
            return await self.decide(half.transaction_id, decision, group=group, by=by)
        transaction = _transaction(half, stored, TransactionState.PENDING)
        delivered = await self._delivered(stored, half)
        if delivered is not None:
            committed = _at(transaction, delivered, self._numbers.number(delivered.place))
            return _as_decided(self._remember(committed), decision)
        if decision is TransactionDecision.UNKNOWN:
            return transaction
        with engine_errors("transaction_id"):
            await self._client.half_messages.end(
                half, FLAGS[decision], is_checked=by is not Decider.PRODUCER
            )
        done = msgspec.structs.replace(transaction, state=STATES[decision])
        self._begun.pop(half.transaction_id, None)
        self._lists.forget(half.broker)
        return self._remember(done)

    async def _find(self, transaction_id: str, group: str) -> tuple[HalfMessage, StoredMessage]:
        """The half message of an id; MessageNotFound."""
        begun = self._begun.get(transaction_id)
        if begun is not None and group in ("", begun[0].producer_group):
            return begun
        halves = await self._halves(transaction_id, group)
        if not halves and (own_id := await self._id_of(transaction_id)):
            halves = await self._halves(own_id, group)
        if halves:
            return _half_of(halves[-1]), self._bound(halves[-1])
        raise MessageNotFound(
            f"there is no transaction {transaction_id[:80]!r}",
            field="transaction_id",
            remedy="take the id of its half message; brokers keep it as long as other messages",
            code="transaction_not_found",
        )

    async def _newest(self, transaction: Transaction) -> ClusterMessage | None:
        """The last record of a half message that its broker's index has; None for none yet."""
        halves = await self._halves(transaction.transaction_id, transaction.producer_group)
        return halves[-1] if halves else None

    async def _halves(self, transaction_id: str, group: str) -> list[ClusterMessage]:
        """The records of a half message, of which its broker writes one for each check.

        Those of the first broker that has any; Busy if none has, and one is away.
        """
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
            same = [each for each in halves if group in ("", each.properties.get(PGROUP, ""))]
            if same:
                return same
        if failure is not None:
            raise failure
        return []

    async def _id_of(self, offset_id: str) -> str:
        """The transaction whose half message has an offset id; "" for none."""
        try:
            record = await self._client.reads.by_offset_id(offset_id)
        except ClusterError:
            return ""
        return record.message_id if record.place.topic in (HALF_TOPIC, GIVEN_UP_TOPIC) else ""

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


def _half_of(record: ClusterMessage) -> HalfMessage:
    """Where a half message lies, by its record."""
    group = record.properties.get(PGROUP, "")
    return HalfMessage(
        record.place.broker, group, record.message_id, record.offset, record.position
    )


def _order(record: ClusterMessage) -> tuple[int, str]:
    """By its producer's time, which stays when its broker writes it anew."""
    return record.born_ms, record.message_id


def _place(text: str) -> tuple[int, str]:
    """The place in the list that a page's `next` names."""
    born_ms, is_place, message_id = text.partition("-")
    if not is_place or not born_ms.isdecimal() or len(born_ms) > 18:
        raise Invalid(
            f"{text[:60]!r} is no place in the list", field="after", remedy="give a page's `next`"
        )
    return int(born_ms), message_id


def _common(texts: set[str]) -> int | None:
    """The number that all brokers say; None where they differ or do not say."""
    text = texts.pop() if len(texts) == 1 else ""
    return int(text) if text.isdecimal() else None
