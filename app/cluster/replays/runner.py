"""Runs the jobs of a cluster whose lease this server gets: in bounded steps, at their rate.

A step notes how many messages it is about to send, sends them one by one, and writes what became of
them. Where it ends in between, the server that goes on looks for these copies in the cluster first.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from app.cluster.replays.copies import InDoubt, JobCopies
from app.cluster.replays.examiner import ClusterExaminer
from app.cluster.replays.letter_marks import LetterMarks
from app.cluster.replays.shared_jobs import SharedJob, SharedJobs
from app.db.rows import LetterMarksRow
from app.tasks import end_tasks
from engine.broker import DEAD_LETTER_PREFIX, ReplayState
from engine.clock import Clock
from engine.errors import Busy, EngineError
from engine.replay.examine import CopyDecision
from engine.replay.job import StoredJob
from engine.replay.job_store import ERROR_CHARS_MAX, ReplayProgress, change_job
from engine.replay.outcomes import ReplayOutcome

log = logging.getLogger("kitemq.replays")

SENDS_MAX = 100  # in one step ...
SEND_S = 5.0  # ... and about so long, a third of a lease
EXAMINED_MAX = 200
LOOK_S = 2.0  # between looks for what another server, or a lost lease, left
SETTLE_S = 3.0  # after which a request without an answer is stored or dropped


class ClusterReplayRunner:
    """Between `start` and `stop`; one step of one job at a time."""

    def __init__(
        self,
        jobs: SharedJobs,
        marks: LetterMarks,
        examiner: ClusterExaminer,
        copies: JobCopies,
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._marks = marks
        self._examiner = examiner
        self._copies = copies
        self._clock = clock
        self._last = ""  # the job of the last step: the next one's turn follows
        self._not_before: dict[str, float] = {}  # by job, for what is in doubt
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for jobs."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Leave off, and let others take over."""
        await end_tasks(self._task)
        try:
            await self._jobs.release()
        except EngineError as error:
            log.warning("leases of replay jobs end by themselves: %s", error.detail)

    async def tick(self) -> float:
        """One step of one job; seconds until the next is useful."""
        jobs = [each for each in (await self._jobs.all()).values() if _is_running(each)]
        waits = [LOOK_S]
        later = [each for each in jobs if each.plan.id > self._last]
        for job in later + [each for each in jobs if each not in later]:
            wait_s = self._wait_s(job)
            if wait_s > 0:
                waits.append(wait_s)
            elif await self._jobs.lease(job, self._clock.now_ms()):
                self._last = job.plan.id
                try:
                    await self._step(job)
                except Busy as error:
                    await self._wait(job, error)
                return 0.0 if job.plan.id not in self._not_before else min(waits)
        return min(waits)

    async def _run(self) -> None:
        said = ""
        while True:
            self._jobs.changed.clear()
            try:
                wait_s = await self.tick()
                said = ""
            except EngineError as error:
                if error.detail != said:
                    said = error.detail
                    log.warning("replay jobs wait: %s", said)
                wait_s = LOOK_S
            except Exception:
                log.exception("a step of a replay job failed")
                wait_s = LOOK_S
            if wait_s > 0:
                try:
                    async with asyncio.timeout(wait_s):
                        await self._jobs.changed.wait()
                except TimeoutError:
                    pass
            else:
                await asyncio.sleep(0)

    def _wait_s(self, job: SharedJob) -> float:
        rest_s = self._not_before.get(job.plan.id, 0.0) - self._clock.monotonic_s()
        if rest_s > 0:
            return rest_s
        self._not_before.pop(job.plan.id, None)
        return 0.0 if self._allowed(job) > 0 or job.rate is None else job.rate.wait_s()

    def _allowed(self, job: SharedJob) -> int:
        if job.dry_run:
            return EXAMINED_MAX
        return job.allowed(self._clock.monotonic_s(), SENDS_MAX)

    async def _wait(self, job: SharedJob, error: Busy) -> None:
        """Say why a job does not go on, and try again later."""
        self._not_before[job.plan.id] = self._clock.monotonic_s() + SETTLE_S
        if job.waiting != error.detail:
            job.waiting = error.detail
            await self._jobs.change(job, {"waiting": error.detail})

    async def _step(self, job: SharedJob) -> None:
        before = job.row.doubt
        count_max = await self._look_back(job, before) if before else EXAMINED_MAX
        allowed = min(max(1, self._allowed(job)), SENDS_MAX)
        decisions = await self._examiner.examine(job, count_max=count_max, sends_max=allowed)
        doubt, failure = 0, None
        if not job.dry_run and any(each.copy for each in decisions):
            if not await self._jobs.announce(job, max(len(decisions), before)):
                return  # another server has the job
            decisions, doubt, failure = await self._send(decisions)
        await self._note(job, decisions, max(doubt, before - len(decisions)))
        if failure is not None:
            raise failure

    async def _look_back(self, job: SharedJob, doubt: int) -> int:
        """Find which of the messages in doubt were sent; how many were looked at."""
        decisions = await self._examiner.examine(job, count_max=doubt, sends_max=doubt)
        for each in decisions:
            if each.copy is not None and await self._copies.is_there(each.copy):
                job.ahead.add(each.nth)
        return len(decisions)

    async def _send(
        self, decisions: list[CopyDecision]
    ) -> tuple[list[CopyDecision], int, Busy | None]:
        """Send the copies: the decisions that were carried out, what is in doubt, why it ended."""
        end_s = time.monotonic() + SEND_S
        for index, each in enumerate(decisions):
            if each.copy is None:
                continue
            if time.monotonic() > end_s:
                return decisions[:index], 0, None
            try:
                await self._copies.send(each.copy)
            except InDoubt as error:
                return decisions[:index], 1, Busy(str(error), retry_after_s=SETTLE_S)
            except Busy as error:
                return decisions[:index], 0, error
            except EngineError as error:
                refused = ReplayOutcome.REFUSED
                decisions[index] = each._replace(outcome=refused, copy=None, error=error.detail)
        return decisions, 0, None

    async def _note(self, job: SharedJob, decisions: Sequence[CopyDecision], doubt: int) -> None:
        plan, now_ms = job.plan, self._clock.now_ms()
        sent = [each for each in decisions if each.outcome is ReplayOutcome.SENT]
        marks: LetterMarksRow | None = None
        if sent and plan.source.startswith(DEAD_LETTER_PREFIX):
            before = await self._marks.of(plan.source)
            runs = [range(each.offset, each.offset + 1) for each in sent]
            marks = self._marks.with_resent(plan.source, before, runs)
        error = next((each.error for each in reversed(decisions) if each.error), "")
        codes = bytes(each.outcome for each in decisions)
        change_job(job, ReplayProgress(plan.id, codes, 0, now_ms, error[:ERROR_CHARS_MAX]))
        is_noted = await self._jobs.advance(job, doubt, marks)
        if marks is not None:
            self._marks.forget(plan.source)
        if is_noted and job.rate is not None and not job.dry_run:
            job.rate.spend(sum(each.copy is not None for each in decisions))


def _is_running(job: StoredJob) -> bool:
    return job.state is ReplayState.RUNNING
