"""Values of a message's journey: its stages, and the progress of each group."""

from enum import StrEnum

import msgspec


class StageName(StrEnum):
    """Kinds of stages."""

    PRODUCE = "produce"
    REFUSED = "refused"
    DELAY = "delay"  # waits for its time, as its producer asked
    TRANSACTION = "transaction"  # waits to be committed or rolled back
    CHECK = "check"  # the producer is asked what became of the transaction
    STORE = "store"
    WAIT = "wait"  # in its queue, for a group's consumers
    DELIVERY = "delivery"
    RETRY_WAIT = "retry_wait"
    DEAD_LETTER = "dead_letter"
    REPLAY = "replay"
    REQUEST = "request"  # its producer waits for a reply; `detail` is the request's message id
    REPLY = "reply"  # `detail` is the message id of the reply
    CLIENT_SEND = "client_send"
    CLIENT_CONSUME = "client_consume"
    CLIENT_TRANSACTION = "client_transaction"
    CLIENT_RECALL = "client_recall"


class StageOutcome(StrEnum):
    """Outcome of a stage, or that it goes on."""

    STORED = "stored"
    REFUSED = "refused"
    WAITING = "waiting"  # goes on
    RELEASED = "released"
    RECALLED = "recalled"
    RESCHEDULED = "rescheduled"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    GIVEN_UP = "given_up"
    ASKED = "asked"
    NOBODY_TO_ASK = "nobody_to_ask"
    DELIVERED = "delivered"  # the wait's end
    INFLIGHT = "inflight"  # goes on
    ACKED = "acked"
    FAILED = "failed"
    EXPIRED = "expired"
    DEAD = "dead"
    RETURNED = "returned"  # put back unused
    PULLED = "pulled"  # read by a group that keeps its own place
    PASSED = "passed"  # the group went past it without a delivery
    REPLAYED = "replayed"
    REPLIED = "replied"
    LATE = "late"  # a reply that came too late
    LEFT_OUT = "left_out"  # a replay job did not send it; `detail` says why
    SUCCESS = "success"
    UNKNOWN = "unknown"


class StageSource(StrEnum):
    """The source of a stage."""

    LOG = "log"  # a record of the message itself
    TRACE = "trace"  # what the engine recorded when it happened
    PROGRESS = "progress"  # how the group stands now
    CLIENT = "client"  # what a client says of itself


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a message from `at_ms` to `until_ms` (ms since 1970 UTC).

    `until_ms` is None where it goes on or its end is unknown, and equal to `at_ms` for a moment.
    `client` did it: a consumer's name, a producer's address, a replay job. `attempt` counts a
    group's deliveries from 1, of a retry's wait it is the one that follows, of a check its number.
    `topic`, `queue` and `offset` are the place of the record; "", -1 and None where there is none.
    `letter` is the number of a dead letter where that is not its offset.
    """

    name: StageName
    at_ms: int
    until_ms: int | None
    outcome: StageOutcome
    source: StageSource
    group: str = ""
    client: str = ""
    attempt: int = 0
    detail: str = ""
    topic: str = ""
    queue: int = -1
    offset: int | None = None
    letter: int | None = None


class GroupState(StrEnum):
    """Final state of a message in a group."""

    WAITING = "waiting"
    INFLIGHT = "inflight"
    RETRY_WAITING = "retry_waiting"
    DONE = "done"
    DEAD = "dead"
    PASSED = "passed"
    PULLED = "pulled"
    UNKNOWN = "unknown"


class Branch(msgspec.Struct, frozen=True):
    """One group's part: its state, how often the message was delivered, and since when it is so.

    The stages of the branch are those of the journey that name the group.
    """

    group: str
    state: GroupState
    deliveries: int
    at_ms: int


class ReasonCode(StrEnum):
    """Why a journey can be empty, or lack deliveries."""

    TRACING_OFF = "tracing_off"
    SAMPLED_OUT = "sampled_out"
    RETENTION = "retention"
    KIND_OF_ID = "kind_of_id"
    NOT_INDEXED = "not_indexed"
    DROPPED = "dropped"
    TOO_MUCH = "too_much"
    NOT_TOLD = "not_told"  # the engine does not tell of deliveries
    UNREACHABLE = "unreachable"  # a part of the engine does not answer


class CheckedReason(msgspec.Struct, frozen=True):
    """A reason that was checked: whether it applies, and the values that say so."""

    code: ReasonCode
    applies: bool
    detail: str


class Recent(msgspec.Struct, frozen=True):
    """Something that was traced lately, and where its record lies.

    `outcome` is how a delivery ended, or that it began; `is_failure` where it ended badly.
    """

    at_ms: int
    outcome: StageOutcome
    is_failure: bool
    group: str
    topic: str
    queue: int
    offset: int


class Journey(msgspec.Struct, frozen=True):
    """All that is known of one message; without `stages` nothing is.

    `topic` is the one its producer named. `complete` is false where a bound was reached: 64
    records, or 100 trace records that speak of it.
    """

    message_id: str
    topic: str
    stages: list[Stage]
    groups: list[Branch]
    reasons_checked: list[CheckedReason]
    complete: bool
