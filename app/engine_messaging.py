"""The verbs of `app.messaging`, answered by the embedded engine.

Only `send`, `receive` and `pull` ever wait; the others return in microseconds.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from app.host import EngineHost
from app.send_batcher import BatchSlice, Done, SendBatcher
from engine.broker import (
    AckResult,
    Delivery,
    ExtendResult,
    Nack,
    PullAnswer,
    PullResult,
    QueueContent,
    Receipt,
    Scheduled,
    ScheduledPage,
    TimerAnswer,
)
from engine.errors import EngineError
from engine.message import Durability, Message, StoredMessage

# A pull with time left goes on after these; on any other, waiting would change nothing.
PULL_GOES_ON = frozenset({PullAnswer.NOT_FOUND, PullAnswer.RETRY_IMMEDIATELY})


class EngineMessaging:
    """`Messaging` of a started `EngineHost`, on the loop's thread."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._batcher = SendBatcher(host)

    async def send(
        self, messages: Sequence[Message], durability: Durability | None = None
    ) -> BatchSlice:
        sent: asyncio.Future[BatchSlice] = asyncio.get_running_loop().create_future()

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
        deadline_s = asyncio.get_running_loop().time() + wait_s
        while True:
            deliveries = self._host.broker.receive(
                group, topics, count_max=count_max, invisible_s=invisible_s, client=client
            )
            if deliveries or wait_s <= 0:
                return deliveries
            park = partial(self._host.broker.wait_to_receive, group, topics, client=client)
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
        deadline_s = asyncio.get_running_loop().time() + wait_s
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
