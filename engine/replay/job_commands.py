"""Commands to replay jobs: create, begin, pause, resume, stop, retry; where they are kept is open.

A selection is frozen when its job is created: what arrives later is not in it. A dry run is a job
that looks at every message and sends none; `begin` does the same selection in earnest.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from engine.clock import Clock
from engine.errors import Conflict, Invalid, Refused
from engine.replay.job import JobCommand, JobPlan, ReplayState, StoredJob
from engine.replay.selection import OffsetRange, merged, pack
from engine.replay.selection_planner import SelectionPlanner, check_rate, check_request
from engine.replay.values import (
    FailedMessages,
    NewReplay,
    ReplayJob,
    RetryRequest,
    job_view,
)

PAGE_MAX = 200
SEARCHED_MAX = 500_000  # outcomes looked through for one page
RETRIED_RUNS_MAX = 20_000


Jobs = list[ReplayJob]


class JobRunner(Protocol):
    """What runs jobs."""

    def wake(self) -> None:
        """Look at them soon."""


class JobKeeper(Protocol):
    """Where jobs are kept; each change is in force when its method returns."""

    def get(self, job_id: str) -> StoredJob:
        """The job; NotFound."""

    def all(self) -> Sequence[StoredJob]:
        """Every job, the oldest first."""

    def create(self, plan: JobPlan, *, per_s: float, dry_run: bool) -> StoredJob:
        """Keep a new job; Busy where too many are not over yet, DiskFull."""

    def begin(self, job: StoredJob) -> None:
        """Do a dry run in earnest."""

    def decide(self, job: StoredJob, state: ReplayState, per_s: float, now_ms: int) -> None:
        """Pause, resume, stop, or change the rate."""


class JobCommands:
    """Creates and changes jobs, and lists them."""

    def __init__(
        self,
        choice: SelectionPlanner,
        job_store: JobKeeper,
        runner: JobRunner,
        clock: Clock,
        check_running: Callable[[], None],
    ) -> None:
        self._choice = choice
        self._job_store = job_store
        self._runner = runner
        self._clock = clock
        self._check_running = check_running

    # -- changing -----------------------------------------------------------------------------

    def create(self, new: NewReplay) -> ReplayJob:
        """Freeze the selection and begin, or begin to examine where `dry_run` is set.

        At most 10,000 places, 1,024 ranges, 10 million messages. Raises Invalid, TopicNotFound,
        QueueNotFound, GroupNotFound, Forbidden for a topic of the engine's own, Refused where what
        is dismissed cuts the selection into more than 10,000 stretches, Busy where 100 jobs are
        not over yet, DiskFull.
        """
        self._check_running()
        check_request(new)
        source = self._choice.source(new.source)
        to_name = self._choice.destination(new)
        runs = self._choice.freeze(new, source)
        now_ms = self._clock.now_ms()
        plan = JobPlan(
            id=self._new_id(now_ms),
            name=new.name,
            source=source.name,
            since_position=source.since_position,
            runs=pack(runs),
            to=new.to,
            to_name=to_name,
            filter=new.filter.strip() or "*",
            reason=new.reason,
            origin_topic=new.origin_topic,
            fresh_only=new.fresh_only,
            created_ms=now_ms,
            created_by=new.created_by,
            error_class=new.error_class,
            error=new.error,
            client=new.client,
            failures=new.failures,
            dead_letter_state=new.dead_letter_state or "",
        )
        job = self._job_store.create(plan, per_s=new.rate, dry_run=new.dry_run)
        self._runner.wake()
        return job_view(job)

    def begin(self, job_id: str) -> ReplayJob:
        """Do a dry run in earnest: the very messages that it looked at.

        Raises NotFound, Conflict for a job that is no dry run, or where another job tries or tried
        the same failures again, DiskFull.
        """
        self._check_running()
        job = self._job_store.get(job_id)
        if not job.dry_run:
            raise Conflict(
                f"the job {job_id!r} is no dry run",
                field="id",
                remedy="resume it where it is paused, or create another",
            )
        if self._was_retried(job.plan.retry_of) and not job.plan.fresh_only:
            raise Conflict(
                f"the job {job.plan.retry_of!r} was tried again since this dry run was made",
                field="id",
                remedy="make another dry run: it leaves out what was sent meanwhile",
            )
        self._job_store.begin(job)
        self._runner.wake()
        return job_view(job)

    def retry(self, job_id: str, runs: Sequence[OffsetRange], how: RetryRequest) -> ReplayJob:
        """Try again what failed in a job that is over: `runs` as `failed` gives them, no others.

        With the conditions of that job; where it was tried again before, `fresh_only` as well, so
        that nothing is sent twice. Raises NotFound, Invalid, Conflict for a job that is not over,
        is a dry run, has no failures or is being tried again, Refused where those lie in more than
        20,000 stretches, Busy where 100 jobs are not over yet, DiskFull, and what `create` raises
        for the target.
        """
        self._check_running()
        job = self._retryable(job_id)
        before = job.plan
        new = NewReplay(
            source=before.source,
            to=how.to or before.to,
            to_name=how.to_name if how.to else before.to_name,
            name=how.name,
            rate=how.rate,
        )
        check_request(new)
        _check_stretches(runs)
        now_ms = self._clock.now_ms()
        plan = msgspec.structs.replace(
            before,
            id=self._new_id(now_ms),
            name=new.name,
            runs=pack(merged(runs)),
            to=new.to,
            to_name=self._choice.destination(new),
            fresh_only=before.fresh_only or self._was_retried(job_id),
            created_ms=now_ms,
            created_by=how.created_by,
            retry_of=job_id,
        )
        created = self._job_store.create(plan, per_s=how.rate, dry_run=how.dry_run)
        self._runner.wake()
        return job_view(created)

    def pause(self, job_id: str) -> ReplayJob:
        """Send nothing until `resume`. Raises NotFound, Conflict unless it runs, DiskFull."""
        return self._decide(job_id, JobCommand.PAUSE)

    def resume(self, job_id: str) -> ReplayJob:
        """Go on, at the job's rate. Raises NotFound, Conflict unless it is paused, DiskFull."""
        return self._decide(job_id, JobCommand.RESUME)

    def stop(self, job_id: str) -> ReplayJob:
        """End it: what was not sent never is. Raises NotFound, Conflict when it is over."""
        return self._decide(job_id, JobCommand.STOP)

    def change_rate(self, job_id: str, rate: float) -> ReplayJob:
        """Messages a second from now on, 0 for no limit. Raises NotFound, Invalid, Conflict."""
        self._check_running()
        check_rate(rate)
        job = self._job_store.get(job_id)
        if job.is_over:
            raise Conflict(f"the job {job_id!r} is {job.state}", field="id")
        self._job_store.decide(job, job.decided, rate, self._clock.now_ms())
        self._runner.wake()
        return job_view(job)

    # -- looking ------------------------------------------------------------------------------

    def get(self, job_id: str) -> ReplayJob:
        """One job; NotFound, also for one that is forgotten."""
        return job_view(self._job_store.get(job_id))

    def list(
        self, *, source: str = "", state: str = "", after: str = "", count_max: int = 50
    ) -> Jobs:
        """Jobs, the newest first, at most 200, those older than the job `after`; Invalid."""
        if state and state not in list(ReplayState):
            raise Invalid(
                f"{state[:40]!r} is no state of a job",
                field="state",
                remedy=f"choose one of {', '.join(ReplayState)}",
            )
        jobs: Jobs = []
        for job in reversed(self._job_store.all()):
            if after and job.plan.id >= after:
                continue
            if source in ("", job.plan.source) and state in ("", job.state):
                jobs.append(job_view(job))
                if len(jobs) >= min(count_max, PAGE_MAX):
                    break
        return jobs

    def failed(self, job_id: str, start: int = 0) -> FailedMessages:
        """What could not be sent, of 500,000 messages from the index `start` on.

        Raises what `retry` does for the job.
        """
        job = self._retryable(job_id)
        stop = min(job.selection.count, start + SEARCHED_MAX)
        runs: list[OffsetRange] = []
        for indexes in job.outcomes.failed(start, stop):
            for _, queue, offsets in job.selection.stretches(indexes.start, len(indexes)):
                runs.append(OffsetRange(queue, offsets.start, len(offsets)))
            _check_stretches(runs)
        return FailedMessages(runs, stop if stop < job.selection.count else None)

    # -- inside -------------------------------------------------------------------------------

    def _retryable(self, job_id: str) -> StoredJob:
        job = self._job_store.get(job_id)
        if job.is_over and not job.dry_run and job.failed:
            return job
        why = "is a dry run" if job.dry_run else "has no failures" if job.is_over else "is not over"
        raise Conflict(
            f"the job {job_id!r} {why}: there is nothing to try again",
            field="id",
            remedy="begin it" if job.dry_run else "look at its outcomes",
        )

    def _was_retried(self, job_id: str) -> bool:
        """Whether what failed in a job was tried again in earnest; Conflict while it is."""
        retries = [job for job in self._job_store.all() if job_id and job.plan.retry_of == job_id]
        earnest = [job for job in retries if not job.dry_run]
        for job in earnest:
            if not job.is_over:
                raise Conflict(
                    f"the job {job.plan.id!r} is trying the same again",
                    field="id",
                    remedy="wait until it is over, or stop it",
                )
        return bool(earnest)

    def _decide(self, job_id: str, verb: JobCommand) -> ReplayJob:
        self._check_running()
        job = self._job_store.get(job_id)
        self._job_store.decide(job, job.after(verb), job.per_s, self._clock.now_ms())
        self._runner.wake()
        return job_view(job)

    def _new_id(self, now_ms: int) -> str:
        """Unique also where a power loss took the newest jobs: copies may still name them."""
        newest = max((int(job.plan.id, 16) for job in self._job_store.all()), default=0)
        return f"{max(now_ms, newest + 1):012x}"


def _check_stretches(runs: Sequence[OffsetRange]) -> None:
    if len(runs) > RETRIED_RUNS_MAX:
        raise Refused(
            f"what failed lies in more than {RETRIED_RUNS_MAX:,} stretches",
            field="id",
            remedy="choose it by reason, topic, tag or time in another job",
        )
