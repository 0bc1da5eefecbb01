"""Worker threads for work that may block in the kernel: fsync, deleting files, cold reads.

The caller of the engine hands in a `Pool`. Its promise: `work` runs off the owner's thread,
`done` is called on it, exactly once, with the result or the error.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Pool(Protocol):
    """A few threads; the engine never has more than a handful of jobs in it."""

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]
    ) -> None: ...


class InlinePool:
    """Does the work at once on the caller's thread: for tests, tools and the simulation."""

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]
    ) -> None:
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)
