"""Long polls of a cluster: those who wait for the same share one request to each broker.

A broker that has something wakes WAKES_MAX of them, and is asked again for the others: so a wake
that finds nothing any more, or is cancelled, is lost to nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial

from app.tasks import end_tasks, settle
from engine.errors import Busy

WAITS_MAX = 10_000
REQUESTS_MAX = 8_192  # under way at every broker, of the 16,384 that a connection has
WAKES_MAX = 8
PAUSE_S = 0.005
RETRY_AFTER_S = 1.0
Wake = Callable[[], None]
Ask = Callable[[], Awaitable[bool]]  # whether there may be something; within some 30 s


class ClusterWait:
    """A receive or a pull that waits; woken at most once."""

    def __init__(self, waits: "ClusterWaits", key: Hashable, wake: Wake) -> None:
        self.is_woken = False
        self._waits = waits
        self._key = key
        self._wake = wake

    def fire(self) -> None:
        """Wake it."""
        self.is_woken = True
        self._wake()

    def cancel(self) -> None:
        """Stop waiting; may be called twice, and after the wake."""
        self._waits.leave(self._key, self)


class ClusterWaits:
    """All that wait, by what they wait for."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, dict[ClusterWait, None]] = {}
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._requests: dict[Hashable, int] = {}  # by what is waited for, at each broker
        self._request_count = 0
        self._count = 0
        self._untils: set[asyncio.Future[bool]] = set()
        self._is_draining = False

    def __len__(self) -> int:
        return self._count

    def begin(self, key: Hashable, ask: Ask, wake: Wake, requests: int = 1) -> ClusterWait:
        """Call `wake` once when `ask` says yes; Busy beyond the bounds.

        `requests` is how many `ask` has under way at a broker.
        """
        more = 0 if key in self._waiting else requests
        if self._count >= WAITS_MAX or self._request_count + more > REQUESTS_MAX:
            raise Busy(
                f"{self._count} requests wait already, for {len(self._waiting)} things",
                retry_after_s=RETRY_AFTER_S,
                remedy="ask again later, or wait with fewer clients",
            )
        wait = ClusterWait(self, key, wake)
        self._waiting.setdefault(key, {})[wait] = None
        if more:
            self._requests[key] = more
            self._request_count += more
        self._count += 1
        if key not in self._tasks:
            self._tasks[key] = asyncio.get_running_loop().create_task(self._run(key, ask))
        return wait

    async def until(self, key: Hashable, ask: Ask, wait_s: float, requests: int = 1) -> bool:
        """Whether it was woken within `wait_s`."""
        await asyncio.sleep(0)  # verbs may begin outside a task, which a timeout needs
        if self._is_draining:
            return False
        woken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        wait = self.begin(key, ask, partial(settle, woken, True), requests)
        self._untils.add(woken)
        try:
            async with asyncio.timeout(wait_s):
                return await woken
        except TimeoutError:
            return False
        finally:
            self._untils.discard(woken)
            wait.cancel()

    def drain(self) -> None:
        """End what `until` waits for, and let nothing wait there any more; for the way out."""
        self._is_draining = True
        for woken in tuple(self._untils):
            settle(woken, False)

    def leave(self, key: Hashable, wait: ClusterWait) -> None:
        """Take one out, if it is still there."""
        waiting = self._waiting.get(key, {})
        if wait in waiting:
            del waiting[wait]
            self._count -= 1
            if not waiting:
                self._forget(key)
                self._tasks.pop(key).cancel()

    async def close(self) -> None:
        """End all waits without a wake."""
        self.drain()
        await end_tasks(*self._tasks.values())

    async def _run(self, key: Hashable, ask: Ask) -> None:
        try:
            while key in self._waiting:
                if await ask():
                    for wait in list(self._waiting.get(key, ()))[:WAKES_MAX]:
                        self._take(key, wait)
                        wait.fire()
                    await asyncio.sleep(PAUSE_S)
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]

    def _take(self, key: Hashable, wait: ClusterWait) -> None:
        waiting = self._waiting[key]
        del waiting[wait]
        self._count -= 1
        if not waiting:
            self._forget(key)

    def _forget(self, key: Hashable) -> None:
        del self._waiting[key]
        self._request_count -= self._requests.pop(key)
