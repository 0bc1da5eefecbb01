"""Reads the messages of a job and decides what becomes of each, as the engine's examiner does."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.reading import READ_COUNT
from app.cluster.replays.copies import JobCopies
from app.cluster.replays.shared_jobs import SharedJobs, sources_of
from app.cluster.verbs.dead_letter_lists import ClusterDeadLetterLists
from app.cluster.verbs.part import ClusterPart
from engine.broker import DEAD_LETTER_PREFIX, ReplayTo, TopicConfig, origin_of
from engine.errors import Busy, GroupNotFound, TopicNotFound
from engine.message import StoredMessage
from engine.replay.copy_planner import CopyPlanner, NotReplayable
from engine.replay.examine import CopyDecision
from engine.replay.job import StoredJob
from engine.replay.outcomes import ReplayOutcome

READ_BYTES = 1024 * 1024  # of one request


class KnownTopics:
    """Topics that were looked up before, for the engine's planners."""

    def __init__(self, topics: Mapping[str, TopicConfig | None]) -> None:
        self._topics = topics

    def find(self, name: str) -> TopicConfig | None:
        """The topic, if it is there."""
        return self._topics.get(name)

    def get(self, name: str) -> TopicConfig:
        """The topic; TopicNotFound."""
        topic = self._topics.get(name)
        if topic is None:
            raise TopicNotFound(
                f"there is no topic {name!r}", field="topic", remedy="create it, or check its name"
            )
        return topic


class ReplayPlace(NamedTuple):
    """The `nth` message of a job (from 0)."""

    nth: int
    queue: int
    offset: int


