"""Dead letters of a cluster's groups: each broker has some, and they are listed as one sequence.

A dead letter's number says how many of its group came before it, by the time at which they were
stored; those of one millisecond go by the order of the brokers. So numbers have no gaps, and where
one broker has all of them they are its offsets. Nobody dismisses them and no job sends them again:
all that are kept are open.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import pairwise

from app.administration import DeadLetterLists
from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.routes import ClusterQueue
from app.cluster.verbs.part import ClusterPart, all_of
from app.cluster.verbs.topic_lists import ClusterTopicLists
from engine.broker import (
    DEAD_LETTER_PREFIX,
    DeadLetter,
    DeadLetterArrivals,
    DeadLetterConditions,
    DeadLetterPage,
    DeadLetters,
    DeadLetterState,
    DeadLetterTally,
    LetterStates,
    StateCounts,
    dead_letter_of,
    error_class_of,
    origin_of,
)
from engine.errors import MessageNotFound, TopicNotFound
from engine.message import FAILED_CLIENT, FAILED_ERROR, FAILED_REASON, REDRIVEN_JOB, StoredMessage

PAGE_MAX = 200
EXAMINED_MAX = 500  # for one page or tally ...
EXAMINED_BYTES_MAX = 1024 * 1024  # ... and their records' size, but for the first
READ_AT_ONCE = 32
CUTS_MAX = 10_000
AHEAD_MS = 86_400_000  # by which a broker's clock may be ahead of ours
ANY = DeadLetterConditions()
NO_STATES = StateCounts()


class LetterQueue:
    """The dead letters of a group on one broker: offsets `first` to `end` - 1."""

    def __init__(self, place: ClusterQueue, number: int, first: int, end: int) -> None:
        self.place, self.number, self.first, self.end = place, number, first, end


class ClusterDeadLetterLists(ClusterPart, DeadLetterLists):
    """`DeadLetterLists` of a cluster."""

    def __init__(self, catalog: ClusterCatalog, topics: ClusterTopicLists) -> None:
        super().__init__(catalog)
        self._topic_lists = topics
        # Where a sequence is cut, by group and number: one offset for each of its queues.
        self._cuts: OrderedDict[tuple[str, int], list[int]] = OrderedDict()

    @property
    def _engine(self) -> DeadLetters:
        raise not_supported("has no such verb", field="group", remedy="use the cluster's tools")

    async def page(
        self,
        group: str,
        conditions: DeadLetterConditions = ANY,
        *,
        after: int | None = None,
        count_max: int = 50,
        state: DeadLetterState | None = None,
    ) -> DeadLetterPage:
        """As the engine's: the newest first, at most 500 and 1 MiB are looked at."""
        meets = conditions.matcher()
        queues = await self._queues(group)
        first, end = _bounds(queues)
        count_max = max(1, min(count_max, PAGE_MAX))
        items: list[DeadLetter] = []
        number = end if after is None else max(first, min(after, end))
        if state in (None, DeadLetterState.OPEN):
            async with aclosing(self._newest_first(group, queues, number)) as letters:
                async for stored, number in letters:
                    if meets(stored):
                        items.append(dead_letter_of(stored, number))
                        if len(items) == count_max:
                            break
        else:
            number = first
        return DeadLetterPage(items, number if number > first else None, end - first)

    async def get(self, group: str, offset: int) -> DeadLetter:
        """One dead letter by its number; raises GroupNotFound, MessageNotFound."""
        queues = await self._queues(group)
        first, end = _bounds(queues)
        if first <= offset < end:
            async for stored, number in self._newest_first(group, queues, offset + 1, count_max=1):
                if number == offset:
                    return dead_letter_of(stored, number)
        raise MessageNotFound(
            f"the group {group!r} has no dead letter at offset {offset}",
            field="offset",
            remedy="list them",
        )

    async def bounds(self, group: str) -> tuple[int, int]:
        """The first number that is kept, and the one after the last. Raises GroupNotFound."""
        return _bounds(await self._queues(group))

    async def states(self, group: str) -> LetterStates:
        """The state of each dead letter of a group as of now: open. Raises GroupNotFound."""
        return LetterStates.all_open(*_bounds(await self._queues(group)))

    async def state_counts(self, group: str) -> StateCounts:
        """How many dead letters that are kept have each state; none for an unknown group."""
        try:
            stats = await self._topic_lists.topic_stats(f"{DEAD_LETTER_PREFIX}{group}")
        except TopicNotFound:
            return NO_STATES
        return StateCounts(open=stats.messages)

    async def tally(
        self,
        group: str,
        *,
        after: int | None = None,
        count_max: int = EXAMINED_MAX,
        state: DeadLetterState | None = None,
    ) -> DeadLetterTally:
        """Counts over the newest, at most 500 and 1 MiB in one call. Raises GroupNotFound."""
        queues = await self._queues(group)
        first, end = _bounds(queues)
        number = start = end if after is None else max(first, min(after, end))
        reasons, topics, clients = Counter[str](), Counter[str](), Counter[str]()
        classes = Counter[str]()
        returned = 0
        newest = self._newest_first(group, queues, start, count_max=count_max)
        async for stored, number in newest:  # noqa: B007
            if state not in (None, DeadLetterState.OPEN):
                continue
            properties = stored.properties
            reasons[properties.get(FAILED_REASON, "")] += 1
            topics[origin_of(stored)] += 1
            clients[properties.get(FAILED_CLIENT, "")] += 1
            classes[error_class_of(properties.get(FAILED_ERROR, ""))] += 1
            returned += REDRIVEN_JOB in properties
        return DeadLetterTally(
            examined=start - number,
            reasons=reasons,
            error_classes=classes,
            topics=topics,
            clients=clients,
            redriven=0,
            returned=returned,
            dismissed=0,
            next=number if number > first else None,
        )

    async def arrived(self, group: str, times_ms: Sequence[int]) -> DeadLetterArrivals:
        """Those that died from each of these ascending times to the next, and since."""
        queues = await self._queues(group)
        begins = [sum(cut) for cut in await all_of(self._cut_at(queues, at) for at in times_ms)]
        end = _bounds(queues)[1]
        steps = [after - before for before, after in pairwise([*begins, end])]
        return DeadLetterArrivals(steps, end - begins[0], end - begins[0])

    # -- the sequence ---------------------------------------------------------------------------

    async def _queues(self, group: str) -> list[LetterQueue]:
        """Those of a group, in the order of the brokers. Raises GroupNotFound, Busy."""
        topic = f"{DEAD_LETTER_PREFIX}{group}"
        try:
            stats = await self._topic_lists.topic_stats(topic)
        except TopicNotFound:
            await self._catalog.group(group)  # GroupNotFound
            return []
        return [
            LetterQueue(
                self._numbers.place(topic, each.queue), each.queue, each.min_offset, each.max_offset
            )
            for each in stats.queues
        ]

    async def _newest_first(
        self,
        group: str,
        queues: list[LetterQueue],
        number: int,
        *,
        count_max: int = EXAMINED_MAX,
    ) -> AsyncGenerator[tuple[StoredMessage, int], None]:
        """The dead letters before a number with their own, as far as the limits allow."""
        cut = list(await self._cut(group, queues, number))
        heads: list[list[StoredMessage]] = [[] for _ in queues]
        left_bytes, is_first = EXAMINED_BYTES_MAX, True
        for left in range(min(count_max, EXAMINED_MAX), 0, -1):
            await self._fill(queues, cut, heads, min(left, READ_AT_ONCE))
            ripe = [(head[-1].stored_ms, index) for index, head in enumerate(heads) if head]
            if not ripe:
                return
            index = max(ripe)[1]
            stored = heads[index].pop()
            left_bytes -= stored.size_bytes
            if left_bytes < 0 and not is_first:
                return
            is_first = False
            cut[index] = stored.offset
            number = sum(cut)
            self._remember(group, number, cut)
            yield stored, number

    async def _fill(
        self,
        queues: list[LetterQueue],
        cut: list[int],
        heads: list[list[StoredMessage]],
        count: int,
    ) -> None:
        """Read the letters before the cut of each queue that has none read any more."""

        async def read(index: int) -> None:
            queue, end = queues[index], cut[index]
            offset = max(queue.first, end - count)
            while offset < end:
                page = await self._client.reads.pull(queue.place, offset, count_max=end - offset)
                heads[index] += [self._stored(each) for each in page.messages if each.offset < end]
                if page.next_offset <= offset:
                    return
                offset = page.next_offset

        empty = [i for i, head in enumerate(heads) if not head and cut[i] > queues[i].first]
        with engine_errors():
            await asyncio.gather(*map(read, empty))

    async def _cut(self, group: str, queues: list[LetterQueue], number: int) -> list[int]:
        """The offsets of a group's queues before which there are `number` letters in all."""
        first, end = _bounds(queues)
        if number >= end:
            return [each.end for each in queues]
        if number <= first:
            return [each.first for each in queues]
        filled = [each for each in queues if each.end > each.first]
        if len(filled) == 1:
            return [each.first + (number - first if each is filled[0] else 0) for each in queues]
        known = self._cuts.get((group, number))
        if known is not None and all(
            queue.first <= at <= queue.end for queue, at in zip(queues, known, strict=False)
        ):
            return known
        return await self._search(queues, number)

    async def _search(self, queues: list[LetterQueue], number: int) -> list[int]:
        """The same by the last millisecond before which there are no more than that."""
        low, high = 0, self._catalog.now_ms() + AHEAD_MS
        cut = [each.first for each in queues]
        while high - low > 1:
            middle = (low + high) // 2
            there = await self._cut_at(queues, middle)
            if sum(there) <= number:
                low, cut = middle, there
            else:
                high = middle
        after = await self._cut_at(queues, low + 1)
        rest = number - sum(cut)
        for index, (at, until) in enumerate(zip(cut, after, strict=True)):
            taken = min(rest, until - at)
            cut[index] += taken
            rest -= taken
        return cut

    async def _cut_at(self, queues: list[LetterQueue], at_ms: int) -> list[int]:
        """The offsets of the first letters that were stored at a time or later."""

        async def offset(queue: LetterQueue) -> int:
            if queue.first == queue.end:
                return queue.end
            at = await self._client.reads.offset_at(queue.place, at_ms)
            return min(max(at, queue.first), queue.end)

        with engine_errors():
            return list(await asyncio.gather(*map(offset, queues)))

    def _remember(self, group: str, number: int, cut: list[int]) -> None:
        self._cuts[group, number] = list(cut)
        while len(self._cuts) > CUTS_MAX:
            self._cuts.popitem(last=False)


def _bounds(queues: list[LetterQueue]) -> tuple[int, int]:
    return sum(each.first for each in queues), sum(each.end for each in queues)
