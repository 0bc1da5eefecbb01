"""Summaries of dead letters for a list: causes of the newest, and how many died hour by hour.

It is read from the log, two hundred records of each group; a live page asks for fifty groups every
few seconds. So it stays until a dead letter comes, goes or changes its state, a minute at most.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from app.administration import Administration
from engine.broker import (
    DEAD_LETTER_PREFIX,
    DeadLetterArrivals,
    DeadLetterState,
    DeadLetterTally,
)
from engine.errors import NotFound

TALLIED_MAX = 200
HOURS = 24
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
GROUPS_MAX = 1_000


@dataclass(frozen=True)
class DeadSummary:
    """Causes of the open ones among the newest; `arrived` has the last 24 hours, hour by hour."""

    tally: DeadLetterTally
    arrived: DeadLetterArrivals
    oldest_ms: int | None


class DeadSummaries:
    """Summaries of at most a thousand groups, those that were looked at last."""

    def __init__(self, administration: Administration, now_ms: Callable[[], int]) -> None:
        self._administration = administration
        self._now_ms = now_ms
        self._cache: OrderedDict[str, tuple[Hashable, DeadSummary]] = OrderedDict()

    async def of(self, group: str) -> DeadSummary:
        """The summary of a group as of this minute; raises GroupNotFound, TopicNotFound."""
        letters, topic = self._administration.dead_letters, DEAD_LETTER_PREFIX + group
        states = await letters.states(group)
        minute = self._now_ms() // MINUTE_MS
        since = (await self._administration.topic(topic)).since_position
        mark = (since, states.first, states.end, states.mark(states.first), minute)
        known = self._cache.pop(group, None)
        if known is None or known[0] != mark:
            begin_ms = minute * MINUTE_MS - HOURS * HOUR_MS
            times_ms = [begin_ms + hour * HOUR_MS for hour in range(HOURS)]
            known = (
                mark,
                DeadSummary(
                    await letters.tally(group, count_max=TALLIED_MAX, state=DeadLetterState.OPEN),
                    await letters.arrived(group, times_ms),
                    await self._oldest_ms(group, states.first),
                ),
            )
        self._cache[group] = known
        if len(self._cache) > GROUPS_MAX:
            self._cache.popitem(last=False)
        return known[1]

    async def _oldest_ms(self, group: str, offset: int) -> int | None:
        """The time when the oldest dead letter was stored; None if its record cannot be read."""
        try:
            letter = await self._administration.dead_letters.get(group, offset)
        except NotFound:
            return None
        return letter.message.stored_ms
