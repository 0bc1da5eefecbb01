"""Rounds of samples, one after the other, whatever becomes of one."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from app.tasks import end_tasks
from engine.errors import EngineError

log = logging.getLogger("kitemq.cluster")

SHARE_MAX = 0.1  # of the time that rounds may take, however much there is to ask for


class Rounds:
    """Calls `take` between `start` and `stop`; it returns the seconds to the beginning of the next.

    One that takes long is followed by a rest of nine times its length, one that failed by
    `retry_s`.
    """

    def __init__(self, what: str, take: Callable[[], Awaitable[float]], retry_s: float) -> None:
        """`what` is sampled, for the log."""
        self._what, self._take, self._retry_s = what, take, retry_s
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin with the first round."""
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Give up the round under way."""
        await end_tasks(self._running)

    async def _run(self) -> None:
        due_s = time.monotonic()
        while True:
            began_s = time.monotonic()
            wait_s, rest_s = self._retry_s, 0.0
            try:
                wait_s = await self._take()
                rest_s = (time.monotonic() - began_s) * (1 / SHARE_MAX - 1)
            except EngineError as error:
                log.debug("no sample of %s was taken: %s", self._what, error.detail)
            except Exception:  # the next round may go well
                log.exception("no sample of %s was taken", self._what)
            # A round that came too late moves those behind it.
            due_s = max(due_s + wait_s, time.monotonic() + rest_s)
            await asyncio.sleep(due_s - time.monotonic())
