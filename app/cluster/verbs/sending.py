"""Sends to a cluster: what goes to one queue goes together, and is stored all or none.

Messages without queue and message group go to one queue of a broker that takes them. What has a
delay, a transaction or a compressed body goes alone, as RocketMQ's batches hold none of these.
Where a part fails the caller gets the error, which says how many were stored before.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

import msgspec

from app import eager
from app.capabilities import not_supported, require
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.messages import BODY_BYTES_MAX, DELAY, NewClusterMessage
from app.cluster.numbering import QueueNumbers
from app.cluster.routes import ClusterQueue
from app.cluster.sending import BATCH_MAX, ClusterSent
from app.cluster.verbs.part import ClusterPart
from app.cluster.verbs.transactions import ClusterTransactions
from app.send_batcher import BatchSlice, ColumnsDone, Done
from engine.broker import TopicConfig, check_transaction_topic, tag_hash
from engine.errors import Busy, EngineError, Forbidden, Invalid, Refused
from engine.message import (
    BATCH_BYTES_MAX,
    BATCH_COUNT_MAX,
    CHECK_IMMUNITY,
    PGROUP,
    SHARDING_KEY,
    TRAN_MSG,
    Durability,
    Message,
)
from engine.message_checks import check_message
from engine.message_columns import ColumnsResult, MessageColumns
from protocol.remoting.codes import SysFlag

R = TypeVar("R")
SENDS_MAX = 4096  # that are under way at once
MESSAGE_EXTRA_BYTES = 22  # of a message in a batch, besides its body and properties
LEVELS = list(Durability)
POSITION_DIGITS = 16
INT_MIN = -(1 << 31)  # whose absolute value Java's hash selector takes for 0
OrderKey = tuple[str, int, str]  # topic, queue, message group
NO_QUEUE = ClusterQueue("", "", -1)


class QueueBatch(NamedTuple):
    """Messages that go together, by their places in the send."""

    place: ClusterQueue  # NO_QUEUE: any
    places: list[int]
    messages: list[NewClusterMessage]
    is_batch: bool


class ClusterSendVerbs(ClusterPart):
    """Sends, with and without a task; at most 4,096 at once."""

    def __init__(self, catalog: ClusterCatalog, transactions: ClusterTransactions) -> None:
        self._catalog = catalog
        self._begun = transactions
        self._under_way = 0
        self._orders: WeakValueDictionary[tuple[str, int, str], asyncio.Lock] = (
            WeakValueDictionary()
        )

    async def send(
        self, messages: Sequence[Message], durability: Durability | None = None
    ) -> BatchSlice:
        """As `Messaging.send`; all or none where all go to one queue by one request."""
        return await self.send_own(messages, {}, durability)

    async def send_own(
        self,
        messages: Sequence[Message],
        own: Mapping[str, str],
        durability: Durability | None = None,
    ) -> BatchSlice:
        """The same with properties of the system (`own`) on each, which no producer may set."""
        if self._under_way >= SENDS_MAX:
            raise Busy(f"{SENDS_MAX} sends are under way", remedy="send again after the wait")
        self._under_way += 1
        try:
            async with AsyncExitStack() as stack:
                for order in self._orders_of(messages):
                    await stack.enter_async_context(order)
                return await self._send(messages, durability, own)
        finally:
            self._under_way -= 1

    async def send_columns(
        self, columns: MessageColumns, durability: Durability | None = None
    ) -> BatchSlice | ColumnsResult:
        """The same for messages that came as columns."""
        return await self.send(columns.messages(), durability)

    def submit(
        self, messages: Sequence[Message], durability: Durability | None, done: Done
    ) -> None:
        """The same without a task of the caller's."""
        eager.run(_later(partial(self.send, messages, durability)), done)

    def submit_columns(
        self,
        columns: MessageColumns,
        durability: Durability | None,
        done: ColumnsDone,
        split: Callable[[], None] | None = None,
    ) -> None:
        """The same for messages that came as columns; `split` is called where they are refused."""

        def ended(result: BatchSlice | ColumnsResult | None, error: EngineError | None) -> None:
            if split is not None and isinstance(error, Invalid):
                split()
            else:
                done(result, error)

        eager.run(_later(partial(self.send_columns, columns, durability)), ended)

    def lone_sender(self, columns: MessageColumns, durability: Durability | None) -> None:
        """None: a message that comes alone goes the way of the others."""

    async def check_message(self, message: Message) -> None:
        """Raise what a send of the message would be refused with, before anything is stored."""
        self._check_one(message, await self._catalog.topic(message.topic))

    # -- inside ----------------------------------------------------------------------------------

    def _orders_of(self, messages: Sequence[Message]) -> list[asyncio.Lock]:
        """What keeps the order of sends to one queue, or of one message group."""
        orders = {
            (each.topic, each.queue, each.message_group)
            for each in messages
            if each.queue >= 0 or each.message_group
        }
        return [self._orders.setdefault(each, asyncio.Lock()) for each in sorted(orders)]

    async def _send(
        self,
        messages: Sequence[Message],
        durability: Durability | None,
        own: Mapping[str, str],
    ) -> BatchSlice:
        _check_batch(messages)
        topic = await self._catalog.plan_topic(messages[0].topic)
        self._check_messages(messages, topic)
        messages = [_with(own, each) for each in messages]
        if topic.is_automatic:
            topic = await self._catalog.ensure_topic(topic.name)
        route = await self._catalog.route(topic.name)
        brokers = sorted({each.broker for each in route.writable(topic.name)})
        level = await self._catalog.durability(brokers)
        if durability and LEVELS.index(durability) > LEVELS.index(level):
            raise not_supported(
                f"promises {level} for {topic.name!r}, not {durability}",
                field="durability",
                remedy="set flushDiskType and brokerRole of its brokers, or ask for less",
            )
        ids = [each.message_id or uuid4().hex.upper() for each in messages]
        sent: list[tuple[ClusterSent, int]] = [_NOTHING] * len(messages)
        count = 0
        place = NO_QUEUE  # of all that may go anywhere: they stay together
        for group in {each.transaction_group for each in messages if each.transaction_group}:
            await self._begun.answer_for(group)
        numbers = self._catalog.write_numbers(topic.name, route)
        for run in self._runs(messages, ids, numbers):
            target = place if run.place == NO_QUEUE else run.place
            try:
                done = await self._send_run(topic.name, run, target)
            except EngineError as error:
                first = run.places[0]
                if isinstance(error, Invalid) and messages[first].deliver_at_ms:  # it went alone
                    error.field = f"messages[{first}].deliver_at_ms"
                if count:
                    error.detail += f"; {count} of {len(messages)} messages were stored before"
                raise
            if run.place == NO_QUEUE:
                place = done.queue
            for step, index in enumerate(run.places):
                sent[index] = done, step
            count += len(run.places)
        return self._slice(messages, ids, sent, level)

    async def _send_run(self, topic: str, run: QueueBatch, target: ClusterQueue) -> ClusterSent:
        queue = None if target == NO_QUEUE else target
        with engine_errors("messages" if run.is_batch else ""):
            if run.is_batch:
                return await self._client.sends.send_batch(topic, run.messages, queue=queue)
            return await self._client.sends.send(topic, run.messages[0], queue=queue)

    def _check_messages(self, messages: Sequence[Message], topic: TopicConfig) -> None:
        """Raise Invalid (`messages[3].tag`) or Refused for the first message that cannot be."""
        if not topic.is_writable:
            raise Forbidden(
                f"topic {topic.name!r} is not open for writing",
                field="topic",
                remedy="give it write permission",
            )
        for index, message in enumerate(messages):
            try:
                self._check_one(message, topic)
            except (Invalid, Refused) as error:
                error.field = f"messages[{index}].{error.field}"
                raise

    def _check_one(self, message: Message, topic: TopicConfig) -> None:
        if message.deliver_at_ms and not message.delay_level:
            require(self._catalog.capabilities, "exact_timers", field="deliver_at_ms")
        if message.topic != topic.name:
            raise Invalid(
                f"{message.topic!r} is not the topic of the first",
                field="topic",
                remedy="send to one topic at a time",
            )
        check_message(message, topic)
        if message.transaction_group:
            _check_transaction(message)
            check_transaction_topic(topic.name, topic)

    def _runs(
        self, messages: Sequence[Message], ids: Sequence[str], numbers: Sequence[int]
    ) -> Iterator[QueueBatch]:
        """The messages by queue, in their order, as large as one request may be."""
        open_runs: dict[ClusterQueue, tuple[QueueBatch, int]] = {}
        for index, (message, message_id) in enumerate(zip(messages, ids, strict=True)):
            place = place_of(message, self._numbers, numbers)
            new = new_message(message, message_id)
            run, size_bytes = open_runs.get(place, (None, 0))
            is_single = not _is_plain(message)
            own_bytes = len(new.body) + len(new.property_text().encode()) + MESSAGE_EXTRA_BYTES
            size_bytes += own_bytes
            is_full = size_bytes > BODY_BYTES_MAX or (run and len(run.places) == BATCH_MAX)
            if run and (is_single or is_full):
                yield _closed(run)
                del open_runs[place]
                run = None
            if is_single:
                yield QueueBatch(place, [index], [new], is_batch=False)
                continue
            if run is None:
                run, size_bytes = QueueBatch(place, [], [], is_batch=True), own_bytes
            run.places.append(index)
            run.messages.append(new)
            open_runs[place] = run, size_bytes
        for run, _ in open_runs.values():
            yield _closed(run)

    def _slice(
        self,
        messages: Sequence[Message],
        ids: Sequence[str],
        sent: Sequence[tuple[ClusterSent, int]],
        level: Durability,
    ) -> BatchSlice:
        now_ms = self._catalog.now_ms()
        stored = [
            msgspec.structs.replace(
                message,
                message_id=message_id,
                queue=self._numbers.number(done.queue),
                born_ms=message.born_ms or now_ms,
            )
            for message, message_id, (done, _) in zip(messages, ids, sent, strict=True)
        ]
        offset_ids = [done.offset_ids[min(step, len(done.offset_ids) - 1)] for done, step in sent]
        positions = [int(each[-POSITION_DIGITS:], 16) for each in offset_ids]
        offsets = [done.offset + step for done, step in sent]
        for message, (done, _), position in zip(stored, sent, positions, strict=True):
            if message.transaction_group:
                self._begun.begin(message, done, position)
        is_safe = all(done.is_safe for done, _ in sent)
        if not is_safe and level is not Durability.STORED:
            raise Busy(
                f"the messages are stored, but not {level} in time",
                remedy="look at the brokers; sending again may store them twice",
            )
        return BatchSlice(stored, offsets, positions, level, offset_ids)


