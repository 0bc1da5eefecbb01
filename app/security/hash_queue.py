"""Queues password hashes: few run at once, few wait, and trusted ones go first.

A hash takes tens of milliseconds and 64 MiB on purpose. Trusted requests (a user at a usual
address, an admin who sets a password) go first; of the others, one address has only a share of the
queue, so that an attacker cannot fill it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from engine.errors import Busy

FIRST_MAX = 16  # trusted requests that wait
OTHERS_MAX = 32  # other requests that wait
ADDRESS_MAX = 8  # of those, from one address
RETRY_AFTER_S = 1.0


class HashQueue:
    """Slots for `at_once` hashes; used on the event loop's thread only."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._first: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()
        self._by_address: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        return len(self._first) + len(self._others)

    @asynccontextmanager
    async def turn(self, address: str, *, goes_first: bool) -> AsyncIterator[None]:
        """Hold one of the slots; raises Busy if too many requests wait for one."""
        if self._free:
            self._free -= 1
        elif goes_first:
            await self._wait_first()
        else:
            await self._wait_among_others(address)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait_first(self) -> None:
        if len(self._first) >= FIRST_MAX:
            raise _busy()
        await self._wait_in(self._first)

    async def _wait_among_others(self, address: str) -> None:
        if len(self._others) >= OTHERS_MAX or self._by_address[address] >= ADDRESS_MAX:
            raise _busy()
        self._by_address[address] += 1
        try:
            await self._wait_in(self._others)
        finally:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    async def _wait_in(self, line: deque[asyncio.Future[None]]) -> None:
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            with suppress(ValueError):
                line.remove(turn)
            if turn.done() and not turn.cancelled():
                self._pass_on()  # it was granted as this request was cancelled
            raise

    def _pass_on(self) -> None:
        for line in (self._first, self._others):
            while line:
                turn = line.popleft()
                if not turn.done():  # otherwise its request was cancelled
                    turn.set_result(None)
                    return
        self._free += 1


def _busy() -> Busy:
    return Busy(
        "too many passwords are being checked",
        remedy="try again in a moment",
        retry_after_s=RETRY_AFTER_S,
    )
