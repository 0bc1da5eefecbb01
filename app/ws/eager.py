"""Starts a coroutine at once: most work on a frame ends without a wait, and needs no task."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
    """Run `work` up to its first wait; the task of the rest, or None where it ended.

    Raises what `work` raises before its first wait. Until then no task is the current one, so that
    `asyncio.timeout` must not be entered there.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_rest(work, awaited))


@coroutine
def _rest(work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Wait for what `work` awaits, and go on, until it returns."""
    while True:
        step: Callable[[Any], Any] = work.send
        try:
            value = yield awaited
        except BaseException as error:  # a cancellation, too: `work` is to see it
            step, value = work.throw, error
        try:
            awaited = step(value)
        except StopIteration as end:
            result: T = end.value
            return result
