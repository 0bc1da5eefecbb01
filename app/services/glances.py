"""What pages show of somebody's own things: read lately, never waited for long.

A page must not fail or wait for its marks; what was read before is shown for half a minute, and a
database that does not answer is asked again after a few seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.clock import Clock
from engine.errors import Busy

T = TypeVar("T")

FRESH_MS = 30_000
FAILED_MS = 5_000
WAIT_S = 2.0
OWNERS_MAX = 1000
UNANSWERED = "the database does not answer"


@dataclass(frozen=True)
class Known(Generic[T]):
    """What was read, when, and under which version of people; `failure` says why nothing was."""

    value: T
    read_ms: int
    people_version: int
    failure: str = ""


class Glances(Generic[T]):
    """By owner, at most 1000 of them; `read` raises Busy where it cannot."""

    def __init__(self, clock: Clock, read: Callable[[str], Awaitable[T]], nothing: T) -> None:
        self._clock = clock
        self._read = read
        self._nothing = nothing
        self._known: dict[str, Known[T]] = {}

    async def of(self, owner: str, people_version: int = 0) -> Known[T]:
        """The owner's, up to 30 s old.

        What was read under another version of people may belong to somebody who had the name
        before.
        """
        now_ms = self._clock.now_ms()
        known = self._known.get(owner)
        if known is not None and known.people_version == people_version:
            age_ms = now_ms - known.read_ms
            if 0 <= age_ms < (FAILED_MS if known.failure else FRESH_MS):
                return known
        try:
            async with asyncio.timeout(WAIT_S):
                found = Known(await self._read(owner), now_ms, people_version)
        except (Busy, TimeoutError):
            found = Known(self._nothing, now_ms, people_version, UNANSWERED)
        if len(self._known) >= OWNERS_MAX:
            self._known.clear()
        self._known[owner] = found
        return found

    def forget(self, owner: str) -> None:
        """What this server changes shows at once."""
        self._known.pop(owner, None)
