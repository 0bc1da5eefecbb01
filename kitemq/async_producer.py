"""Sending from asyncio code: batches, tries again, and never holds more than it may."""

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from kitemq.batch_results import BatchResults
from kitemq.connection import ServerConnection
from kitemq.errors import BufferFull, Invalid, KiteError, Stopped, TimedOut, Unreachable
from kitemq.lane import FutureSink, Lane, LaneRules
from kitemq.link import CONNECT_TIMEOUT_S, ServerLink
from kitemq.message import (
    Entry,
    Message,
    MessageOptions,
    SendResult,
    entry_bytes,
    entry_of,
)
from kitemq.model.topics import Durability
from kitemq.requests import Reply, ask, check_timeout

KIB = 1024
ID_PREFIX_BYTES = 10  # 20 hex digits; with the counter's 12 an id has 32, as RocketMQ's have
ID_LIMIT = 1 << 32
COUNT_MAX = 4096
BATCH_BYTES_LIMIT = 4 * KIB * KIB
LANES_IDLE_MAX = 1024
REQUESTS_MAX = 32  # of the 64 calls that one connection may have
REQUEST_MIN_S = 0.001


class AsyncProducer:
    """Sends messages to a KiteMQ server; use it with `async with`, or `start` and `stop` it.

    Messages are gathered per topic: a batch leaves when none of its topic is on the road, or when
    `linger_ms` is over, at most `batch_count_max` messages and `batch_bytes_max` bytes, at most
    `inflight_max` batches at once. With 100 messages of one `send_batch` it leaves at once, unless
    it is to linger. A lost connection or a busy server is tried again, under the same message ids,
    until `timeout_s` after the batch was made. That is at least once: a repeated batch whose answer
    was lost is stored twice, and shows the same message ids.

    At most `buffer_bytes_max` bytes wait for their answer; then `send` and `submit` wait, and
    `submit_nowait` raises BufferFull. One event loop; not for several threads (`Producer` is).
    """

    def __init__(
        self,
        server: str = "",
        *,
        durability: Durability | str | None = None,
        linger_ms: float = 0.0,
        batch_count_max: int = 1000,
        batch_bytes_max: int = 512 * KIB,
        inflight_max: int = 4,
        buffer_bytes_max: int = 32 * KIB * KIB,
        timeout_s: float = 30.0,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        ca: str = "",
    ) -> None:
        _check(1 <= batch_count_max <= COUNT_MAX, "batch_count_max", f"1 to {COUNT_MAX}")
        _check(1 <= batch_bytes_max <= BATCH_BYTES_LIMIT, "batch_bytes_max", "1 to 4 MiB")
        _check(1 <= inflight_max <= 64, "inflight_max", "1 to 64")
        _check(linger_ms >= 0, "linger_ms", "0 or more milliseconds")
        _check(timeout_s > 0, "timeout_s", "more than 0 seconds")
        _check(buffer_bytes_max > 0, "buffer_bytes_max", "at least 1 byte")
        self._durability = Durability(durability) if durability else None
        self._rules = LaneRules(
            linger_s=linger_ms / 1000,
            batch_count_max=batch_count_max,
            batch_bytes_max=batch_bytes_max,
            inflight_max=inflight_max,
            timeout_s=timeout_s,
        )
        self._buffer_bytes_max = buffer_bytes_max
        self._lanes: dict[tuple[str, Durability | None, int], Lane] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._requests = asyncio.Semaphore(REQUESTS_MAX)
        self._next_id = 0
        self._is_open = False
        self.buffered_bytes = 0
        self.on_freed: Callable[[], None] | None = None  # the synchronous producer's
        self.id_prefix = secrets.token_hex(ID_PREFIX_BYTES).upper()
        self._link = ServerLink(
            server,
            f"producer-{self.id_prefix}",
            on_up=self._on_up,
            on_down=self._on_down,
            connect_timeout_s=connect_timeout_s,
            ca=ca,
        )

    async def start(self) -> None:
        """Connect; raises Unreachable where there is no server."""
        await self._link.start()
        self._is_open = True

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Send what waits, for at most `timeout_s`; the others fail with Stopped."""
        self._is_open = False
        try:
            with contextlib.suppress(TimedOut):
                await self.flush(timeout_s)
        finally:
            self._fail_all(Stopped("the producer was stopped before this was sent"))
            await self._link.stop()
            await asyncio.sleep(0)  # what was on the road comes back to its lane
            self._fail_all(Stopped("the producer was stopped before this was answered"))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def send(
        self,
        topic: str,
        body: bytes | str,
        *,
        queue: int = -1,
        durability: Durability | str | None = None,
        **options: Unpack[MessageOptions],
    ) -> SendResult:
        """Send one message and wait until it is accepted; `options` are those of `Message`.

        Raises Invalid, NotFound or Refused for what the server refused, Unreachable when it
        could not be reached in time, TimedOut when it may or may not have been stored.
        """
        entry = entry_of(Message(body=body, **options))
        while self.buffered_bytes >= self._buffer_bytes_max and self._is_open:
            await self._room()
        return await self._submit(topic, entry, queue, durability, is_lone=True)

    async def submit(
        self,
        topic: str,
        body: bytes | str,
        *,
        queue: int = -1,
        durability: Durability | str | None = None,
        **options: Unpack[MessageOptions],
    ) -> "asyncio.Future[SendResult]":
        """Let one message be sent with others; waits for room only. The future gets the result."""
        entry = entry_of(Message(body=body, **options))
        while self.buffered_bytes >= self._buffer_bytes_max and self._is_open:
            await self._room()
        return self._submit(topic, entry, queue, durability)

    def submit_nowait(
        self,
        topic: str,
        message: Message,
        *,
        queue: int = -1,
        durability: Durability | str | None = None,
    ) -> "asyncio.Future[SendResult]":
        """Like `submit`, but raises BufferFull instead of waiting."""
        if self.buffered_bytes >= self._buffer_bytes_max:
            raise BufferFull(
                f"{self.buffered_bytes} bytes wait for their answer",
                remedy="wait, or raise buffer_bytes_max",
            )
        return self._submit(topic, entry_of(message), queue, durability)

    async def send_batch(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        queue: int = -1,
        durability: Durability | str | None = None,
    ) -> list[SendResult]:
        """Send many messages of one topic, in order; their results once all are accepted.

        They may travel in several batches. Raises the first error; the others may be stored.
        """
        results, first = BatchResults(len(messages)), 0
        try:
            while first < len(messages):
                while self.buffered_bytes >= self._buffer_bytes_max and self._is_open:
                    await self._room()
                lane = self._lane_of(topic, queue, durability)
                entries, size_bytes = self._next_entries(messages, first)
                self.buffered_bytes += size_bytes
                lane.add(entries, size_bytes, results.sink(first, len(entries)))
                first += len(entries)
        except BaseException:
            results.future.cancel()  # nobody waits for those that are on their way
            raise
        return await results.future

    async def request(
        self, topic: str, message: Message | bytes | str, *, timeout_s: float = 10.0
    ) -> Reply:
        """Send a message and wait up to `timeout_s` (30) for the reply of some consumer to it.

        At most 32 requests of a producer wait at once; more wait for their turn, and raise
        BufferFull, unsent, where that takes all the time. Raises NoReply where no reply came in
        time or the connection was lost: its `correlation_id` finds a late one.
        """
        check_timeout(timeout_s)
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._requests.acquire()
        except TimeoutError:
            raise BufferFull(
                f"{REQUESTS_MAX} requests of this producer wait for their replies",
                remedy="wait for some of them, or use more producers",
            ) from None
        try:
            connection = self._link.connection
            if connection is None or not connection.is_open:
                raise Unreachable("no connection to the server: nothing was asked")
            remaining_s = deadline_s - asyncio.get_running_loop().time()
            return await ask(connection, topic, message, max(remaining_s, REQUEST_MIN_S))
        finally:
            self._requests.release()

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything submitted before is answered; raises TimedOut."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.buffered_bytes:
                    await self._room()
        except TimeoutError:
            raise TimedOut(
                f"{self.buffered_bytes} bytes of messages are still waiting for their answer"
            ) from None

    # -- what lanes and the synchronous producer use --------------------------------------------

    @property
    def connection(self) -> ServerConnection | None:
        return self._link.connection

    def take_ids(self, count: int) -> int:
        """The first of `count` numbers, all of which share what is above their 32 bits."""
        if self._next_id % ID_LIMIT + count > ID_LIMIT:
            self._next_id += ID_LIMIT - self._next_id % ID_LIMIT
        first = self._next_id
        self._next_id += count
        return first

    def freed(self, size_bytes: int) -> None:
        """So many bytes are answered: let those who wait for room look again."""
        self.buffered_bytes -= size_bytes
        if self.on_freed is not None:
            self.on_freed()
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def enqueue(
        self,
        topic: str,
        entry: Entry,
        queue: int,
        durability: Durability | str | None,
        sink: Any,
        *,
        is_lone: bool = False,
    ) -> None:
        """Give one message to its lane; `sink` is a future of asyncio or of threads."""
        lane = self._lane_of(topic, queue, durability)
        size_bytes = entry_bytes(entry)
        self.buffered_bytes += size_bytes
        lane.add((entry,), size_bytes, FutureSink(sink), is_lone=is_lone)

    # -- helpers --------------------------------------------------------------------------------

    def _next_entries(self, messages: Sequence[Message], first: int) -> tuple[list[Entry], int]:
        """The messages from `first` on that make a batch and have room, and their bytes."""
        rules, size_bytes = self._rules, 0
        entries: list[Entry] = []
        bytes_max = min(rules.batch_bytes_max, self._buffer_bytes_max - self.buffered_bytes)
        for message in messages[first : first + rules.batch_count_max]:
            entry = entry_of(message)
            more_bytes = entry_bytes(entry)
            if entries and size_bytes + more_bytes > bytes_max:
                break
            entries.append(entry)
            size_bytes += more_bytes
        return entries, size_bytes

    def _submit(
        self,
        topic: str,
        entry: Entry,
        queue: int,
        durability: Durability | str | None,
        *,
        is_lone: bool = False,
    ) -> "asyncio.Future[SendResult]":
        sink: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        self.enqueue(topic, entry, queue, durability, sink, is_lone=is_lone)
        return sink

    def _lane_of(self, topic: str, queue: int, durability: Durability | str | None) -> Lane:
        """Where such messages go; raises Stopped."""
        if not self._is_open:
            raise Stopped("the producer is not started, or it is stopped")
        level = Durability(durability) if durability else self._durability
        lane = self._lanes.get((topic, level, queue))
        if lane is None:
            if len(self._lanes) >= LANES_IDLE_MAX:
                self._lanes = {key: lane for key, lane in self._lanes.items() if not lane.is_idle}
            lane = Lane(self, self._rules, topic, level, queue)
            self._lanes[topic, level, queue] = lane
        return lane

    async def _room(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _on_up(self, _connection: ServerConnection) -> None:
        for lane in tuple(self._lanes.values()):
            lane.go_on()

    def _on_down(self) -> None:
        """Nothing to do: what was on the road comes back to its lane by itself."""

    def _fail_all(self, error: KiteError) -> None:
        self._is_open = False
        for lane in tuple(self._lanes.values()):
            lane.fail_all(error)
        self.freed(0)


def _check(is_right: bool, field: str, expected: str) -> None:
    if not is_right:
        raise Invalid(f"{field} is out of its range", field=field, remedy=f"give {expected}")
