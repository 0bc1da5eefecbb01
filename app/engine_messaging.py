"""The verbs of `app.messaging`, answered by the embedded engine.

Only `send`, `receive`, `pull` and a transaction's `decide` ever wait; the others return in
microseconds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from app.capabilities import EMBEDDED
from app.errors import ReplyTimeout
from app.host import EngineHost
from app.messaging import (
    Answered,
    LockVerbs,
    MemberVerbs,
    Messaging,
    RequestVerbs,
    TransactionVerbs,
)
from app.send_batcher import BatchSlice, ColumnsDone, Done, LoneSends, SendBatcher
from app.tasks import settle
from engine.broker import (
    Asker,
    Broker,
    Callback,
    CallbackTable,
    Decider,
    Delivery,
    Members,
    PendingRequest,
    PullAnswer,
    PullResult,
    QueueLocks,
    RequestCounts,
    RequestReply,
    Transaction,
    TransactionDecision,
    TransactionSubsystem,
)
from engine.errors import EngineError, Stopping
from engine.message import Durability, Message
from engine.message_columns import ColumnsResult, MessageColumns

R = TypeVar("R")

GRACE_S = 1.0  # the engine says itself when the time is over; this is for one that does not tick

# A pull with time left goes on after these; on any other, waiting would change nothing.
PULL_GOES_ON = frozenset({PullAnswer.NOT_FOUND, PullAnswer.RETRY_IMMEDIATELY})


class HostVerbs:
    """Verbs that a part of the engine answers while its host is started."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host


class EngineTransactions(HostVerbs, TransactionVerbs):
    """`TransactionVerbs` of a started `EngineHost`."""

    @property
    def _engine(self) -> TransactionSubsystem:
        return self._host.broker.transactions

    @property
    def askers(self) -> list[Asker]:
        return self._engine.askers

    @property
    def callbacks(self) -> CallbackTable:
        return self._engine.callbacks

    async def set_callback(self, callback: Callback) -> Callback:
        return self._engine.callbacks.set(callback)

    async def delete_callback(self, group: str) -> None:
        self._engine.callbacks.delete(group)

    async def decide(
        self,
        transaction_id: str,
        decision: TransactionDecision,
        *,
        group: str = "",
        by: Decider = Decider.PRODUCER,
    ) -> Transaction:
        done = self._engine.decide(transaction_id, decision, group=group, by=by)
        if done.flush_position:
            level = self._host.broker.durability_of(done.topic)
            await self._host.accepted(done.flush_position, level)
        return done


class EngineLocks(HostVerbs, LockVerbs):
    """`LockVerbs` of a started `EngineHost`."""

    @property
    def _engine(self) -> QueueLocks:
        return self._host.broker.locks


class EngineMembers(HostVerbs, MemberVerbs):
    """`MemberVerbs` of a started `EngineHost`."""

    @property
    def _engine(self) -> Members:
        return self._host.broker.members


class EngineRequests(HostVerbs, RequestVerbs):
    """`RequestVerbs` of a started `EngineHost`."""

    @property
    def _engine(self) -> RequestReply:
        return self._host.broker.requests

    @property
    def counts(self) -> RequestCounts:
        return self._engine.counts

    async def ask(
        self, message: Message, *, timeout_ms: int, client: str, correlation_id: str = ""
    ) -> Answered:
        begun: list[PendingRequest] = []

        def begin(wake: Callable[[], None]) -> PendingRequest:
            request = self._engine.request(
                message,
                timeout_ms=timeout_ms,
                client=client,
                on_end=wake,
                correlation_id=correlation_id,
            )
            begun.append(request)
            return request

        is_over = await self._host.wait(begin, timeout_ms / 1000 + GRACE_S)
        request = begun[0] if begun else None
        if request is not None and request.reply is not None:
            return Answered(request.correlation_id, request.message_id, request.reply)
        if request is None or not (is_over or self._host.is_ready):
            raise Stopping("the server is stopping", retry_after_s=5.0)
        raise ReplyTimeout(request.correlation_id, timeout_ms)


class EngineMessaging(HostVerbs, Messaging):
    """`Messaging` of a started `EngineHost`, on the loop's thread."""

    def __init__(self, host: EngineHost) -> None:
        super().__init__(host)
        self._batcher = SendBatcher(host)
        self.capabilities = EMBEDDED
        self.transactions = EngineTransactions(host)
        self.locks = EngineLocks(host)
        self.members = EngineMembers(host)
        self.requests = EngineRequests(host)

    @property
    def _engine(self) -> Broker:
        return self._host.broker

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
        submit(partial(settle, sent))
        return sent

    def submit(
        self, messages: Sequence[Message], durability: Durability | None, done: Done
    ) -> None:
        self._batcher.add(messages, durability, done)

    def submit_columns(
        self,
        columns: MessageColumns,
        durability: Durability | None,
        done: ColumnsDone,
        split: Callable[[], None] | None = None,
    ) -> None:
        self._batcher.add_columns(columns, durability, done, split)

    def lone_sender(
        self, columns: MessageColumns, durability: Durability | None
    ) -> LoneSends | None:
        sender = self._engine.lone_sender(columns, durability)
        return None if sender is None else LoneSends(self._batcher, sender)

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
        deadline_s = self._host.loop.time() + wait_s
        while True:
            deliveries = self._engine.receive(
                group,
                topics,
                count_max=count_max,
                invisible_s=invisible_s,
                client=client,
                queue=queue,
            )
            if deliveries or wait_s <= 0:
                return deliveries
            park = partial(self._engine.wait_to_receive, group, topics, client=client, queue=queue)
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
        deadline_s = self._host.loop.time() + wait_s
        while True:
            result = self._engine.pull(
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
            park = partial(self._engine.wait_to_pull, topic, queue, offset, filter)
            if not await self._host.wait_until(park, deadline_s):
                return result
