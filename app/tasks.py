"""Ends background tasks and waits."""

import asyncio
from typing import Any


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until all have ended; what they raise is dropped."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def settle(waiting: asyncio.Future[Any], result: Any, error: Exception | None = None) -> None:
    """End a wait with the result or the error, unless the waiter has gone or has been told."""
    if waiting.done():
        return
    if error is None:
        waiting.set_result(result)
    else:
        waiting.set_exception(error)
