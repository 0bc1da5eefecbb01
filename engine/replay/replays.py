"""Operations on replay jobs of the engine: the commands, and the outcomes of their messages.

A selection is frozen when its job is created: what arrives later is not in it. A dry run is a job
that looks at every message and sends none; `begin` does the same selection in earnest. `runner.py`
runs them.
"""

from collections.abc import Callable

from engine.clock import Clock
from engine.errors import Invalid
from engine.message import StoredMessage
from engine.replay.conditions import origin_of
from engine.replay.examine import Examiner
from engine.replay.job import JobPlan, ReplayTo, StoredJob
from engine.replay.job_commands import PAGE_MAX, SEARCHED_MAX, JobCommands
from engine.replay.job_store import JobStore
from engine.replay.outcomes import LABELS, PENDING, STOPPED, ReplayOutcome
from engine.replay.runner import ReplayRunner
from engine.replay.selection_planner import SelectionPlanner
from engine.replay.values import OutcomeRow, ReplayOutcomePage
from engine.topic.names import retry_topic


class ReplayJobs(JobCommands):
    """The verbs; each change is durable when it returns (in the page cache, as a send is)."""

    def __init__(
        self,
        choice: SelectionPlanner,
        job_store: JobStore,
        examiner: Examiner,
        runner: ReplayRunner,
        clock: Clock,
        check_running: Callable[[], None],
    ) -> None:
        super().__init__(choice, job_store, runner, clock, check_running)
        self._examiner = examiner

    def outcomes(
        self, job_id: str, *, outcome: str = "", after: int = -1, count_max: int = 50
    ) -> ReplayOutcomePage:
        """Outcomes of messages, at most 200 and 1 MiB of records; or those of one outcome.

        A page for one outcome looks through at most 500,000 messages, so it may be short or empty
        although `next` says that there is more. Raises NotFound, Invalid.
        """
        job = self._job_store.get(job_id)
        indexes, following = outcome_indexes(job, outcome, after=after, count_max=count_max)
        selected = [each for index in indexes for each in self._examiner.select(job, index, 1)]
        candidates = [
            (each.entry, each.queue) for each in selected if each.entry and each.entry.has_record
        ]
        read = self._examiner.read(job.plan.source, candidates)
        if len(read) < len(candidates):
            last = candidates[len(read)][0]
            selected = selected[: [each.entry for each in selected].index(last)]
        rows = [
            outcome_row(job, each.nth, read.get(each.entry) if each.entry else None)
            for each in selected
        ]
        if len(selected) < len(indexes):
            following = selected[-1].nth
        return ReplayOutcomePage(rows, following)


def outcome_indexes(
    job: StoredJob, outcome: str, *, after: int, count_max: int
) -> tuple[list[int], int | None]:
    """The messages of one outcome, or all, and the index after which to go on; Invalid."""
    if outcome and outcome not in LABELS:
        raise Invalid(
            f"{outcome[:40]!r} is no outcome",
            field="outcome",
            remedy=f"choose one of {', '.join(LABELS)}",
        )
    count_max = max(1, min(count_max, PAGE_MAX))
    start = max(0, after + 1)
    stop = min(job.selection.count, start + (SEARCHED_MAX if outcome else count_max))
    indexes = _indexes(job, outcome, start, stop, count_max)
    next_index = stop if len(indexes) < count_max else indexes[-1] + 1
    return indexes, next_index - 1 if next_index < job.selection.count else None


def _indexes(job: StoredJob, outcome: str, start: int, stop: int, count_max: int) -> list[int]:
    """The messages of one outcome, or all, from `start` on."""
    page: list[int] = []
    if not outcome:
        return list(range(start, min(stop, start + count_max)))
    if outcome in (PENDING, STOPPED):
        candidates = iter(range(max(start, job.cursor), stop) if job.rest == outcome else ())
        unfinished = (index for index in candidates if index not in job.ahead)
    else:
        ahead = sorted(index for index in job.ahead if start <= index < stop)
        code = ReplayOutcome[outcome.upper()]
        unfinished = (
            index
            for indexes in (
                job.outcomes.find(code, start, stop),
                ahead if code is ReplayOutcome.SENT else (),
            )
            for index in indexes
        )
    for index in unfinished:
        if len(page) == count_max:
            break
        page.append(index)
    return page


def outcome_row(job: StoredJob, nth: int, stored: StoredMessage | None) -> OutcomeRow:
    """What became of the message with an index, as far as it can still be read."""
    place = (nth, *job.selection.place(nth), job.outcome(nth))
    if stored is None:
        return OutcomeRow(*place, "", "", (), "")
    return OutcomeRow(*place, stored.message_id, stored.tag, stored.keys, _target(job.plan, stored))


def _target(plan: JobPlan, stored: StoredMessage) -> str:
    if plan.to is ReplayTo.GROUP:
        return retry_topic(plan.to_name)
    return plan.to_name if plan.to is ReplayTo.TOPIC else origin_of(stored)
