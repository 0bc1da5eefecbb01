"""The verbs of `app.messaging`, answered by the embedded engine.

Only `send`, `receive`, `pull` and a transaction's `decide` ever wait; the others return in
microseconds.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from app.capabilities import EMBEDDED
from app.host import EngineHost
from app.send_batcher import BatchSlice, ColumnsDone, Done, SendBatcher
from engine.broker import (
    Broker,
    Decider,
    Delivery,
    LongPoll,
    Members,
    PullAnswer,
    PullResult,
    QueueLocks,
    Transaction,
    TransactionDecision,
    TransactionSubsystem,
)
from engine.errors import EngineError
from engine.message import Durability, Message
from engine.message_columns import ColumnsResult, MessageColumns

E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# A pull with time left goes on after these; on any other, waiting would change nothing.
PULL_GOES_ON = frozenset({PullAnswer.NOT_FOUND, PullAnswer.RETRY_IMMEDIATELY})


class EngineVerbs(Generic[E]):
    """Verbs that the engine or a part of it answers while its host is started."""

    def __init__(self, host: EngineHost, part: Callable[[Broker], E]) -> None:
        self._host = host
        self._part = part

    @property
    def engine(self) -> E:
        """The part of the running engine."""
        return self._part(self._host.broker)


def _verb(
    method: Callable[Concatenate[E, P], T],
) -> Callable[Concatenate[EngineVerbs[E], P], Coroutine[Any, Any, T]]:
    """The verb that a method of the engine answers at once, with the same arguments."""
    name = method.__name__

    @wraps(method)
    async def verb(verbs: EngineVerbs[E], /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = getattr(verbs.engine, name)(*args, **kwargs)
        return answer

    return verb


class EngineTransactions(EngineVerbs[TransactionSubsystem]):
    """`TransactionVerbs` of a started `EngineHost`."""

    async def decide(
        self,
        transaction_id: str,
        decision: TransactionDecision,
        *,
        group: str = "",
        by: Decider = Decider.PRODUCER,
    ) -> Transaction:
        done = self.engine.decide(transaction_id, decision, group=group, by=by)
        if done.flush_position:
            await self._host.flushed(done.flush_position)
        return done

    resume = _verb(TransactionSubsystem.resume)
    get = _verb(TransactionSubsystem.get)
    pending = _verb(TransactionSubsystem.pending)
    given_up = _verb(TransactionSubsystem.given_up)
    checks = _verb(TransactionSubsystem.checks)


class EngineLocks(EngineVerbs[QueueLocks]):
    """`LockVerbs` of a started `EngineHost`."""

    lock = _verb(QueueLocks.lock)
    unlock = _verb(QueueLocks.unlock)
    of = _verb(QueueLocks.of)


class EngineMembers(EngineVerbs[Members]):
    """`MemberVerbs` of a started `EngineHost`."""

    heartbeat = _verb(Members.heartbeat)
    seen = _verb(Members.seen)
    connect = _verb(Members.connect)
    leave = _verb(Members.leave)
    assignment = _verb(Members.assignment)


class EngineMessaging(EngineVerbs[Broker]):
    """`Messaging` of a started `EngineHost`, on the loop's thread."""

    def __init__(self, host: EngineHost) -> None:
        super().__init__(host, lambda broker: broker)
        self._batcher = SendBatcher(host)
        self.capabilities = EMBEDDED
        self.transactions = EngineTransactions(host, lambda broker: broker.transactions)
        self.locks = EngineLocks(host, lambda broker: broker.locks)
        self.members = EngineMembers(host, lambda broker: broker.members)

    async def send(
        self, messages: Sequence[Message], durability: Durability | None = None
    ) -> BatchSlice:
        return await self._outcome(partial(self.submit, messages, durability))

    async def send_columns(
        self, columns: MessageColumns, durability: Durability | None = None
    ) -> BatchSlice | ColumnsResult:
        return await self._outcome(partial(self.submit_columns, columns, durability))

    def _outcome(
        self, submit: Callable[[Callable[[R | None, EngineError | None], None]], None]
    ) -> "asyncio.Future[R]":
        sent: asyncio.Future[R] = self._host.loop.create_future()

        def done(result: R | None, error: EngineError | None) -> None:
            if sent.done():
                return
            if result is not None:
                sent.set_result(result)
            else:
                sent.set_exception(error or RuntimeError("neither stored nor refused"))

        submit(done)
        return sent

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
        queue: int | None = None,
    ) -> list[Delivery]:
        """Hand out up to `count_max` messages; waits up to `wait_s` for the first of them.

        Cancelling it frees its place, and a wake it had already got goes to the next waiter.
        """
        deadline_s = self._host.loop.time() + wait_s
        while True:
            deliveries = self.engine.receive(
                group,
                topics,
                count_max=count_max,
                invisible_s=invisible_s,
                client=client,
                queue=queue,
            )
            if deliveries or wait_s <= 0:
                return deliveries
            park = partial(self.engine.wait_to_receive, group, topics, client=client, queue=queue)
            if not await self._host.wait_until(park, deadline_s):
                return []

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
            result = self.engine.pull(
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
            park = partial(self.engine.wait_to_pull, topic, queue, offset, filter)
            if not await self._host.wait_until(park, deadline_s):
                return result

    def wait_to_receive(
        self,
        group: str,
        topics: Mapping[str, str],
        wake: Callable[[], None],
        client: str = "",
        queue: int | None = None,
    ) -> LongPoll:
        return self.engine.wait_to_receive(group, topics, wake, client, queue)

    def wait_to_pull(
        self, topic: str, queue: int, offset: int, filter: str, wake: Callable[[], None]
    ) -> LongPoll:
        return self.engine.wait_to_pull(topic, queue, offset, filter, wake)

    ack = _verb(Broker.ack)
    nack = _verb(Broker.nack)
    extend = _verb(Broker.extend)
    renew = _verb(Broker.renew)
    release = _verb(Broker.release)
    held = _verb(Broker.held)
    receipt_until = _verb(Broker.receipt_until)
    check_filter = _verb(Broker.check_filter)
    commit_offset = _verb(Broker.commit_offset)
    advance_offset = _verb(Broker.advance_offset)
    committed_offset = _verb(Broker.committed_offset)
    start_offset = _verb(Broker.start_offset)
    is_young_queue = _verb(Broker.is_young_queue)
    send_back = _verb(Broker.send_back)
    message = _verb(Broker.message)
    message_at = _verb(Broker.message_at)
    message_by_offset_id = _verb(Broker.message_by_offset_id)
    offset_at_time = _verb(Broker.offset_at_time)
    queue_bounds = _verb(Broker.queue_bounds)
    queue_content = _verb(Broker.queue_content)
    topic = _verb(Broker.topic)
    plan_topic = _verb(Broker.plan_topic)
    group = _verb(Broker.group)
    is_broadcast = _verb(Broker.is_broadcast)
    scheduled = _verb(Broker.scheduled)
    find_scheduled = _verb(Broker.find_scheduled)
    recall = _verb(Broker.recall)
    deliver_now = _verb(Broker.deliver_now)
    reschedule = _verb(Broker.reschedule)