class ClusterExaminer(ClusterPart):
    """Decides; sends nothing."""

    def __init__(
        self,
        catalog: ClusterCatalog,
        letters: ClusterDeadLetterLists,
        jobs: SharedJobs,
        copies: JobCopies,
    ) -> None:
        super().__init__(catalog)
        self._letters = letters
        self._jobs = jobs
        self._copies = copies

    async def examine(
        self, job: StoredJob, *, count_max: int, sends_max: int
    ) -> list[CopyDecision]:
        """Decisions about the messages from the cursor on, of which `sends_max` may be sent."""
        selected = places_of(job, job.cursor, count_max)
        read = await self.read(job.plan.source, selected)
        selected = [each for each in selected if each.nth in read]
        records = [each for each in read.values() if each is not None]
        planner = await self.planner(job, records)
        sent_before = await self._sent_before(job, selected) if job.plan.fresh_only else set()
        meets = job.plan.conditions.matcher()
        states = None
        if job.plan.dead_letter_state:
            group = job.plan.source.removeprefix(DEAD_LETTER_PREFIX)
            states = await self._letters.states(group)
        decisions: list[CopyDecision] = []
        sends = 0
        for each in selected:
            stored = read[each.nth]
            is_meant = stored is not None and meets(stored)
            if states is not None and is_meant:
                is_meant = states.of(each.offset) == job.plan.dead_letter_state
            if each.nth in job.ahead:
                decision = CopyDecision(*each, ReplayOutcome.SENT)
            elif stored is None:
                decision = CopyDecision(*each, ReplayOutcome.EXPIRED)
            elif not is_meant or each.nth in sent_before:
                left_out = ReplayOutcome.SENT_BEFORE if is_meant else ReplayOutcome.FILTERED
                decision = CopyDecision(*each, left_out, stored.message_id)
            else:
                decision = self._copied(job, each, stored, planner)
            sends += decision.copy is not None
            if sends > sends_max:
                break
            decisions.append(decision)
        return decisions

    async def read(
        self, source: str, places: Sequence[ReplayPlace]
    ) -> dict[int, StoredMessage | None]:
        """The records by index, of as many from the start on as a few requests give.

        None where it is gone. Busy.
        """
        read: dict[int, StoredMessage | None] = {}
        is_dead = source.startswith(DEAD_LETTER_PREFIX)
        at = size_bytes = 0
        while at < len(places):
            first = places[at]
            end = at + 1
            while end < len(places) and places[end] == _after(first, end - at):
                end += 1
            count = end - at
            if is_dead:
                group = source.removeprefix(DEAD_LETTER_PREFIX)
                records, until = await self._letters.read(group, first.offset, first.offset + count)
            else:
                records, until = await self._pulled(source, first, count)
            for each in places[at:end]:
                if each.offset < until:
                    read[each.nth] = records.get(each.offset)
            size_bytes += sum(each.size_bytes for each in records.values())
            if until < first.offset + count or size_bytes >= READ_BYTES:
                break
            at = end
        return read

    async def planner(self, job: StoredJob, records: Sequence[StoredMessage]) -> CopyPlanner:
        """What makes the copies of these records."""
        plan = job.plan
        names = {origin_of(each) for each in records}
        if plan.to is ReplayTo.TOPIC:
            names = {plan.to_name}
        topics = {name: await self.find_topic(name) for name in names if name}
        has_group = plan.to is ReplayTo.GROUP and await self.has_group(plan.to_name)
        return CopyPlanner(KnownTopics(topics), lambda _: has_group)

    async def find_topic(self, name: str) -> TopicConfig | None:
        """A topic, if it is there."""
        try:
            return await self._catalog.topic(name)
        except TopicNotFound:
            return None

    async def has_group(self, name: str) -> bool:
        """Whether there is a group."""
        try:
            await self._catalog.group(name)
        except GroupNotFound:
            return False
        return True

    def _copied(
        self, job: StoredJob, each: ReplayPlace, stored: StoredMessage, planner: CopyPlanner
    ) -> CopyDecision:
        try:
            copy = planner.copy(job.plan, stored)
        except NotReplayable as verdict:
            return CopyDecision(*each, verdict.outcome, stored.message_id, error=verdict.detail)
        if job.plan.to is ReplayTo.GROUP:
            copy.topic = self._copies.retry_topic(stored, copy)
            copy.queue = -1
        outcome = ReplayOutcome.ELIGIBLE if job.dry_run else ReplayOutcome.SENT
        return CopyDecision(*each, outcome, stored.message_id, copy)

    async def _pulled(
        self, source: str, first: ReplayPlace, count: int
    ) -> tuple[dict[int, StoredMessage], int]:
        """Records of a queue by offset, and the offset up to which it was read."""
        try:
            place = await self._place(source, first.queue)
        except TopicNotFound:
            return {}, first.offset + count
        offset, end = first.offset, first.offset + count
        with engine_errors():
            page = await self._client.reads.pull(
                place,
                offset,
                count_max=min(count, READ_COUNT),
                bytes_max=READ_BYTES,
                is_from_master=True,
            )
        if page.next_offset <= offset < page.max_offset:
            raise Busy(f"no message of {source!r} came", remedy="try again", retry_after_s=1.0)
        records = {each.offset: self._stored(each) for each in page.messages if each.offset < end}
        return records, min(end, page.next_offset) if page.next_offset > offset else end

    async def _sent_before(self, job: StoredJob, places: Sequence[ReplayPlace]) -> set[int]:
        others = [
            each
            for each in sources_of(await self._jobs.all(), job.plan.source)
            if each.plan.id != job.plan.id
        ]
        return {each.nth for each in places if jobs_that_sent(others, each.queue, each.offset)}


def places_of(job: StoredJob, index: int, count_max: int) -> list[ReplayPlace]:
    """Messages of a job from an index on."""
    return [
        ReplayPlace(each.nth + step, each.queue, offset)
        for each in job.selection.stretches(index, count_max)
        for step, offset in enumerate(each.offsets)
    ]


def jobs_that_sent(jobs: Sequence[StoredJob], queue: int, offset: int) -> list[str]:
    """The ids of those among the jobs that sent this message, the oldest first."""
    ids: list[str] = []
    for job in jobs:
        nth = job.selection.index_of(queue, offset)
        if nth is not None and job.outcome(nth) == ReplayOutcome.SENT.label:
            ids.append(job.plan.id)
    return ids


def _after(place: ReplayPlace, step: int) -> ReplayPlace:
    return ReplayPlace(place.nth + step, place.queue, place.offset + step)
