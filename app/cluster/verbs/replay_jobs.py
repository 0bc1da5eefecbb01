"""The verbs of replay jobs as a cluster answers them; SQL keeps the jobs.

The engine's own commands decide, over what was read before. A change is written where nobody else
has changed the job meanwhile, else the command is given once more.
"""

from collections.abc import Callable, Sequence

from app.administration import ReplayVerbs
from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.replays.examiner import ClusterExaminer, KnownTopics, ReplayPlace
from app.cluster.replays.letter_marks import LetterMarks
from app.cluster.replays.shared_jobs import SharedJob, SharedJobs, packed_outcomes
from app.cluster.verbs.dead_letter_lists import ClusterDeadLetterLists
from app.cluster.verbs.part import ClusterPart, all_of
from engine.broker import (
    DEAD_LETTER_PREFIX,
    GROUP_QUEUE,
    NewReplay,
    ReplayJob,
    ReplayJobs,
    ReplayOutcomePage,
    ReplayState,
    ReplayTo,
    RetryRequest,
    TopicConfig,
)
from engine.clock import Clock
from engine.errors import Conflict
from engine.replay.dismissed_offsets import DismissedOffsets
from engine.replay.job import JobPlan, StoredJob
from engine.replay.job_commands import JobCommands
from engine.replay.job_store import (
    ReplayBegun,
    ReplayDecided,
    change_job,
    check_unfinished,
    replay_missing,
)
from engine.replay.replays import outcome_indexes, outcome_row
from engine.replay.selection import OffsetRange
from engine.replay.selection_planner import SelectionPlanner
from engine.replay.values import FailedMessages

TRIES = 5


