"""Sending from ordinary threads: the asynchronous producer on a background loop."""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, Unpack

from kitemq.async_producer import AsyncProducer
from kitemq.background import Background
from kitemq.errors import KiteError, Stopped
from kitemq.message import (
    Entry,
    Message,
    MessageOptions,
    SendResult,
    entry_bytes,
    entry_of,
)
from kitemq.model.topics import Durability
from kitemq.requests import Reply

Row = tuple[str, Entry, int, Durability | str | None, "Future[SendResult]"]

ROOM_CHECK_S = 0.5


class Producer:
    """Sends messages to a KiteMQ server; use it with `with`, or `start` and `stop` it.

    The settings are those of `AsyncProducer`, and so are the promises and errors. Safe for many
    threads: what they submit at the same time travels together.
    """

    def __init__(
        self, server: str = "", *, buffer_bytes_max: int = 32 * 1024 * 1024, **settings: Any
    ) -> None:
        self._background = Background("kitemq-producer")
        self._buffer_bytes_max = buffer_bytes_max
        self._inbox: deque[Row] = deque()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._is_stopped = False
        try:
            self._core: AsyncProducer = self._background.call(
                _make(server, buffer_bytes_max=2 * buffer_bytes_max, **settings)
            )
        except BaseException:
            self._background.close()
            raise
        self._core.on_freed = self._freed

    def start(self) -> None:
        """Connect; raises Unreachable where there is no server."""
        try:
            self._background.call(self._core.start())
        except BaseException:
            self._background.close()
            raise

    def stop(self, timeout_s: float = 10.0) -> None:
        """Send what waits, for at most `timeout_s`; the others fail with Stopped."""
        with self._lock:
            self._is_stopped = True
            self._room.notify_all()
        if self._background.is_alive:
            try:
                self._background.call(self._stop(timeout_s))
            finally:
                self._background.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def send(
        self,
        topic: str,
        body: bytes | str,
        *,
        queue: int = -1,
        durability: Durability | str | None = None,
        **options: Unpack[MessageOptions],
    ) -> SendResult:
        """Send one message and wait until it is accepted. Errors: as `AsyncProducer.send`."""
        return self.submit(topic, body, queue=queue, durability=durability, **options).result()

    def submit(
        self,
        topic: str,
        body: bytes | str,
        *,
        queue: int = -1,
        durability: Durability | str | None = None,
        **options: Unpack[MessageOptions],
    ) -> "Future[SendResult]":
        """Let one message be sent with others; blocks only while the buffer is full."""
        entry = entry_of(Message(body=body, **options))
        return self._submit(topic, entry, queue, durability)

    def send_batch(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        queue: int = -1,
        durability: Durability | str | None = None,
    ) -> list[SendResult]:
        """Send many messages of one topic, in order; their results once all are accepted."""
        core = self._core
        return self._background.call(
            core.send_batch(topic, messages, queue=queue, durability=durability)
        )

    def request(
        self, topic: str, message: Message | bytes | str, *, timeout_s: float = 10.0
    ) -> Reply:
        """Send a message and wait up to `timeout_s` (30) for the reply of some consumer to it.

        As `AsyncProducer.request`; raises NoReply, whose `correlation_id` finds a late reply.
        """
        return self._background.call(self._core.request(topic, message, timeout_s=timeout_s))

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything submitted before is answered; raises TimedOut."""
        self._background.call(self._flush(timeout_s))

    # -- from any thread to the loop's ----------------------------------------------------------

    def _submit(
        self, topic: str, entry: Entry, queue: int, durability: Durability | str | None
    ) -> "Future[SendResult]":
        sink: Future[SendResult] = Future()
        size_bytes = entry_bytes(entry)
        with self._lock:
            while (
                self._waiting_bytes + self._core.buffered_bytes >= self._buffer_bytes_max
                and not self._is_stopped
            ):
                self._room.wait(ROOM_CHECK_S)
            if self._is_stopped:
                raise Stopped("the producer is stopped")
            self._inbox.append((topic, entry, queue, durability, sink))
            self._waiting_bytes += size_bytes
            is_first = not self._is_scheduled
            self._is_scheduled = True
        if is_first:
            self._background.loop.call_soon_threadsafe(self._drain)
        return sink

    def _drain(self) -> None:
        """Hand what threads left to the lanes; on the loop's thread."""
        with self._lock:
            rows, self._inbox = self._inbox, deque()
            self._waiting_bytes = 0
            self._is_scheduled = False
        for topic, entry, queue, durability, sink in rows:
            try:
                self._core.enqueue(topic, entry, queue, durability, sink)
            except (KiteError, ValueError) as error:
                sink.set_exception(error)

    def _freed(self) -> None:
        with self._lock:
            self._room.notify_all()

    async def _flush(self, timeout_s: float | None) -> None:
        self._drain()
        await self._core.flush(timeout_s)

    async def _stop(self, timeout_s: float) -> None:
        self._drain()
        await self._core.stop(timeout_s)


async def _make(server: str, **settings: Any) -> AsyncProducer:
    return AsyncProducer(server, **settings)
