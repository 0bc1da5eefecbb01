"""Coroutines that begin in the caller's turn of the event loop, like asyncio's eager tasks.

A verb of `app.messaging` that is answered at once then costs a coroutine and no task, and the
caller has its answer in the same turn. Python 3.11 has no eager tasks of its own. The part before
the first wait runs outside a task: it may not use what needs one, such as `asyncio.timeout`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from engine.errors import EngineError

T = TypeVar("T")
P = ParamSpec("P")
Done = Callable[[T | None, EngineError | None], None]  # a result, or else an error

log = logging.getLogger("kitemq.messaging")

# In the scope of a request whose endpoint may begin outside a task: the operation's direct way, or
# None. See `network/whole_request.py`.
EAGER = "kitemq.eager"

_tasks: set[asyncio.Task[Any]] = set()  # the event loop keeps weak references only


class Remainder(Coroutine[Any, Any, T]):
    """The part of a coroutine after its first wait; to be awaited once, or made a task.

    A task of it that is cancelled before its first step still lets the coroutine clean up.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._first = [waits_for]  # what the first step waits for, until it has been handed on

    def send(self, value: Any) -> Any:
        return self._first.pop() if self._first else self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._first.clear()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self

    def __iter__(self) -> "Remainder[T]":
        return self

    def __next__(self) -> Any:
        return self.send(None)


def begin(coroutine: Coroutine[Any, Any, T]) -> T | Remainder[T]:
    """Run a coroutine up to its first wait; returns its result or what is left to await."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return Remainder(coroutine, waits_for)


def eager(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T | Remainder[T]]:
    """Decorate an `async def` so that calling it runs it up to its first wait."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T | Remainder[T]:
        return begin(function(*args, **kwargs))

    return call


def run(coroutine: Coroutine[Any, Any, T], done: Done[T]) -> None:
    """Begin a coroutine and call `done` once, with its result or its error.

    `done` is called before `run` returns where the coroutine does not wait, else by a task. An
    error that is no EngineError is logged, and becomes one.
    """
    try:
        result = begin(coroutine)
    except Exception as error:
        done(None, as_engine_error(error))
        return
    if type(result) is not Remainder:  # of an abstract class `isinstance` takes long
        done(result, None)  # type: ignore[arg-type]
        return
    task = asyncio.get_running_loop().create_task(_finish(result, done))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def ignore(_: object, error: EngineError | None) -> None:
    """Take no notice of a result or error, such as that of giving back what expires by itself."""


def as_engine_error(error: Exception) -> EngineError:
    """The error as callers get it: one that is not the engine's is logged and kept from them."""
    if isinstance(error, EngineError):
        return error
    log.error("a verb failed", exc_info=error)
    return EngineError("the server failed; its log says why", code="internal_error")


async def _finish(rest: Remainder[T], done: Done[T]) -> None:
    try:
        result = await rest
    except Exception as error:
        done(None, as_engine_error(error))
    else:
        done(result, None)
