"""Stores replay jobs in the journal. A change is in force once its method returns.

A copy names its job and the place it comes from (SOURCE): it is the proof that this message is
sent, so progress is journalled after the write and a crash in between is healed by `replayed`.
Progress entries follow from the last copy written: where a power loss took that, they count no
more, and what is left in the log says what was sent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.errors import Busy, NotFound
from engine.legality import check_number
from engine.message import SOURCE, StoredMessage
from engine.replay.job import JobPlan, ReplayState, StoredJob
from engine.replay.legality import (
    check_cuts,
    check_decision,
    check_job_rest,
    check_log,
    check_plan,
    check_progress,
    check_recovered_runs,
)
from engine.replay.outcomes import OutcomeLog, ReplayOutcome
from engine.replay.resent import ResentStore
from engine.replay.selection import FrozenSelection, pack, runs_of, unpack
from engine.store.journal import Journal, JournalEntry

JOBS_MAX = 1000  # kept; the oldest that are over are forgotten
UNFINISHED_MAX = 100
JOBS_BYTES_MAX = 32 * 1024 * 1024  # selections and outcomes of all jobs together
SOURCE_PREFIX = "replay:"
ERROR_CHARS_MAX = 500
SENT_DIGITS = bytes(ord("1" if code == ReplayOutcome.SENT else "0") for code in range(256))

EndOf = Callable[[StoredJob, int], int | None]


class ReplayCreated(JournalEntry, frozen=True, tag="replay_created"):
    """A job, or a dry run of one."""

    plan: JobPlan
    per_s: float
    dry_run: bool


class ReplayBegun(JournalEntry, frozen=True, tag="replay_begun"):
    """A dry run is to be done in earnest, from its first message on."""

    job: str


class ReplayDecided(JournalEntry, frozen=True, tag="replay_decided"):
    """A person paused, resumed or stopped a job, or changed its rate."""

    job: str
    state: ReplayState
    per_s: float
    at_ms: int


class ReplayProgress(JournalEntry, frozen=True, tag="replay_progress"):
    """The outcomes of the messages that follow; `record_end` is where the last copy ends."""

    job: str
    outcomes: bytes
    record_end: int
    at_ms: int
    error: str = ""

    @property
    def follows(self) -> int:
        return self.record_end


class ReplayFound(JournalEntry, frozen=True, tag="replay_found"):
    """Recovery found copies of messages that no progress entry names: runs of (0, index, count)."""

    job: str
    runs: bytes
    record_end: int

    @property
    def follows(self) -> int:
        return self.record_end


class ReplayCut(JournalEntry, frozen=True, tag="replay_cut"):
    """A power loss ended a queue of the source: what was chosen at `offset` and on is lost."""

    job: str
    queue: int
    offset: int


class ReplayForgotten(JournalEntry, frozen=True, tag="replay_forgotten"):
    """The job is known no more."""

    job: str


class ReplayKept(JournalEntry, frozen=True, tag="replay_kept"):
    """All of a job."""

    plan: JobPlan
    per_s: float
    dry_run: bool
    decided: ReplayState
    chunks: list[bytes]
    tail: bytes
    ahead: list[int]
    cuts: dict[int, int]
    record_end: int
    ended_ms: int
    last_error: str


class RecoveredCopy(NamedTuple):
    """A copy that recovery found."""

    queue: int
    offset: int
    end: int


def replay_missing(job_id: str) -> NotFound:
    """The error for a job that there is not, or is forgotten."""
    return NotFound(
        f"there is no replay job {job_id[:100]!r}",
        field="id",
        remedy=f"list the jobs; the newest {JOBS_MAX} are kept",
        code="replay_not_found",
    )


def check_unfinished(jobs: Iterable[StoredJob]) -> None:
    """Busy where too many of these are not over for one more."""
    if sum(not job.is_over for job in jobs) >= UNFINISHED_MAX:
        raise Busy(
            f"{UNFINISHED_MAX} replay jobs are not over yet",
            field="replays",
            remedy="let some finish, or stop them",
            retry_after_s=10.0,
        )


class JobStore:
    """Register it before the journal is loaded, `settle` it after recovery."""

    def __init__(self, journal: Journal, resent: ResentStore) -> None:
        """What jobs send of dead letters is marked in `resent`."""
        self._journal = journal
        self._resent = resent
        self._jobs: dict[str, StoredJob] = {}
        self._recovered_copies: dict[str, list[RecoveredCopy]] = {}
        journal.register(
            (
                ReplayCreated,
                ReplayBegun,
                ReplayDecided,
                ReplayProgress,
                ReplayFound,
                ReplayCut,
                ReplayForgotten,
                ReplayKept,
            ),
            self._apply,
            self._snapshot,
            self._check,
        )

    # -- looking ------------------------------------------------------------------------------

    def get(self, job_id: str) -> StoredJob:
        """The job; raises NotFound, also for one that is forgotten."""
        job = self._jobs.get(job_id)
        if job is None:
            raise replay_missing(job_id)
        return job

    def all(self) -> list[StoredJob]:
        """Every job, the oldest first."""
        return list(self._jobs.values())

    def of_source(self, topic: str, since_position: int) -> Iterator[StoredJob]:
        """Jobs, no dry runs, over the messages of a topic as it is now, the oldest first."""
        for job in self._jobs.values():
            plan = job.plan
            if plan.source == topic and plan.since_position >= since_position and not job.dry_run:
                yield job

    # -- changing -----------------------------------------------------------------------------

    def create(self, plan: JobPlan, *, per_s: float, dry_run: bool) -> StoredJob:
        """Keep a new job; Busy where too many are not over yet, DiskFull."""
        self._make_room(len(plan.runs))
        self._write(ReplayCreated(plan, per_s, dry_run), is_lasting=True)
        return self._jobs[plan.id]

    def begin(self, job: StoredJob) -> None:
        """Do a dry run in earnest."""
        self._write(ReplayBegun(job.plan.id), is_lasting=True)

    def decide(self, job: StoredJob, state: ReplayState, per_s: float, now_ms: int) -> None:
        """Pause, resume, stop, or change the rate."""
        self._write(ReplayDecided(job.plan.id, state, per_s, now_ms), is_lasting=True)

    def advance(
        self, job: StoredJob, outcomes: bytes, now_ms: int, *, record_end: int = 0, error: str = ""
    ) -> None:
        """These are the outcomes of the messages from the cursor on.

        `record_end` is where copies just written end, 0 if there are none; then it cannot be
        refused any more. Else raises DiskFull, and nothing has changed.
        """
        end = record_end or job.record_end
        entry = ReplayProgress(job.plan.id, outcomes, end, now_ms, error[:ERROR_CHARS_MAX])
        if job.dry_run:  # examined anew after a restart
            self._apply(entry)
            return
        self._journal.append(entry, is_owed=record_end > 0)
        self._apply(entry)

    def _make_room(self, size_bytes: int) -> None:
        jobs = self._jobs.values()
        check_unfinished(jobs)
        size_bytes += sum(job.size_bytes for job in jobs)
        count = len(jobs) + 1
        for job in [job for job in jobs if job.is_over]:
            if count <= JOBS_MAX and size_bytes <= JOBS_BYTES_MAX:
                return
            size_bytes -= job.size_bytes
            count -= 1
            self._write(ReplayForgotten(job.plan.id))

    # -- recovery -----------------------------------------------------------------------------

    def replayed(self, message: StoredMessage) -> None:
        """Recovery found this record: if it is a copy, its message is sent."""
        source = message.properties.get(SOURCE, "")
        if source.startswith(SOURCE_PREFIX):
            job_id, queue, offset = source.removeprefix(SOURCE_PREFIX).rsplit("@", 2)
            end = message.position + message.size_bytes
            self._recovered_copies.setdefault(job_id, []).append(
                RecoveredCopy(int(queue), int(offset), end)
            )

    def settle(self, end_of: EndOf) -> None:
        """After recovery: note copies that progress does not know of, and what is lost.

        `end_of` gives where a queue of a job's source ends now, None where the topic is gone.
        """
        for job_id, copies in self._recovered_copies.items():
            job = self._jobs.get(job_id)
            if job is not None:
                self._note(job, copies)
        self._recovered_copies = {}
        for job in self._jobs.values():
            for queue in job.selection.queues:
                end = end_of(job, queue)
                if end is not None and end < job.cuts.get(queue, job.selection.end_of(queue)):
                    self._write(ReplayCut(job.plan.id, queue, end))

    def _note(self, job: StoredJob, copies: Sequence[RecoveredCopy]) -> None:
        indexes = [job.selection.index_of(each.queue, each.offset) for each in copies]
        new = sorted({each for each in indexes if each is not None and each >= job.cursor})
        if new:
            end = max(each.end for each in copies)
            runs = pack(runs_of((0, index) for index in new))
            self._write(ReplayFound(job.plan.id, runs, end), is_owed=True)

    # -- journal ------------------------------------------------------------------------------

    def _write(
        self, entry: JournalEntry, *, is_lasting: bool = False, is_owed: bool = False
    ) -> None:
        self._journal.append(entry, is_lasting=is_lasting, is_owed=is_owed)
        self._apply(entry)

    def _check(self, entry: JournalEntry) -> None:
        """Raises Illegal for a change that cannot be made."""
        check_number("record_end", entry.follows)
        match entry:
            case ReplayCreated():
                check_plan(entry.plan, self._jobs.get)
                check_decision(ReplayState.RUNNING, entry.per_s)
            case ReplayKept():
                check_plan(entry.plan, self._jobs.get)
                check_decision(entry.decided, entry.per_s)
                selected = FrozenSelection.unpack(entry.plan.runs)
                check_log(selected, entry.chunks, entry.tail)
                check_job_rest(selected, entry.ahead, entry.cuts, entry.ended_ms, entry.record_end)
            case ReplayDecided():
                check_decision(entry.state, entry.per_s)
                check_number("at_ms", entry.at_ms)
            case ReplayCut():
                check_cuts({entry.queue: entry.offset})
            case ReplayProgress() if entry.job in self._jobs:
                check_progress(self._jobs[entry.job], entry.outcomes)
                check_number("at_ms", entry.at_ms)
            case ReplayFound() if entry.job in self._jobs:
                check_recovered_runs(self._jobs[entry.job], entry.runs)

    def _apply(self, entry: JournalEntry) -> None:
        match entry:
            case ReplayCreated():
                job = StoredJob(entry.plan, per_s=entry.per_s, dry_run=entry.dry_run)
                self._add(job)
                if job.is_over:
                    job.ended_ms = entry.plan.created_ms
            case ReplayKept():
                job = _restored(entry)
                self._add(job)
                self._mark(job, 0, job.outcomes.between(0, job.cursor))
                self._mark_ahead(job, job.ahead)
            case ReplayForgotten():
                self._remove(entry.job)
            case (
                ReplayBegun() | ReplayDecided() | ReplayProgress() | ReplayFound() | ReplayCut()
            ) if entry.job in self._jobs:
                self._follow(self._jobs[entry.job], entry)
                change_job(self._jobs[entry.job], entry)

    def _follow(self, job: StoredJob, entry: JournalEntry) -> None:
        """Mark the dead letters that a change of a job says are sent, or lost."""
        match entry:
            case ReplayProgress() if not job.dry_run:
                self._mark(job, job.cursor, entry.outcomes)
            case ReplayFound():
                for run in unpack(entry.runs):
                    self._mark_ahead(job, range(run.first, run.first + run.length))
            case ReplayCut():
                self._resent.cut(job.plan.source, entry.offset)

    def _mark(self, job: StoredJob, index: int, codes: bytes) -> None:
        """Mark what was sent of the messages from an index on, which ended so."""
        plan = job.plan
        if ReplayOutcome.SENT not in codes:
            return
        for each in job.selection.stretches(index, len(codes)):
            first, end = each.offsets.start, each.offsets.stop
            count = min(end, job.cuts.get(each.queue, end)) - first
            at = each.nth - index
            sent = codes[at : at + max(0, count)].translate(SENT_DIGITS)[::-1]
            self._resent.mark(plan.source, plan.since_position, first, int(sent or b"0", 2))

    def _mark_ahead(self, job: StoredJob, indexes: Iterable[int]) -> None:
        plan = job.plan
        for index in indexes:
            queue, offset = job.selection.place(index)
            if not job.is_lost(queue, offset):
                self._resent.mark(plan.source, plan.since_position, offset, 1)

    def _add(self, job: StoredJob) -> None:
        self._jobs[job.plan.id] = job
        if job.plan.retry_of in self._jobs:
            self._jobs[job.plan.retry_of].retried_by.append(job.plan.id)

    def _remove(self, job_id: str) -> None:
        job = self._jobs.pop(job_id, None)
        if job is not None and job.plan.retry_of in self._jobs:
            again = self._jobs[job.plan.retry_of].retried_by
            again[:] = [each for each in again if each != job_id]

    def _snapshot(self) -> Iterable[JournalEntry]:
        return [_entry_of(job) for job in self._jobs.values()]


def change_job(job: StoredJob, entry: JournalEntry) -> None:
    """Put a change of a job into force."""
    match entry:
        case ReplayBegun():
            job.dry_run = False
            job.decided = ReplayState.RUNNING
            job.outcomes = OutcomeLog()
            job.ended_ms = 0
            job.rate = None
            job.last_error = ""
        case ReplayDecided():
            job.decided, job.per_s = entry.state, entry.per_s
            job.rate = None
            job.waiting = ""
            job.ended_ms = entry.at_ms if job.is_over else 0
        case ReplayProgress():
            job.outcomes.add(entry.outcomes)
            job.record_end = entry.record_end
            job.ended_ms = entry.at_ms if job.is_over else 0
            job.last_error = entry.error or job.last_error
            if job.ahead:
                job.ahead = {index for index in job.ahead if index >= job.cursor}
        case ReplayFound():
            for run in unpack(entry.runs):
                job.ahead.update(range(run.first, run.first + run.length))
            job.record_end = entry.record_end
        case ReplayCut():
            job.cuts[entry.queue] = entry.offset


def _entry_of(job: StoredJob) -> ReplayKept:
    chunks, tail = ([], b"") if job.dry_run else job.outcomes.packed
    return ReplayKept(
        plan=job.plan,
        per_s=job.per_s,
        dry_run=job.dry_run,
        decided=job.decided,
        chunks=chunks,
        tail=tail,
        ahead=sorted(job.ahead),
        cuts=job.cuts,
        record_end=job.record_end,
        ended_ms=job.ended_ms,
        last_error=job.last_error,
    )


def _restored(entry: ReplayKept) -> StoredJob:
    job = StoredJob(entry.plan, per_s=entry.per_s, dry_run=entry.dry_run, decided=entry.decided)
    job.outcomes = OutcomeLog(entry.chunks, entry.tail)
    job.ahead = set(entry.ahead)
    job.cuts = dict(entry.cuts)
    job.record_end = entry.record_end
    job.ended_ms = entry.ended_ms
    job.last_error = entry.last_error
    return job
