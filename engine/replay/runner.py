"""The service that runs jobs: in bounded steps, at their rate, one job after another.

Copies are written first, then progress; see `job_store.py`. While the log refuses writes nothing is
passed over: the jobs wait, and say why.
"""

from collections.abc import Sequence

from engine.context import EngineContext
from engine.errors import Busy, Corrupt, EngineError
from engine.events import Replayed
from engine.replay.examine import CopyDecision, Examiner
from engine.replay.job import ReplayState, StoredJob
from engine.replay.job_store import JobStore
from engine.replay.outcomes import ReplayOutcome
from engine.service import IDLE_WAIT_MAX_S, Service

SENDS_MAX = 100  # in one step
EXAMINED_MAX = 200  # where conditions leave some out


class ReplayRunner(Service):
    """At most 200 messages looked at, 100 of them sent, in a tick."""

    name = "replays"

    def __init__(
        self,
        context: EngineContext,
        job_store: JobStore,
        examiner: Examiner,
    ) -> None:
        super().__init__()
        self._job_store = job_store
        self._examiner = examiner
        self._store = context.store
        self._intake = context.intake
        self._clock = context.clock
        self._events = context.events
        self._last = ""  # the job of the last step: the next one's turn follows

    def tick(self) -> float:
        """One step of one job; seconds until the next is useful."""
        jobs = [job for job in self._job_store.all() if job.state is ReplayState.RUNNING]
        job = self._next(jobs)
        if job is not None:
            self._last = job.plan.id
            try:
                self._step(job)
            except Busy as error:
                for each in jobs:
                    each.waiting = error.detail
                return error.retry_after_s
        for each in jobs:
            each.waiting = ""
        running = [each for each in jobs if each.state is ReplayState.RUNNING]
        return min((self._wait_s(each) for each in running), default=IDLE_WAIT_MAX_S)

    def _next(self, jobs: Sequence[StoredJob]) -> StoredJob | None:
        """The job whose turn it is, of those that may send now."""
        ready = [job for job in jobs if self._allowed(job) > 0]
        later = [job for job in ready if job.plan.id > self._last]
        return next(iter(later or ready), None)

    def _allowed(self, job: StoredJob) -> int:
        if job.dry_run:
            return EXAMINED_MAX
        return job.allowed(self._clock.monotonic_s(), SENDS_MAX)

    def _wait_s(self, job: StoredJob) -> float:
        return 0.0 if job.dry_run or job.rate is None else job.rate.wait_s()

    def _step(self, job: StoredJob) -> None:
        allowed = self._allowed(job)
        count_max = min(allowed, EXAMINED_MAX) if job.plan.is_plain else EXAMINED_MAX
        decisions = self._examiner.examine(job, count_max=count_max, sends_max=allowed)
        now_ms = self._clock.now_ms()
        record_end = 0
        if not job.dry_run:
            decisions, record_end = self._send(decisions)
        codes = bytes(decision.outcome for decision in decisions)
        error = next((each.error for each in reversed(decisions) if each.error), "")
        self._job_store.advance(job, codes, now_ms, record_end=record_end, error=error)
        if not job.dry_run:
            assert job.rate is not None
            job.rate.spend(sum(decision.copy is not None for decision in decisions))
            self._tell(job, decisions, now_ms)

    def _send(self, decisions: list[CopyDecision]) -> tuple[list[CopyDecision], int]:
        """Write the copies; the decisions that were carried out, and where the copies end.

        Where one cannot be written as it is, those before it go first.
        """
        while True:
            copies = [decision.copy for decision in decisions if decision.copy is not None]
            if not copies:
                return decisions, 0
            self._store.check_room()
            try:
                return decisions, self._intake.put(copies).flush_position
            except (Busy, Corrupt):
                raise
            except EngineError as error:
                if len(copies) == 1:
                    return [_refused(each, error) for each in decisions], 0
                decisions = _first_half(decisions, len(copies) // 2)

    def _tell(self, job: StoredJob, decisions: Sequence[CopyDecision], now_ms: int) -> None:
        if not self._events.has_subscribers:
            return
        for each in decisions:
            if each.outcome is not ReplayOutcome.FILTERED:
                self._events.emit(
                    Replayed(
                        at_ms=now_ms,
                        job=job.plan.id,
                        topic=job.plan.source,
                        queue=each.queue,
                        offset=each.offset,
                        outcome=each.outcome.label,
                        message_id=each.message_id,
                        to_topic="" if each.copy is None else each.copy.topic,
                    )
                )


def _refused(decision: CopyDecision, error: EngineError) -> CopyDecision:
    if decision.copy is None:
        return decision
    return decision._replace(outcome=ReplayOutcome.REFUSED, copy=None, error=error.detail)


def _first_half(decisions: list[CopyDecision], copies_max: int) -> list[CopyDecision]:
    """The decisions up to the one after so many copies."""
    copies = 0
    for number, decision in enumerate(decisions):
        copies += decision.copy is not None
        if copies > copies_max:
            return decisions[:number]
    return decisions
