"""Values of replay jobs: requests, the state of a job, outcomes."""

from collections.abc import Sequence

import msgspec

from engine.replay.job import ReplayState, ReplayTo, StoredJob
from engine.replay.selection import OffsetRange
from engine.replay.states import DeadLetterState

RATE_DEFAULT = 100.0


class NewReplay(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be created.

    `places` are (queue, offset), `ranges` (queue, first, end); without either all queues count,
    or what was stored from `from_ms` and before `to_ms` (0: no limit). Dismissed dead letters are
    left out, unless `places` name them, or `with_dismissed` or the state of that name is set.
    Conditions are those of `DeadLetterConditions`. `to_name` is the topic or the group; a
    redrive's group needs no name. `rate` counts messages a second, 0 means as fast as it goes.
    """

    source: str
    to: ReplayTo
    to_name: str = ""
    name: str = ""
    places: Sequence[tuple[int, int]] = ()
    ranges: Sequence[tuple[int, int, int]] = ()
    from_ms: int = 0
    to_ms: int = 0
    filter: str = "*"
    reason: str = ""
    origin_topic: str = ""
    error_class: str = ""
    error: str = ""
    client: str = ""
    failures: int | None = None
    dead_letter_state: DeadLetterState | None = None
    fresh_only: bool = False
    with_dismissed: bool = False
    rate: float = RATE_DEFAULT
    dry_run: bool = False
    created_by: str = ""


class ReplayJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stands. `totals` by outcome add up to `selected`.

    `waiting` says why nothing goes on although it runs, `last_error` why a message was refused
    last. `seconds_left` is what the rate allows at best, None where that is not known. `retry_of`
    is the job whose failed messages these are, `retried_by` are the jobs over those of this one.
    """

    id: str
    name: str
    source: str
    to: ReplayTo
    to_name: str
    filter: str
    reason: str
    origin_topic: str
    fresh_only: bool
    rate: float
    dry_run: bool
    state: ReplayState
    selected: int
    examined: int
    totals: dict[str, int]
    created_ms: int
    created_by: str
    ended_ms: int | None
    waiting: str
    last_error: str
    seconds_left: float | None
    failed: int = 0
    retry_of: str = ""
    retried_by: tuple[str, ...] = ()
    error_class: str = ""
    error: str = ""
    client: str = ""
    failures: int | None = None
    dead_letter_state: str = ""


class FailedMessages(msgspec.Struct, frozen=True):
    """Stretches of a job's messages that could not be sent; look on from the index `next`."""

    runs: list[OffsetRange]
    next: int | None


class RetryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How to send failed messages again; without `to` to their destination before."""

    to: ReplayTo | None = None
    to_name: str = ""
    name: str = ""
    rate: float = RATE_DEFAULT
    dry_run: bool = False
    created_by: str = ""


class OutcomeRow(msgspec.Struct, frozen=True):
    """Outcome of one message; the last fields are empty where it can no longer be read.

    The copy has the same message id.
    """

    index: int
    queue: int
    offset: int
    outcome: str
    message_id: str
    tag: str
    keys: tuple[str, ...]
    to_topic: str


class ReplayOutcomePage(msgspec.Struct, frozen=True):
    """Rows in the order of the selection; ask again `after` the index `next`, None at the end."""

    items: list[OutcomeRow]
    next: int | None


def job_view(job: StoredJob) -> ReplayJob:
    """A job as it stands."""
    plan = job.plan
    left = job.selection.count - job.cursor
    is_known = job.state is ReplayState.RUNNING and not job.dry_run and job.per_s > 0
    return ReplayJob(
        id=plan.id,
        name=plan.name,
        source=plan.source,
        to=plan.to,
        to_name=plan.to_name,
        filter=plan.filter,
        reason=plan.reason,
        origin_topic=plan.origin_topic,
        fresh_only=plan.fresh_only,
        rate=job.per_s,
        dry_run=job.dry_run,
        state=job.state,
        selected=job.selection.count,
        examined=job.cursor,
        totals=job.totals(),
        created_ms=plan.created_ms,
        created_by=plan.created_by,
        ended_ms=job.ended_ms or None,
        waiting=job.waiting,
        last_error=job.last_error,
        seconds_left=round(left / job.per_s, 1) if is_known else None,
        failed=job.failed,
        retry_of=plan.retry_of,
        retried_by=tuple(job.retried_by),
        error_class=plan.error_class,
        error=plan.error,
        client=plan.client,
        failures=plan.failures,
        dead_letter_state=plan.dead_letter_state,
    )
