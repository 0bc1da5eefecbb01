"""Receiving in asyncio code: by iteration, or with a handler."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from kitemq.background import together
from kitemq.consumer_core import ConsumerCore
from kitemq.consumer_rules import consumer_rules
from kitemq.errors import Invalid, KiteError, TimedOut
from kitemq.received import Received

log = logging.getLogger("kitemq")

TURN_COUNT = 32

Handler = Callable[[Received], Awaitable[None]]


class _LoopShelf:
    """Queue of delivered messages and their waiters, on one event loop."""

    def __init__(self) -> None:
        self._messages: deque[Received] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.is_ended = False
        self.error: KiteError | None = None

    def put(self, messages: list[Received]) -> None:
        self._messages.extend(messages)
        for _ in messages:
            if not self._wake_one():
                return

    def clear(self) -> list[Received]:
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def end(self, error: KiteError | None) -> None:
        self.is_ended = True
        self.error = error
        while self._wake_one():
            pass

    def pop(self) -> Received | None:
        """The next message if it is here."""
        return self._messages.popleft() if self._messages else None

    async def take(self) -> Received | None:
        """The next message; None at the end. A cancelled wait takes nothing."""
        while not self._messages:
            if self.is_ended:
                if self.error is not None:
                    raise self.error
                return None
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()  # we were woken and go away: the next one's turn
                raise
        return self._messages.popleft()

    def _wake_one(self) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False


class AsyncConsumer:
    """Receives the messages of a consumer group; use it with `async with`, or `start` and `stop`.

    `topics` is one name, or names with their tag expressions (`{"orders": "paid || sent"}`). At
    most `prefetch` messages are held here at once, handled or waiting. Each is invisible to others
    for `invisible_s` (0.01 s to 12 h), which is extended by itself for up to `extend_max_s` from
    its delivery; then, or when this process dies, it comes again with its attempt counted.

    A lost connection is made again, and messages in progress stay held. `client` names this
    consumer to the server and must be its own; a new name is made where none is given.
    """

    def __init__(
        self,
        group: str,
        topics: str | Mapping[str, str],
        server: str = "",
        *,
        prefetch: int = 256,
        invisible_s: float = 60.0,
        extend_max_s: float = 3600.0,
        client: str = "",
        ca: str = "",
    ) -> None:
        rules = consumer_rules(
            group, topics, prefetch=prefetch, invisible_s=invisible_s, extend_max_s=extend_max_s
        )
        self._shelf = _LoopShelf()
        self._core = ConsumerCore(
            server,
            rules,
            self._shelf,
            client=client,
            ca=ca,
            schedule=lambda work: asyncio.get_running_loop().call_soon(work),
        )

    async def start(self) -> None:
        """Connect and subscribe; raises Unreachable, or what is wrong with group or topics."""
        await self._core.start()

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Take no more, let handlers finish for `timeout_s`, put back the rest, and leave."""
        await self._core.stop(timeout_s)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop(timeout_s=0.0 if kind else 10.0)

    async def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next message; None once stopped. Raises TimedOut when none came in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    message = await self._shelf.take()
                    if message is None or self._core.is_held(message):
                        return message
        except TimeoutError:
            raise TimedOut(f"no message within {timeout_s:g} s") from None

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Messages until the consumer is stopped; settle each."""
        taken = 0
        while True:
            message = self._shelf.pop()
            if message is None:
                message = await self.receive()
                if message is None:
                    return
            elif not self._core.is_held(message):
                continue
            yield message
            taken += 1
            if taken % TURN_COUNT == 0:  # a handler that never waits must not stop the loop
                await asyncio.sleep(0)

    async def run(self, handler: Handler, *, concurrency: int = 16) -> None:
        """Call `handler` for each message until stopped, `concurrency` at a time.

        A message is acknowledged when its handler returns, and fails (to come again) with the
        error's text when it raises; a handler may settle it itself.
        """
        if concurrency < 1:
            raise Invalid(
                f"concurrency is {concurrency}", field="concurrency", remedy="give 1 or more"
            )
        await together([asyncio.create_task(self._work(handler)) for _ in range(concurrency)])

    async def _work(self, handler: Handler) -> None:
        while (message := await self.receive()) is not None:
            try:
                await handler(message)
            except asyncio.CancelledError:
                message.release()
                raise
            except Exception as error:
                log.exception("the handler failed for %s", message.message_id)
                message.nack(f"{type(error).__name__}: {error}")
            else:
                message.ack()
