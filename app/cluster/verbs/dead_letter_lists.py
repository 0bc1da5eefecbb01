"""Dead letters of a cluster's groups: each broker has some, and they are listed as one sequence.

A dead letter's number says how many of its group came before it, by the time at which they were
stored; those of one millisecond go by the order of the brokers. So numbers have no gaps, and where
one broker has all of them they are its offsets. A number is given SETTLE_MS after a letter was
stored, when none that is older can come any more: then it stays, and marks are kept by it.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import pairwise

import msgspec

from app.administration import DeadLetterLists
from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.replays.letter_marks import LetterMarks
from app.cluster.replays.shared_jobs import SharedJobs, sources_of
from app.cluster.routes import ClusterQueue
from app.cluster.verbs.part import ClusterPart, all_of
from app.cluster.verbs.topic_lists import ClusterTopicLists
from engine.broker import (
    DEAD_LETTER_PREFIX,
    GROUP_QUEUE,
    DeadLetter,
    DeadLetterArrivals,
    DeadLetterConditions,
    DeadLetterPage,
    DeadLetters,
    DeadLetterState,
    DeadLetterSweep,
    DeadLetterTally,
    DismissalPlan,
    DismissalSnapshot,
    DismissNote,
    LetterStates,
    QueueStats,
    StateCounts,
    dead_letter_of,
    error_class_of,
    origin_of,
)
from engine.errors import Busy, GroupNotFound, MessageNotFound, TopicNotFound
from engine.message import FAILED_CLIENT, FAILED_ERROR, FAILED_REASON, REDRIVEN_JOB, StoredMessage
from engine.replay.outcomes import ReplayOutcome

PAGE_MAX = 200
EXAMINED_MAX = 500  # for one page or tally ...
EXAMINED_BYTES_MAX = 1024 * 1024  # ... and their records' size, but for the first
READ_AT_ONCE = 32
CUTS_MAX = 10_000
LISTED_MAX = 100_000
AHEAD_MS = 86_400_000  # by which a broker's clock may be ahead of ours
SETTLE_MS = 2_000  # by which brokers' clocks may differ, and a letter is listed later
SWEPT_MAX = 200
ANY = DeadLetterConditions()
NO_STATES = StateCounts()
PAGE_BYTES = 1024 * 1024  # of one request


class LetterQueue:
    """The dead letters of a group on one broker: offsets `first` to `end` - 1."""

    def __init__(self, place: ClusterQueue, number: int, first: int, end: int) -> None:
        self.place, self.number, self.first, self.end = place, number, first, end


class ClusterDeadLetterLists(ClusterPart, DeadLetterLists):
    """`DeadLetterLists` of a cluster."""

    def __init__(
        self,
        catalog: ClusterCatalog,
        topics: ClusterTopicLists,
        marks: LetterMarks,
        jobs: SharedJobs,
    ) -> None:
        super().__init__(catalog)
        self._topic_lists = topics
        self._marks = marks
        self._jobs = jobs
        self._settled: dict[ClusterQueue, int] = {}  # an end before which all have numbers
        # By group and number where a record lies that was listed: queue, offset, position.
        self._listed: OrderedDict[tuple[str, int], tuple[int, int, int]] = OrderedDict()
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
        records: list[tuple[StoredMessage, int]] = []
        number = end if after is None else max(first, min(after, end))
        states = await self._states(group, first, end)
        async with aclosing(self._newest_first(group, queues, number)) as letters:
            async for stored, number in letters:
                if state in (None, states.of(number)) and meets(stored):
                    records.append((stored, number))
                    if len(records) == count_max:
                        break
        items = await self._letters(group, records, states)
        return DeadLetterPage(items, number if number > first else None, end - first)

    async def sweep(
        self, group: str, conditions: DeadLetterConditions, *, after: int | None = None
    ) -> DeadLetterSweep:
        """Which of the next 200 before a number meet all conditions; each is read once."""
        meets = conditions.matcher()
        queues = await self._queues(group)
        first, end = _bounds(queues)
        number = end if after is None else max(first, min(after, end))
        numbers: list[int] = []
        newest = self._newest_first(group, queues, number, count_max=SWEPT_MAX)
        async for stored, number in newest:
            if meets(stored):
                numbers.append(number)
        return DeadLetterSweep(numbers, number if number > first else None)

    async def get(self, group: str, offset: int) -> DeadLetter:
        """One dead letter by its number; raises GroupNotFound, MessageNotFound, Busy.

        One that was listed here is told while a broker without it is away.
        """
        try:
            queues = await self._queues(group)
        except Busy:
            letter = await self._listed_before(group, offset)
            if letter is None:
                raise
            return letter
        first, end = _bounds(queues)
        if first <= offset < end:
            async for stored, number in self._newest_first(group, queues, offset + 1, count_max=1):
                if number == offset:
                    states = await self._states(group, first, end)
                    return (await self._letters(group, [(stored, number)], states))[0]
        raise MessageNotFound(
            f"the group {group!r} has no dead letter at offset {offset}",
            field="offset",
            remedy="list them",
        )

    async def bounds(self, group: str) -> tuple[int, int]:
        """The first number that is kept, and the one after the last. Raises GroupNotFound."""
        return _bounds(await self._queues(group))

    async def states(self, group: str) -> LetterStates:
        """The state of each dead letter of a group as of now. Raises GroupNotFound."""
        return await self._states(group, *_bounds(await self._queues(group)))

    async def state_counts(self, group: str) -> StateCounts:
        """How many dead letters that are kept have each state; none for an unknown group."""
        try:
            return (await self.states(group)).counts()
        except GroupNotFound:
            return NO_STATES

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
        states = await self._states(group, first, start)
        newest = self._newest_first(group, queues, start, count_max=count_max)
        async for stored, number in newest:
            if state not in (None, states.of(number)):
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
            redriven=len(await self._resent_by(group, range(number, start))),
            returned=returned,
            dismissed=states.counts(number).dismissed,
            next=number if number > first else None,
        )

    async def arrived(self, group: str, times_ms: Sequence[int]) -> DeadLetterArrivals:
        """Those that died from each of these ascending times to the next, and since."""
        queues = await self._queues(group)
        begins = [sum(cut) for cut in await all_of(self._cut_at(queues, at) for at in times_ms)]
        end = _bounds(queues)[1]
        steps = [after - before for before, after in pairwise([*begins, end])]
        counts = (await self._states(group, _bounds(queues)[0], end)).counts(begins[0])
        return DeadLetterArrivals(steps, counts.total, counts.open)

    # -- dismissing -----------------------------------------------------------------------------

    async def snapshot(self, group: str) -> DismissalSnapshot:
        """The dismissed dead letters of a group as of now. Raises GroupNotFound."""
        topic = f"{DEAD_LETTER_PREFIX}{group}"
        first, end = await self.bounds(group)
        marks = await self._marks.of(topic, first=first)
        return DismissalSnapshot(topic, marks.dismissed, first, end)

    async def new_note(self, note: str, by: str) -> DismissNote:
        """A note for a plan; raises Invalid."""
        return self._marks.new_note(note, by, self._catalog.now_ms())

    async def commit(self, plan: DismissalPlan) -> bool:
        """Carry a plan out; False where something else was dismissed or restored meanwhile."""
        return await self._marks.commit(plan)

    # -- marks ----------------------------------------------------------------------------------

    async def _states(self, group: str, first: int, end: int) -> LetterStates:
        marks = await self._marks.of(f"{DEAD_LETTER_PREFIX}{group}", first=first)
        return LetterStates(first, end, (marks.resent, marks.dismissed), settles=False)

    async def _letters(
        self, group: str, records: Sequence[tuple[StoredMessage, int]], states: LetterStates
    ) -> list[DeadLetter]:
        """Records with their numbers as dead letters, with what was done about each."""
        if not records:
            return []
        numbers = [number for _, number in records]
        jobs = await self._resent_by(group, range(min(numbers), max(numbers) + 1))
        dismissed = (await self._marks.of(f"{DEAD_LETTER_PREFIX}{group}")).dismissed
        return [
            msgspec.structs.replace(
                dead_letter_of(stored, number),
                redriven_by=jobs.get(number, []),
                state=states.of(number),
                dismissed=dismissed.note_of(number),
            )
            for stored, number in records
        ]

    async def _resent_by(self, group: str, numbers: range) -> dict[int, list[str]]:
        """By number the jobs that sent a letter again, the oldest first."""
        jobs: dict[int, list[str]] = {}
        topic = f"{DEAD_LETTER_PREFIX}{group}"
        for job in sources_of(await self._jobs.all(), topic):
            for nth, _, offsets in job.selection.within(GROUP_QUEUE, numbers.start, numbers.stop):
                for each in job.outcomes.find(ReplayOutcome.SENT, nth, nth + len(offsets)):
                    jobs.setdefault(offsets.start + each - nth, []).append(job.plan.id)
        return jobs

    # -- the sequence ---------------------------------------------------------------------------

    async def _queues(self, group: str) -> list[LetterQueue]:
        """Those of a group, in the order of the brokers. Raises GroupNotFound, Busy."""
        topic = f"{DEAD_LETTER_PREFIX}{group}"
        try:
            stats = await self._topic_lists.topic_stats(topic)
        except TopicNotFound:
            await self._catalog.group(group)  # GroupNotFound
            return []
        return await all_of(
            self._settled_queue(self._numbers.place(topic, each.queue), each)
            for each in stats.queues
        )

    async def _settled_queue(self, place: ClusterQueue, stats: QueueStats) -> LetterQueue:
        """A queue up to the last letter that has a number."""
        first, end = stats.min_offset, stats.max_offset
        if end > first and self._settled.get(place, -1) < end:
            at_ms = self._catalog.now_ms() - SETTLE_MS
            with engine_errors():
                at = max(first, await self._client.reads.offset_at(place, at_ms))
                if at < end:  # brokers of 4.9 name the last message where all are older
                    page = await self._client.reads.pull(place, at, count_max=1)
                    at += bool(page.messages) and page.messages[0].stored_ms < at_ms
            end = min(end, at)
            if len(self._settled) >= CUTS_MAX:
                self._settled.clear()
            self._settled[place] = end
        return LetterQueue(place, stats.queue, first, end)

    async def offset_at_time(self, group: str, time_ms: int) -> int:
        """The number of the first letter that died then or later."""
        queues = await self._queues(group)
        return sum(await self._cut_at(queues, time_ms))

    async def number_of(self, group: str, queue: int, offset: int, died_ms: int) -> int:
        """The number of the letter at a place."""
        queues = await self._queues(group)
        index = [each.number for each in queues].index(queue)
        before = await self._cut_at(queues[:index], died_ms + 1)
        return sum(before) + offset + sum(await self._cut_at(queues[index + 1 :], died_ms))

    async def read(self, group: str, first: int, end: int) -> tuple[dict[int, StoredMessage], int]:
        """Letters by number from `first` on, as many before `end` as one request of each broker
        gives, and the number up to which they were read. Raises GroupNotFound, Busy.
        """
        queues = await self._queues(group)
        low, high = _bounds(queues)
        if end <= low or first >= high:
            return {}, end
        cut = list(await self._cut(group, queues, max(first, low)))
        until = min(end, high)
        letters: dict[int, StoredMessage] = {}
        heads = await all_of(
            self._ahead(queue, at, until - sum(cut)) for queue, at in zip(queues, cut, strict=True)
        )
        number = sum(cut)
        while number < until:
            ripe = [(head[0].stored_ms, index) for index, head in enumerate(heads) if head]
            waits = [
                index
                for index, head in enumerate(heads)
                if not head and cut[index] < queues[index].end
            ]
            if (waits or not ripe) and not letters:
                raise Busy(
                    f"no dead letter of {group!r} came", remedy="try again", retry_after_s=1.0
                )
            if waits or not ripe:
                return letters, number
            index = min(ripe)[1]
            stored = heads[index].pop(0)
            cut[index] = stored.offset + 1
            letters[sum(cut) - 1] = stored
            self._note(group, sum(cut) - 1, stored)
            number = sum(cut)
        self._remember(group, number, cut)
        return letters, end if until == high and end > high else number

    async def _ahead(self, queue: LetterQueue, offset: int, count: int) -> list[StoredMessage]:
        if offset >= queue.end:
            return []
        with engine_errors():
            page = await self._client.reads.pull(
                queue.place,
                offset,
                count_max=min(count, READ_AT_ONCE),
                bytes_max=PAGE_BYTES,
                is_from_master=True,
            )
        return [self._stored(each) for each in page.messages if each.offset < queue.end]

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
            self._note(group, number, stored)
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

    def _note(self, group: str, number: int, stored: StoredMessage) -> None:
        self._listed[group, number] = stored.queue, stored.offset, stored.position
        while len(self._listed) > LISTED_MAX:
            self._listed.popitem(last=False)

    async def _listed_before(self, group: str, number: int) -> DeadLetter | None:
        """A letter that was listed here, if it is there still; Busy while its broker is away."""
        if (group, number) not in self._listed:
            return None
        queue, offset, position = self._listed[group, number]
        place = self._numbers.place(f"{DEAD_LETTER_PREFIX}{group}", queue)
        with engine_errors():
            page = await self._client.reads.pull(place, offset, count_max=1)
        there = [self._stored(each) for each in page.messages]
        records = [(each, number) for each in there if each.position == position]
        states = await self._states(group, number, number + 1)
        return next(iter(await self._letters(group, records, states)), None)

    def _remember(self, group: str, number: int, cut: list[int]) -> None:
        self._cuts[group, number] = list(cut)
        while len(self._cuts) > CUTS_MAX:
            self._cuts.popitem(last=False)


def _bounds(queues: list[LetterQueue]) -> tuple[int, int]:
    return sum(each.first for each in queues), sum(each.end for each in queues)