def place_of(message: Message, numbers: QueueNumbers, writable: Sequence[int]) -> ClusterQueue:
    """The queue that a message names, or its message group's; NO_QUEUE where any will do."""
    if message.queue >= 0:
        return numbers.place(message.topic, message.queue)
    if message.message_group and writable:
        code = tag_hash(message.message_group)
        index = (0 if code == INT_MIN else abs(code)) % len(writable)
        return numbers.place(message.topic, writable[index])
    return NO_QUEUE


_NOTHING = (ClusterSent(NO_QUEUE, -1, (), True), 0)


def _with(own: Mapping[str, str], message: Message) -> Message:
    """The message with properties of the system."""
    if not own:
        return message
    return msgspec.structs.replace(message, properties={**message.properties, **own})


def new_message(message: Message, message_id: str) -> NewClusterMessage:
    """A producer's message as a broker takes it."""
    properties = dict(message.properties)
    sys_flag = message.sys_flag
    if message.message_group:
        properties[SHARDING_KEY] = message.message_group
    if message.transaction_group:
        properties |= {TRAN_MSG: "true", PGROUP: message.transaction_group}
        sys_flag |= SysFlag.TRANSACTION_PREPARED
        if message.check_immunity_s:
            properties[CHECK_IMMUNITY] = str(message.check_immunity_s)
    return NewClusterMessage(
        message.body,
        message.tag,
        message.keys,
        properties,
        message_id,
        delay_level=message.delay_level,
        deliver_at_ms=0 if message.delay_level else message.deliver_at_ms,
        born_ms=message.born_ms,
        reconsume_times=message.attempt - 1,
        flag=message.flag,
        sys_flag=sys_flag,
        producer_group=message.transaction_group,
    )


