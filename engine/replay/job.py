"""A replay job: its plan, its state, and the legal transitions."""

from enum import StrEnum

import msgspec

from engine.errors import Conflict
from engine.replay.conditions import DeadLetterConditions
from engine.replay.outcomes import DONE, FAILED, PENDING, STOPPED, OutcomeLog, ReplayOutcome
from engine.replay.rate import Rate
from engine.replay.selection import FrozenSelection


class ReplayTo(StrEnum):
    """Destinations of a job's messages."""

    ORIGIN = "origin"  # the topic each was first sent to: every group gets it
    GROUP = "group"  # one group's retry topic: only that group gets it
    TOPIC = "topic"  # a topic that the job names


class ReplayState(StrEnum):
    """State of a job; FINISHED and STOPPED are final."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"


class JobCommand(StrEnum):
    """Commands to a job."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


MOVES = {
    (ReplayState.RUNNING, JobCommand.PAUSE): ReplayState.PAUSED,
    (ReplayState.PAUSED, JobCommand.RESUME): ReplayState.RUNNING,
    (ReplayState.RUNNING, JobCommand.STOP): ReplayState.STOPPED,
    (ReplayState.PAUSED, JobCommand.STOP): ReplayState.STOPPED,
}


class JobPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a job, frozen at its creation.

    `runs` is the packed selection; `since_position` tells the source topic from a later one of its
    name. Conditions: `filter` as a consumer's, the others as `DeadLetterConditions` has them,
    `dead_letter_state` when its turn comes, empty for any; `fresh_only` leaves out what
    another job has sent. `retry_of` is the job in which these messages failed.
    """

    id: str
    name: str
    source: str
    since_position: int
    runs: bytes
    to: ReplayTo
    to_name: str = ""
    filter: str = "*"
    reason: str = ""
    origin_topic: str = ""
    fresh_only: bool = False
    created_ms: int
    created_by: str = ""
    retry_of: str = ""
    error_class: str = ""
    error: str = ""
    client: str = ""
    failures: int | None = None
    dead_letter_state: str = ""

    @property
    def conditions(self) -> DeadLetterConditions:
        """What a dead letter has to meet."""
        return DeadLetterConditions(
            reason=self.reason,
            topic=self.origin_topic,
            filter=self.filter,
            error_class=self.error_class,
            error=self.error,
            client=self.client,
            failures=self.failures,
        )

    @property
    def is_plain(self) -> bool:
        """Whether every message that is selected is to be sent."""
        has_more = self.dead_letter_state or self.fresh_only
        return not has_more and self.conditions == DeadLetterConditions()


class StoredJob:
    """One job. `job_store.py` alone changes what is kept; `waiting` and `rate` are the runner's.

    `retried_by` are the jobs over what failed in this one, oldest first.
    """

    def __init__(
        self,
        plan: JobPlan,
        *,
        per_s: float,
        dry_run: bool,
        decided: ReplayState = ReplayState.RUNNING,
    ) -> None:
        self.plan = plan
        self.dry_run = dry_run
        self.per_s = per_s
        self.decided = decided
        self.selection = FrozenSelection.unpack(plan.runs)
        self.outcomes = OutcomeLog()
        self.retried_by: list[str] = []
        self.ahead: set[int] = set()  # sent, as recovery found, though progress did not say so
        self.cuts: dict[int, int] = {}  # queue to where a power loss ended it
        self.record_end = 0  # of the newest copy
        self.ended_ms = 0
        self.waiting = ""
        self.last_error = ""
        self.rate: Rate | None = None  # while it runs

    @property
    def cursor(self) -> int:
        """The index of the next message to look at."""
        return self.outcomes.count

    @property
    def state(self) -> ReplayState:
        if self.decided is not ReplayState.STOPPED and self.cursor >= self.selection.count:
            return ReplayState.FINISHED
        return self.decided

    @property
    def is_over(self) -> bool:
        return self.state in (ReplayState.STOPPED, ReplayState.FINISHED)

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        return self.selection.size_bytes + len(self.plan.runs) + self.outcomes.size_bytes

    def allowed(self, now_s: float, sends_max: int) -> int:
        """How many copies its rate lets it send now, at most `sends_max`."""
        if self.rate is None or self.rate.per_s != self.per_s:
            self.rate = Rate(self.per_s, now_s)
        return self.rate.allowed(now_s, sends_max)

    def after(self, verb: JobCommand) -> ReplayState:
        """The state that `verb` leads to; Conflict where that is not legal."""
        state = MOVES.get((self.state, verb))
        if state is None:
            raise Conflict(
                f"the job {self.plan.id!r} is {self.state}, it cannot {verb}",
                field="id",
                remedy="create another job" if self.is_over else "look at the job's state",
            )
        return state

    def is_lost(self, queue: int, offset: int) -> bool:
        """Whether a power loss took the message that was chosen at this place."""
        return offset >= self.cuts.get(queue, offset + 1)

    def outcome(self, index: int) -> str:
        """The name of what became of a message, or will."""
        code = self.outcomes.between(index, index + 1)
        if code:
            return ReplayOutcome(code[0]).label
        if index in self.ahead:
            return ReplayOutcome.SENT.label
        return self.rest

    @property
    def rest(self) -> str:
        """What is said of messages that were not looked at."""
        return STOPPED if self.state is ReplayState.STOPPED else PENDING

    def totals(self) -> dict[str, int]:
        """Number of messages by outcome, without zeros; the sum is all of them."""
        counts = {outcome.label: self.outcomes.totals[outcome] for outcome in ReplayOutcome}
        counts[ReplayOutcome.SENT.label] += len(self.ahead)
        counts[self.rest] = self.selection.count - self.cursor - len(self.ahead)
        return {label: count for label, count in counts.items() if count}

    @property
    def failed(self) -> int:
        """Number of messages that could not be sent."""
        return sum(self.outcomes.totals[outcome] for outcome in FAILED)

    @property
    def done(self) -> int:
        """Number of messages that were sent, or would be."""
        return len(self.ahead) + sum(self.outcomes.totals[outcome] for outcome in DONE)
