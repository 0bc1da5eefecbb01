"""Cache of values by owner for pages, which neither fail nor wait long for the database.

A value is served for up to 30 seconds; after a failed read, the next one follows 5 seconds later.
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
class CacheEntry(Generic[T]):
    """A value, the time of its read and the version of the users then.

    After a failed read, `value` is the default and `failure` gives the reason.
    """

    value: T
    read_ms: int
    people_version: int
    failure: str = ""


class TtlCache(Generic[T]):
    """Caches the values of at most 1000 owners; `read` raises Busy when it fails."""

    def __init__(self, clock: Clock, read: Callable[[str], Awaitable[T]], nothing: T) -> None:
        self._clock = clock
        self._read = read
        self._nothing = nothing
        self._entries: dict[str, CacheEntry[T]] = {}

    async def of(self, owner: str, people_version: int = 0) -> CacheEntry[T]:
        """Return the owner's entry, at most 30 s old; waits at most 2 s for the database.

        An entry of another version of the users is read again: the name may have belonged to
        another user then.
        """
        now_ms = self._clock.now_ms()
        entry = self._entries.get(owner)
        if entry is not None and entry.people_version == people_version:
            age_ms = now_ms - entry.read_ms
            if 0 <= age_ms < (FAILED_MS if entry.failure else FRESH_MS):
                return entry
        try:
            async with asyncio.timeout(WAIT_S):
                entry = CacheEntry(await self._read(owner), now_ms, people_version)
        except (Busy, TimeoutError):
            entry = CacheEntry(self._nothing, now_ms, people_version, UNANSWERED)
        if len(self._entries) >= OWNERS_MAX:
            self._entries.clear()
        self._entries[owner] = entry
        return entry

    def forget(self, owner: str) -> None:
        """Drop the owner's entry, so that a change made here is visible at once."""
        self._entries.pop(owner, None)
