"""The verbs of `app.messaging`, answered by the embedded engine.

Only `send`, `receive`, `pull` and a transaction's `decide` ever wait; the others return in
microseconds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from app.capabilities import EMBEDDED
from app.host import EngineHost
from app.send_batcher import BatchSlice, ColumnsDone, Done, SendBatcher
from engine.broker import (
    AckResult,
    Assignment,
    Decider,
    Delivery,
    ExtendResult,
    GroupConfig,
    LockedQueue,
    LockResult,
    LongPoll,
    Member,
    MemberConnection,
    Nack,
    PullAnswer,
    PullResult,
    QueueContent,
    QueueLock,
    Receipt,
    Scheduled,
    ScheduledPage,
    Strategy,
    TimerAnswer,
    TopicConfig,
    Transaction,
    TransactionCheck,
    TransactionDecision,
    TransactionPage,
)
from engine.errors import EngineError
from engine.message import Durability, Message, StoredMessage
from engine.message_columns import MessageColumns

# A pull with time left goes on after these; on any other, waiting would change nothing.
PULL_GOES_ON = frozenset({PullAnswer.NOT_FOUND, PullAnswer.RETRY_IMMEDIATELY})


class EngineMessaging:
    """`Messaging` of a started `EngineHost`, on the loop's thread."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._batcher = SendBatcher(host)
        self.capabilities = EMBEDDED
        self.transactions = EngineTransactions(host)
        self.locks = EngineLocks(host)
        self.members = EngineMembers(host)

    async def send(
        self, messages: Sequence[Message], durability: Durability | None = None
    ) -> BatchSlice:
        sent: asyncio.Future[BatchSlice] = self._host.loop.create_future()

        def done(result: BatchSlice | None, error: EngineError | None) -> None:
            if sent.done():
                return
            if result is not None:
                sent.set_result(result)
            else:
                sent.set_exception(error or RuntimeError("neither stored nor refused"))

        self.submit(messages, durability, done)
        return await sent

    def submit(
        self, messages: Sequence[Message], durability: Durability | None, done: Done
    ) -> None:
        self._batcher.add(messages, durability, done)

    def submit_columns(
        self, columns: MessageColumns, durability: Durability | None, done: ColumnsDone
    ) -> None:
        self._batcher.add_columns(columns, durability, done)

    async def receive(
        self,
        group: str,
        topics: Mapping[str, str],
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        wait_s: float = 0.0,
        client: str = "",
    ) -> list[Delivery]:
        """Hand out up to `count_max` messages; waits up to `wait_s` for the first of them.

        Cancelling it frees its place, and a wake it had already got goes to the next waiter.
        """
        deadline_s = self._host.loop.time() + wait_s
        while True:
            deliveries = self._host.broker.receive(
                group, topics, count_max=count_max, invisible_s=invisible_s, client=client
            )
            if deliveries or wait_s <= 0:
                return deliveries
            park = partial(self._host.broker.wait_to_receive, group, topics, client=client)
            if not await self._host.wait_until(park, deadline_s):
                return []

    def wait_to_receive(
        self, group: str, topics: Mapping[str, str], wake: Callable[[], None], client: str = ""
    ) -> LongPoll:
        return self._host.broker.wait_to_receive(group, topics, wake, client)

    def wait_to_pull(
        self, topic: str, queue: int, offset: int, filter: str, wake: Callable[[], None]
    ) -> LongPoll:
        return self._host.broker.wait_to_pull(topic, queue, offset, filter, wake)

    async def check_filter(self, filter: str) -> None:
        self._host.broker.check_filter(filter)

    async def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        count_max: int = 32,
        bytes_max: int = 256 * 1024,
        filter: str = "*",
        group: str = "",
        wait_s: float = 0.0,
    ) -> PullResult:
        """Read from `offset` without handing out; waits up to `wait_s` for a match.

        The result's `next_offset` is past everything examined, also after a wait.
        """
        deadline_s = self._host.loop.time() + wait_s
        while True:
            result = self._host.broker.pull(
                topic,
                queue,
                offset,
                count_max=count_max,
                bytes_max=bytes_max,
                filter=filter,
                group=group,
            )
            if wait_s <= 0 or result.answer not in PULL_GOES_ON:
                return result
            offset = result.next_offset
            park = partial(self._host.broker.wait_to_pull, topic, queue, offset, filter)
            if not await self._host.wait_until(park, deadline_s):
                return result

    async def ack(self, group: str, receipts: Sequence[Receipt]) -> list[AckResult]:
        return self._host.broker.ack(group, receipts)

    async def nack(self, group: str, nacks: Sequence[Nack], client: str = "") -> list[AckResult]:
        return self._host.broker.nack(group, nacks, client)

    async def extend(
        self, group: str, receipts: Sequence[Receipt], invisible_s: float
    ) -> list[ExtendResult]:
        return self._host.broker.extend(group, receipts, invisible_s)

    async def renew(self, group: str, receipt: Receipt, invisible_s: float) -> Receipt | None:
        return self._host.broker.renew(group, receipt, invisible_s)

    async def release(self, group: str, receipts: Sequence[Receipt]) -> list[AckResult]:
        return self._host.broker.release(group, receipts)

    async def held(self, group: str, client: str) -> list[Receipt]:
        return self._host.broker.held(group, client)

    async def receipt_until(
        self, group: str, topic: str, queue: int, offset: int, until_ms: int
    ) -> Receipt:
        return self._host.broker.receipt_until(group, topic, queue, offset, until_ms)

    async def commit_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        return self._host.broker.commit_offset(group, topic, queue, offset, client)

    async def advance_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        return self._host.broker.advance_offset(group, topic, queue, offset, client)

    async def committed_offset(
        self, group: str, topic: str, queue: int, client: str = ""
    ) -> int | None:
        return self._host.broker.committed_offset(group, topic, queue, client)

    async def start_offset(self, group: str, topic: str, queue: int) -> int:
        return self._host.broker.start_offset(group, topic, queue)

    async def is_young_queue(self, topic: str, queue: int) -> bool:
        return self._host.broker.is_young_queue(topic, queue)

    async def send_back(
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
        self._host.broker.send_back(
            group,
            topic,
            queue,
            offset,
            delay_level=delay_level,
            retry_max=retry_max,
            error=error,
            client=client,
        )

    async def message(self, topic: str, queue: int, offset: int) -> StoredMessage:
        return self._host.broker.message(topic, queue, offset)

    async def message_at(self, position: int) -> StoredMessage:
        return self._host.broker.message_at(position)

    async def message_by_offset_id(self, offset_id: str) -> StoredMessage:
        return self._host.broker.message_by_offset_id(offset_id)

    async def offset_at_time(self, topic: str, queue: int, at_ms: int) -> int:
        return self._host.broker.offset_at_time(topic, queue, at_ms)

    async def queue_bounds(self, topic: str, queue: int) -> tuple[int, int]:
        return self._host.broker.queue_bounds(topic, queue)

    async def queue_content(self, topic: str, queue: int, *, count_max: int) -> QueueContent:
        return self._host.broker.queue_content(topic, queue, count_max=count_max)

    async def topic(self, name: str) -> TopicConfig:
        return self._host.broker.topic(name)

    async def plan_topic(self, name: str) -> TopicConfig:
        return self._host.broker.plan_topic(name)

    async def group(self, name: str) -> GroupConfig:
        return self._host.broker.group(name)

    async def is_broadcast(self, group: str) -> bool:
        return self._host.broker.is_broadcast(group)

    async def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> ScheduledPage:
        return self._host.broker.scheduled(
            topic=topic, from_ms=from_ms, after=after, count_max=count_max
        )

    async def find_scheduled(self, message_id: str) -> Scheduled | None:
        return self._host.broker.find_scheduled(message_id)

    async def recall(self, message_id: str) -> TimerAnswer:
        return self._host.broker.recall(message_id)

    async def deliver_now(self, message_id: str) -> TimerAnswer:
        return self._host.broker.deliver_now(message_id)

    async def reschedule(self, message_id: str, deliver_at_ms: int) -> TimerAnswer:
        return self._host.broker.reschedule(message_id, deliver_at_ms)


class EngineTransactions:
    """`TransactionVerbs` of a started `EngineHost`."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host

    async def decide(
        self,
        transaction_id: str,
        decision: TransactionDecision,
        *,
        group: str = "",
        by: Decider = Decider.PRODUCER,
    ) -> Transaction:
        transactions = self._host.broker.transactions
        done = transactions.decide(transaction_id, decision, group=group, by=by)
        if done.flush_position:
            await self._host.flushed(done.flush_position)
        return done

    async def resume(self, transaction_id: str, *, group: str = "") -> Transaction:
        return self._host.broker.transactions.resume(transaction_id, group=group)

    async def get(self, transaction_id: str, *, group: str = "") -> Transaction:
        return self._host.broker.transactions.get(transaction_id, group=group)

    async def pending(
        self, *, group: str = "", after: str = "", count_max: int = 50
    ) -> TransactionPage:
        transactions = self._host.broker.transactions
        return transactions.pending(group=group, after=after, count_max=count_max)

    async def given_up(
        self, *, group: str = "", after: str = "", count_max: int = 50
    ) -> TransactionPage:
        transactions = self._host.broker.transactions
        return transactions.given_up(group=group, after=after, count_max=count_max)

    async def checks(self, group: str, count_max: int = 32) -> list[TransactionCheck]:
        return self._host.broker.transactions.checks(group, count_max)


class EngineLocks:
    """`LockVerbs` of a started `EngineHost`."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host

    async def lock(self, group: str, client: str, queues: Sequence[LockedQueue]) -> LockResult:
        return self._host.broker.locks.lock(group, client, queues)

    async def unlock(
        self, group: str, client: str, queues: Sequence[LockedQueue]
    ) -> list[LockedQueue]:
        return self._host.broker.locks.unlock(group, client, queues)

    async def of(self, group: str) -> list[QueueLock]:
        return self._host.broker.locks.of(group)


class EngineMembers:
    """`MemberVerbs` of a started `EngineHost`."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host

    async def heartbeat(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        version: str = "",
        language: str = "",
        address: str = "",
    ) -> Member:
        return self._host.broker.members.heartbeat(
            group, client, topics=topics, version=version, language=language, address=address
        )

    async def seen(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        address: str = "",
        version: str = "",
        language: str = "",
        creates: bool = False,
    ) -> None:
        self._host.broker.members.seen(
            group,
            client,
            topics=topics,
            address=address,
            version=version,
            language=language,
            creates=creates,
        )

    async def connect(
        self, group: str, client: str, *, topics: Mapping[str, str], address: str = ""
    ) -> MemberConnection:
        return self._host.broker.members.connect(group, client, topics=topics, address=address)

    async def leave(self, group: str, client: str) -> bool:
        return self._host.broker.members.leave(group, client)

    async def assignment(
        self,
        group: str,
        topic: str,
        client: str,
        *,
        strategy: Strategy | None = None,
        broker_name: str = "kitemq",
    ) -> Assignment:
        members = self._host.broker.members
        return members.assignment(group, topic, client, strategy=strategy, broker_name=broker_name)