async def _later(send: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """The work in a later turn: like the embedded engine's, its end comes after the submit's."""
    await asyncio.sleep(0)
    return await send()


def _closed(run: QueueBatch) -> QueueBatch:
    return run._replace(is_batch=len(run.messages) > 1)


def _is_plain(message: Message) -> bool:
    """Whether it may be one of a batch."""
    return not (
        message.delay_level
        or message.deliver_at_ms
        or message.transaction_group
        or message.sys_flag
        or DELAY in message.properties
    )


def _check_transaction(message: Message) -> None:
    if message.delay_level or message.deliver_at_ms:
        field = "delay_level" if message.delay_level else "deliver_at_ms"
        raise Invalid(
            "a transaction's message cannot be delayed", field=field, remedy="leave the delay out"
        )


def _check_batch(messages: Sequence[Message]) -> None:
    if not 0 < len(messages) <= BATCH_COUNT_MAX:
        raise Invalid(
            f"{len(messages)} messages in one call, it must be 1 to {BATCH_COUNT_MAX}",
            field="messages",
            remedy="send at least one" if not messages else "split the batch",
            code="invalid_size",
        )
    size = sum(len(message.body) for message in messages)
    if size > BATCH_BYTES_MAX:
        raise Invalid(
            f"the bodies have {size} bytes together, {BATCH_BYTES_MAX} is the most",
            field="messages",
            remedy="split the batch",
            code="invalid_size",
        )