class KnownBounds:
    """What is kept of a topic's queues, read before."""

    def __init__(self) -> None:
        self.queues: dict[int, tuple[int, int]] = {}
        self.times: dict[tuple[int, int], int] = {}
        self.dismissed = DismissedOffsets(0)

    def bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The first offset that is kept, and the one after the last."""
        return self.queues[queue]

    def offset_at_time(self, topic: str, queue: int, time_ms: int) -> int:
        """The first offset that was stored then or later."""
        return self.times[queue, time_ms]

    def dismissed_offsets(self, topic: str) -> DismissedOffsets:
        """What is dismissed of it."""
        return self.dismissed


class LoadedJobs:
    """Jobs that were read before, and the one that a command made or changed."""

    def __init__(self, jobs: dict[str, SharedJob]) -> None:
        self._jobs = jobs
        self.created: StoredJob | None = None
        self.changed: tuple[SharedJob, ReplayBegun | ReplayDecided] | None = None

    def get(self, job_id: str) -> SharedJob:
        """The job; NotFound."""
        job = self._jobs.get(job_id)
        if job is None:
            raise replay_missing(job_id)
        return job

    def all(self) -> Sequence[StoredJob]:
        """Every job, the oldest first."""
        return list(self._jobs.values())

    def create(self, plan: JobPlan, *, per_s: float, dry_run: bool) -> StoredJob:
        """A new job, to be written; Busy where too many are not over yet."""
        check_unfinished(self._jobs.values())
        self.created = StoredJob(plan, per_s=per_s, dry_run=dry_run)
        return self.created

    def begin(self, job: StoredJob) -> None:
        """Do a dry run in earnest."""
        self._change(job, ReplayBegun(job.plan.id))

    def decide(self, job: StoredJob, state: ReplayState, per_s: float, now_ms: int) -> None:
        """Pause, resume, stop, or change the rate."""
        self._change(job, ReplayDecided(job.plan.id, state, per_s, now_ms))

    def wake(self) -> None:
        """Nothing: the change wakes the runner once it is written."""

    def _change(self, job: StoredJob, entry: ReplayBegun | ReplayDecided) -> None:
        change_job(job, entry)
        self.changed = self.get(job.plan.id), entry


class ClusterReplayVerbs(ClusterPart, ReplayVerbs):
    """`ReplayVerbs` of a cluster."""

    def __init__(
        self,
        catalog: ClusterCatalog,
        letters: ClusterDeadLetterLists,
        marks: LetterMarks,
        jobs: SharedJobs,
        examiner: ClusterExaminer,
        clock: Clock,
    ) -> None:
        super().__init__(catalog)
        self._letters = letters
        self._marks = marks
        self._jobs = jobs
        self._examiner = examiner
        self._clock = clock

    @property
    def _engine(self) -> ReplayJobs:
        raise not_supported("has no such verb", field="replays", remedy="use the cluster's tools")

    async def create(self, new: NewReplay) -> ReplayJob:
        """As the engine's."""
        planner = await self._planner(new)
        return await self._command(lambda commands: commands.create(new), planner)

    async def begin(self, job_id: str) -> ReplayJob:
        """As the engine's."""
        return await self._command(lambda commands: commands.begin(job_id))

    async def retry(self, job_id: str, runs: Sequence[OffsetRange], how: RetryRequest) -> ReplayJob:
        """As the engine's."""
        before = LoadedJobs(await self._jobs.all()).get(job_id).plan
        target = NewReplay(
            source=before.source,
            to=how.to or before.to,
            to_name=how.to_name if how.to else before.to_name,
        )
        planner = await self._planner(target)
        return await self._command(lambda commands: commands.retry(job_id, runs, how), planner)

    async def failed(self, job_id: str, start: int = 0) -> FailedMessages:
        """As the engine's."""
        return self._commands(LoadedJobs(await self._jobs.all())).failed(job_id, start)

    async def pause(self, job_id: str) -> ReplayJob:
        """As the engine's."""
        return await self._command(lambda commands: commands.pause(job_id))

    async def resume(self, job_id: str) -> ReplayJob:
        """As the engine's."""
        return await self._command(lambda commands: commands.resume(job_id))

    async def stop(self, job_id: str) -> ReplayJob:
        """As the engine's; what is on its way at this moment is still sent."""
        return await self._command(lambda commands: commands.stop(job_id))

    async def change_rate(self, job_id: str, rate: float) -> ReplayJob:
        """As the engine's."""
        return await self._command(lambda commands: commands.change_rate(job_id, rate))

    async def get(self, job_id: str) -> ReplayJob:
        """As the engine's."""
        return self._commands(LoadedJobs(await self._jobs.all())).get(job_id)

    async def list(
        self, *, source: str = "", state: str = "", after: str = "", count_max: int = 50
    ) -> list[ReplayJob]:
        """As the engine's."""
        commands = self._commands(LoadedJobs(await self._jobs.all()))
        return commands.list(source=source, state=state, after=after, count_max=count_max)

    async def outcomes(
        self, job_id: str, *, outcome: str = "", after: int = -1, count_max: int = 50
    ) -> ReplayOutcomePage:
        """As the engine's."""
        job = LoadedJobs(await self._jobs.all()).get(job_id)
        indexes, following = outcome_indexes(job, outcome, after=after, count_max=count_max)
        places = [ReplayPlace(index, *job.selection.place(index)) for index in indexes]
        read = await self._examiner.read(job.plan.source, places)
        rows = [outcome_row(job, index, read[index]) for index in indexes if index in read]
        if len(rows) < len(indexes):
            following = rows[-1].index
        return ReplayOutcomePage(rows, following)

    # -- inside ---------------------------------------------------------------------------------

    async def _command(
        self,
        give: Callable[[JobCommands], ReplayJob],
        planner: SelectionPlanner | None = None,
    ) -> ReplayJob:
        for _ in range(TRIES):
            loaded = LoadedJobs(await self._jobs.all())
            view = give(self._commands(loaded, planner))
            if loaded.created is not None:
                await self._jobs.add(loaded.created)
                return view
            if loaded.changed is None:
                return view
            job, entry = loaded.changed
            try:
                is_done = await self._jobs.change(job, _values_of(job, entry))
            except BaseException:
                self._jobs.forget(job.plan.id)
                raise
            if is_done:
                return view
        raise Conflict("the job changes at this moment", field="id", remedy="try again")

    def _commands(self, loaded: LoadedJobs, planner: SelectionPlanner | None = None) -> JobCommands:
        choice = planner or SelectionPlanner(
            KnownBounds(), KnownTopics({}), lambda _: False, KnownBounds()
        )
        return JobCommands(choice, loaded, loaded, self._clock, lambda: None)

    async def _planner(self, new: NewReplay) -> SelectionPlanner:
        """What chooses messages for a job, over what is read now."""
        bounds = KnownBounds()
        topics: dict[str, TopicConfig | None] = {}
        names = {new.source, new.to_name if new.to is ReplayTo.TOPIC else ""} - {""}
        for name in names:
            topics[name] = await self._examiner.find_topic(name)
        source = topics[new.source]
        if new.source.startswith(DEAD_LETTER_PREFIX) and source is not None:
            group = new.source.removeprefix(DEAD_LETTER_PREFIX)
            topics[new.source] = TopicConfig(new.source, read_queues=1, write_queues=1)
            bounds.queues[GROUP_QUEUE] = await self._letters.bounds(group)
            for time_ms in (new.from_ms, new.to_ms):
                at = await self._letters.offset_at_time(group, time_ms) if time_ms else 0
                bounds.times[GROUP_QUEUE, time_ms] = at
            bounds.dismissed = (await self._marks.of(new.source)).dismissed
        elif source is not None:
            queues = range(max(source.read_queues, source.write_queues))
            await all_of(self._read_bounds(bounds, new, queue) for queue in queues)
        group = new.to_name or new.source.removeprefix(DEAD_LETTER_PREFIX)
        has_group = new.to is ReplayTo.GROUP and await self._examiner.has_group(group)
        return SelectionPlanner(bounds, KnownTopics(topics), lambda _: has_group, bounds)

    async def _read_bounds(self, bounds: KnownBounds, new: NewReplay, queue: int) -> None:
        place = self._numbers.place(new.source, queue)
        with engine_errors():
            reads = self._client.reads
            bounds.queues[queue] = await reads.min_offset(place), await reads.max_offset(place)
            for time_ms in (new.from_ms, new.to_ms):
                at = await reads.offset_at(place, time_ms) if time_ms else 0
                bounds.times[queue, time_ms] = at


def _values_of(job: StoredJob, entry: ReplayBegun | ReplayDecided) -> dict[str, object]:
    """The columns that a change of a job changes."""
    values: dict[str, object] = {
        "decided": job.decided.value,
        "per_s": job.per_s,
        "ended_ms": job.ended_ms,
        "waiting": "",
    }
    if isinstance(entry, ReplayBegun):
        values |= {
            "dry_run": False,
            "outcomes": packed_outcomes(job),
            "examined": 0,
            "doubt": 0,
            "last_error": "",
        }
    return values
