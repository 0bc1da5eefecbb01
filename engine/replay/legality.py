"""Checks whether a change of a replay job is legal, before it is journalled.

What it names must be a job's own: outcomes of messages that are selected, in codes that there are.
A change of a job that is forgotten does nothing, so it may hold anything that can be read.
"""

import re
from array import array
from collections.abc import Callable, Sequence

from engine.delivery.filter import parse_filter
from engine.errors import Illegal
from engine.legality import (
    check_all,
    check_by,
    check_columns,
    check_number,
    check_queue,
    check_text,
    unpacked,
)
from engine.replay.job import JobPlan, ReplayState, StoredJob
from engine.replay.outcomes import CHUNK, ReplayOutcome
from engine.replay.selection import NUMBER_BYTES, FrozenSelection, OffsetRange, unpack

FindJob = Callable[[str], StoredJob | None]
RUN_BYTES = 3 * NUMBER_BYTES
CODES = bytes(ReplayOutcome)
JOB_ID = re.compile("[0-9a-f]{1,15}")  # ms since 1970 UTC: the next one is higher


def check_plan(plan: JobPlan, find: FindJob) -> None:
    """A job that is new can be made of it."""
    if find(plan.id) is not None:
        raise Illegal(f"there is a replay job {plan.id[:100]!r} already")
    if not JOB_ID.fullmatch(plan.id):
        raise Illegal(f"{plan.id[:100]!r} is no id of a replay job")
    check_text("source", plan.source)
    check_text("to_name", plan.to_name)
    check_number("since_position", plan.since_position)
    check_number("created_ms", plan.created_ms)
    check_by(parse_filter, plan.filter)
    last = OffsetRange(0, 0, 0)
    for run in _runs(plan.runs):
        check_queue(run.queue)
        is_behind = run.queue > last.queue or run.first >= last.first + last.length
        if run.queue < last.queue or not is_behind:
            raise Illegal("the selection is not in order of queue and offset")
        last = run


def check_decision(state: ReplayState, per_s: float) -> None:
    """A person can have decided so."""
    if state is ReplayState.FINISHED:
        raise Illegal("nobody decides that a job is finished")
    if not 0 <= per_s < float("inf"):
        raise Illegal(f"{per_s} messages a second are no rate")


def check_outcomes(codes: bytes) -> None:
    """Each is the code of an outcome."""
    if codes.translate(None, CODES):
        raise Illegal("there is no such outcome of a message")


def check_progress(job: StoredJob, outcomes: bytes) -> None:
    """These are outcomes of the messages that follow."""
    check_outcomes(outcomes)
    check_number("outcomes", len(outcomes), job.selection.count - job.cursor)


def check_recovered_runs(job: StoredJob, packed: bytes) -> None:
    """These runs of (0, index, count) name messages of the job, each once."""
    end = 0
    for run in _runs(packed):
        if run.queue or run.first < end or run.first + run.length > job.selection.count:
            raise Illegal("what was found is not of this job")
        end = run.first + run.length


def check_log(selected: FrozenSelection, chunks: Sequence[bytes], tail: bytes) -> None:
    """The outcomes of a job, as its snapshot has them."""
    for chunk in chunks:
        codes = unpacked("outcomes", chunk, CHUNK)
        check_number("outcomes", len(codes), CHUNK, least=CHUNK)
        check_outcomes(codes)
    check_outcomes(tail)
    check_number("outcomes", len(tail), CHUNK - 1)
    check_number("outcomes", len(chunks) * CHUNK + len(tail), selected.count)


def check_job_rest(
    selected: FrozenSelection,
    ahead: Sequence[int],
    cuts: dict[int, int],
    ended_ms: int,
    record_end: int,
) -> None:
    """The rest of a job, as its snapshot has it."""
    check_all("ahead", ahead, selected.count - 1)
    check_cuts(cuts)
    check_number("ended_ms", ended_ms)
    check_number("record_end", record_end)


def check_cuts(cuts: dict[int, int]) -> None:
    """Queues, and the offsets at which they end."""
    for queue, offset in cuts.items():
        check_queue(queue)
        check_number("offset", offset)


def _runs(packed: bytes) -> list[OffsetRange]:
    check_columns(RUN_BYTES, runs=packed)
    numbers = array("q")
    numbers.frombytes(packed)
    check_all("runs", numbers)
    offsets = unpack(packed)
    if any(run.length < 1 for run in offsets):
        raise Illegal("a run of messages is empty")
    check_number("runs", sum(run.first + run.length for run in offsets))
    return offsets
