"""Replies on their way: sent over the consumer's connection, repeated until confirmed.

A reply that is repeated after a lost connection is not stored twice: the server knows the request.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import StrEnum

from kitemq.backoff import Backoff
from kitemq.errors import BufferFull, Busy, KiteError, TimedOut, Unreachable
from kitemq.link import ServerLink
from kitemq.model.requests import NewReply

log = logging.getLogger("kitemq")

WAITING_MAX = 10_000
UNDER_WAY_MAX = 32  # of the 64 calls that one connection may have
TRY_FOR_S = 30.0


class ReplyResult(StrEnum):
    """The result of a reply: LATE means that the requester no longer waits; the reply is stored."""

    DELIVERED = "delivered"
    LATE = "late"
    ALREADY = "already"  # the request was answered before


OnReplied = Callable[[ReplyResult | KiteError], None]


class Replies:
    """The replies of one consumer; `post` may be called from any thread."""

    def __init__(self, link: ServerLink, schedule: Callable[[Callable[[], None]], object]) -> None:
        """`schedule` runs something on the loop's thread soon."""
        self._link = link
        self._schedule = schedule
        self._inbox: deque[tuple[NewReply, OnReplied | None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(UNDER_WAY_MAX)

    @property
    def is_idle(self) -> bool:
        """Whether every reply has had its answer, or was given up."""
        return not self._inbox and not self._tasks

    def post(self, reply: NewReply, on_replied: OnReplied | None) -> None:
        """Let a reply be sent; BufferFull while 10,000 wait."""
        if len(self._inbox) + len(self._tasks) >= WAITING_MAX:
            raise BufferFull(f"{WAITING_MAX} replies wait for their answer", remedy="wait")
        self._inbox.append((reply, on_replied))
        self._schedule(self.drain)

    def drain(self) -> None:
        """Send what was posted; on the loop's thread."""
        while self._inbox:
            task = asyncio.ensure_future(self._send(*self._inbox.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what has no answer yet."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, reply: NewReply, on_replied: OnReplied | None) -> None:
        outcome: ReplyResult | KiteError
        try:
            async with self._slots, asyncio.timeout(TRY_FOR_S):
                outcome = await self._try(reply)
        except TimeoutError:
            outcome = TimedOut(f"no answer to a reply within {TRY_FOR_S:g} s")
        except KiteError as error:
            outcome = error
        if isinstance(outcome, KiteError):
            log.error("a reply was not taken: %s", outcome)
        if on_replied is not None:
            on_replied(outcome)

    async def _try(self, reply: NewReply) -> ReplyResult:
        """Send it until there is an answer."""
        backoff = Backoff()
        while True:
            connection = self._link.connection
            wait_s = backoff.next_s()
            try:
                if connection is not None and connection.is_open:
                    answer = await connection.call("POST", "/replies", reply)
                    return ReplyResult(answer["result"])
            except Unreachable:
                pass
            except Busy as busy:
                wait_s = max(wait_s, busy.retry_after_s)
            await asyncio.sleep(wait_s)
