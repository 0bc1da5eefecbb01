"""Index of a group's dead letters, with a few fields each, so that lists count all of them.

A dead letter never changes: an indexed one stays for the next page, and only new ones are read. At
most the newest `COUNTED_MAX` of a group are indexed, for a few groups at a time.
"""

import asyncio
import sys
import time
from collections import OrderedDict, deque
from dataclasses import dataclass

import msgspec

from app.administration import Administration
from app.messaging import Messaging
from app.pause import Pause
from engine.broker import (
    DEAD_LETTER_PREFIX,
    GROUP_QUEUE,
    error_class_of,
    error_line_of,
)
from engine.errors import NotFound
from engine.message import FAILED_CLIENT, FAILED_ERROR, FAILED_REASON, REDRIVEN_JOB, StoredMessage

COUNTED_MAX = 50_000
GROUPS_MAX = 4
LINE_CHARS_MAX = 120


class DeadRow(msgspec.Struct, frozen=True, gc=False):
    """One dead letter, as far as lists are filtered by it; `is_back` after a replay."""

    offset: int
    died_ms: int
    reason: str
    topic: str
    tag: str
    client: str
    attempts: str
    is_back: bool
    error_class: str = ""
    error: str = ""  # its main line; where it is long its beginning and a *


@dataclass(frozen=True)
class DeadLetterListing:
    """The rows read so far, oldest first: the newest `examined` of `total` were looked at."""

    rows: tuple[DeadRow, ...]
    examined: int
    total: int

    @property
    def is_whole(self) -> bool:
        return self.examined >= self.total

    @property
    def unreadable(self) -> int:
        """The number of damaged records."""
        return self.examined - len(self.rows)


class _GroupIndex:
    """One group's rows: offsets from `low` up to `high` - 1 were looked at."""

    def __init__(self, topic: str, since_position: int, end: int) -> None:
        self.since_position = since_position
        self._topic = topic
        self._rows: deque[DeadRow] = deque()
        self._low = self._high = end
        self._lock = asyncio.Lock()

    async def extend(
        self, messaging: Messaging, low: int, end: int, until_s: float
    ) -> DeadLetterListing:
        """Read what is new, then what is older, down to `low` or until the time is up."""
        async with self._lock:
            floor = max(low, end - COUNTED_MAX)
            if self._high < floor or self._high > end:
                self._rows.clear()
                self._low = self._high = end
            pause = Pause()
            while self._high < end:
                self._rows.extend(await self._read(messaging, self._high))
                self._high += 1
                await pause.when_due()
            while self._low > floor and time.monotonic() < until_s:
                self._low -= 1
                self._rows.extendleft(await self._read(messaging, self._low))
                await pause.when_due()
            while self._rows and self._rows[0].offset < floor:
                self._rows.popleft()
            self._low = max(self._low, floor)
            return DeadLetterListing(tuple(self._rows), self._high - self._low, end - low)

    async def _read(self, messaging: Messaging, offset: int) -> list[DeadRow]:
        """The row of an offset; none where its record is damaged or gone."""
        try:
            return [row_of(await messaging.message(self._topic, GROUP_QUEUE, offset))]
        except NotFound:
            return []


class DeadIndex:
    """Rows of the groups that were looked at last."""

    def __init__(self, messaging: Messaging, administration: Administration) -> None:
        self._messaging = messaging
        self._administration = administration
        self._shelves: OrderedDict[str, _GroupIndex] = OrderedDict()

    async def listing(self, group: str, budget_s: float) -> DeadLetterListing:
        """The index of a group after at most about `budget_s` of reading.

        Raises GroupNotFound if neither the group nor any of its dead letters exists.
        """
        topic = DEAD_LETTER_PREFIX + group
        try:
            config = await self._administration.topic(topic)
        except NotFound:
            await self._administration.group(group)
            return DeadLetterListing((), 0, 0)
        low, end = await self._administration.dead_letters.bounds(group)
        shelf = self._shelves.pop(group, None)
        if shelf is None or shelf.since_position != config.since_position:
            shelf = _GroupIndex(topic, config.since_position, end)
        self._shelves[group] = shelf
        while len(self._shelves) > GROUPS_MAX:
            self._shelves.popitem(last=False)
        return await shelf.extend(self._messaging, low, end, time.monotonic() + budget_s)


def row_of(message: StoredMessage) -> DeadRow:
    properties = message.properties
    origin = message.origin_topic
    error = properties.get(FAILED_ERROR, "")
    line = error_line_of(error)
    return DeadRow(
        offset=message.offset,
        died_ms=message.stored_ms,
        reason=sys.intern(properties.get(FAILED_REASON, "")),
        topic="" if origin.startswith(DEAD_LETTER_PREFIX) else sys.intern(origin),
        tag=sys.intern(message.tag),
        client=sys.intern(properties.get(FAILED_CLIENT, "")),
        attempts=sys.intern(str(max(0, message.attempt - 1))),
        is_back=REDRIVEN_JOB in properties,
        error_class=sys.intern(error_class_of(error)),
        error=sys.intern(line if len(line) <= LINE_CHARS_MAX else line[:LINE_CHARS_MAX] + "*"),
    )
