"""Finding messages without holding the loop: short steps of the engine, others in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from app.administration import Administration
from app.host import EngineHost
from app.messaging import VerbSet, verb
from app.tasks import settle
from engine.broker import ANYWHERE, FOREVER_MS, LogSearch, Lookup, ScanPage, ScanQuery
from engine.errors import Busy, Invalid
from engine.message import StoredMessage
from kitemq.model.numbers import INT64_DIGITS, is_whole

AT_ONCE_MAX = 2  # searches that work; the threads also flush
WAITING_MAX = 32
BUDGET_S = 2.0
KEY_BUDGET_S = 20.0
NAMES_MAX = 50
KEY_COUNT_MAX = 64
COUNT_BUDGET_S = 0.5  # for counting on, once a page is full


class Anything(msgspec.Struct, frozen=True):
    """Matches of one text: messages with this id or key, topics and groups with such a name.

    `messages_cut` is set if the limit of time or of messages ended the search early.
    """

    messages: list[StoredMessage]
    messages_cut: bool
    topics: list[str]
    topics_total: int
    groups: list[str]
    groups_total: int


class KeyPage(msgspec.Struct, frozen=True):
    """Messages with a key, newest first; `next_cursor` goes on with older ones, "" at the end.

    There are `total` from the cursor on, these included, or more if that `is_least`.
    """

    messages: list[StoredMessage]
    next_cursor: str
    total: int
    is_least: bool


class SearchService(VerbSet[LogSearch]):
    """Two searches work at once, 32 more may wait; beyond that Busy."""

    def __init__(self, host: EngineHost, administration: Administration) -> None:
        self._host = host
        self._administration = administration
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._waiting = 0

    @property
    def _engine(self) -> LogSearch:
        return self._host.broker.search

    record_of_id = verb(LogSearch.record_of_id)
    purged = verb(LogSearch.purged)

    async def scan(
        self, query: ScanQuery, *, count_max: int, cursor: str = "", budget_s: float = BUDGET_S
    ) -> ScanPage:
        """A page of a topic's messages; ends early, with a cursor, at the time limit.

        Raises TopicNotFound, Invalid (filter, cursor), Busy.
        """
        async with self._turn():
            scan = self._engine.scan(query, count_max=count_max, cursor=cursor)
            end_s = _now_s() + budget_s
            has_scanned = False  # each page comes further, however short its time
            while not scan.is_over and not (has_scanned and _now_s() >= end_s):
                has_scanned = scan.is_placed
                finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                scan.step(partial(settle, finished, None))
                await finished
                await asyncio.sleep(0)
            return scan.page()

    async def by_id(self, message_id: str) -> list[StoredMessage]:
        """Every record of a message, oldest first, at most 64; raises Busy."""
        lookup = self._engine.id_lookup(message_id)
        await self._carry_on(lookup)
        return sorted(lookup.messages, key=lambda message: message.position)

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = KEY_COUNT_MAX,
        total_max: int = 0,
        begin_ms: int = 0,
        end_ms: int = 0,
        cursor: str = "",
    ) -> KeyPage:
        """A page of a topic's messages with a key, counted up to `total_max`.

        `end_ms` 0 means no end.

        Raises TopicNotFound, Invalid (cursor), Busy: also where nothing was found in time, as
        looking on would begin anew.
        """
        lookup = self._engine.key_lookup(
            topic,
            key,
            count_max=count_max,
            total_max=total_max,
            begin_ms=begin_ms,
            end_ms=end_ms or FOREVER_MS,
            before=_position_of(cursor) if cursor else ANYWHERE,
        )
        await self._carry_on(lookup)
        messages = lookup.messages
        if lookup.is_cut and not messages:
            raise Busy(
                f"the index holds too many other keys: nothing was found within {KEY_BUDGET_S:g} s",
                field="key",
                retry_after_s=1.0,
                remedy="narrow the time, or search the topic by its content",
            )
        next_cursor = str(messages[-1].position) if lookup.is_cut else ""
        return KeyPage(messages, next_cursor, *total_of(lookup))

    async def by_text(
        self,
        text: str,
        *,
        budget_s: float = BUDGET_S,
        total_max: int = 0,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> Lookup:
        """Messages in any topic with this id or key, at most 64, counted up to `total_max`.

        It is not over if the time was up before all topics were asked. Raises Busy.
        """
        lookup = self._engine.any_lookup(
            text, total_max=total_max, begin_ms=begin_ms, end_ms=end_ms
        )
        await self._carry_on(lookup, budget_s)
        return lookup

    async def anything(self, text: str, *, budget_s: float = BUDGET_S) -> Anything:
        """Whatever the text may mean; raises Busy."""
        messages = await self.by_id(text)
        is_cut = False
        if not messages:
            lookup = await self.by_text(text, budget_s=budget_s)
            messages, is_cut = lookup.messages, lookup.is_cut
        topics = [topic.name for topic in await self._administration.topics(system=True)]
        groups = [group.name for group in await self._administration.groups()]
        near_topics = await asyncio.to_thread(near, topics, text)
        near_groups = await asyncio.to_thread(near, groups, text)
        return Anything(
            messages,
            is_cut,
            near_topics[:NAMES_MAX],
            len(near_topics),
            near_groups[:NAMES_MAX],
            len(near_groups),
        )

    async def _carry_on(self, lookup: Lookup, budget_s: float = KEY_BUDGET_S) -> None:
        async with self._turn():
            end_s = _now_s() + budget_s
            count_end_s = min(end_s, _now_s() + COUNT_BUDGET_S)
            while not lookup.is_over and _now_s() < (count_end_s if lookup.is_counting else end_s):
                if lookup.step():
                    await asyncio.sleep(0)
                    continue
                finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._engine.read(lookup, partial(settle, finished, None))
                await finished

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._waiting >= WAITING_MAX:
            raise Busy(
                f"{self._waiting} searches wait already",
                retry_after_s=1.0,
                remedy="search again later, for less at once",
            )
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()


def total_of(lookup: Lookup) -> tuple[int, bool]:
    """How many messages a lookup counted, and whether there are or may be more."""
    is_least = not lookup.is_over or lookup.total > lookup.total_max
    return min(lookup.total, lookup.total_max), is_least


def near(names: list[str], text: str) -> list[str]:
    """The names that hold every word of `text`, the name itself first; pure."""
    words = text.lower().split()
    matches = [name for name in names if words and all(word in name.lower() for word in words)]
    return sorted(matches, key=lambda name: name != text)


def _position_of(cursor: str) -> int:
    if is_whole(cursor, INT64_DIGITS):
        return int(cursor)
    raise Invalid(
        f"{cursor[:40]!r} is no cursor", field="cursor", remedy="send next_cursor as it came"
    )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
