"""An event loop on a thread of its own, which the synchronous SDK stands on; and tasks together."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from kitemq.errors import Stopped

T = TypeVar("T")

JOIN_TIMEOUT_S = 10.0


class Background:
    """Runs coroutines for threads that have no event loop; a daemon, so it never holds an exit."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self.loop.is_closed()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run `work` on the loop and wait for its result, up to `timeout_s` (TimeoutError)."""
        if not self.is_alive:
            work.close()
            raise Stopped("it is stopped")
        assert threading.current_thread() is not self._thread, "it would wait for itself"
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()  # also for Ctrl-C: nothing goes on behind the caller's back
            raise

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        if self.is_alive:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


async def together(tasks: "Sequence[asyncio.Task[None]]") -> None:
    """Wait for all; the first failure cancels the others and is raised, alone."""
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
