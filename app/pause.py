"""Long work on the event loop, in slices."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.004


class Pause:
    """Lets others run whenever a slice of a few milliseconds is used up."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    async def when_due(self) -> None:
        """Call it after each small step; it mostly returns at once."""
        if time.perf_counter() - self._began_s >= SLICE_S:
            await asyncio.sleep(0)
            self._began_s = time.perf_counter()


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """The items one by one; others may run between two of them."""
    pause = Pause()
    for item in items:
        yield item
        await pause.when_due()
