"""Journeys: what happened to one message, and how the recording of it goes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.values import Int64, Milliseconds

StageName = Annotated[
    str,
    Meta(
        description="produce, refused, delay, transaction, check, store, wait, delivery, "
        "retry_wait, dead_letter, replay, request, reply; what clients tell themselves: "
        "client_send, client_consume, client_transaction, client_recall."
    ),
]
StageOutcome = Annotated[
    str,
    Meta(
        description="How it ended (stored, delivered, acked, failed, expired, dead, returned, "
        "pulled, released, recalled, committed …), or that it goes on: waiting, inflight. passed: "
        "the group went past it without a hand-out; unknown: its end is not recorded. late: a "
        "reply that nobody waited for any more."
    ),
]
StageSource = Annotated[
    str,
    Meta(
        description="Who says so: log (a record of the message), trace (recorded when it "
        "happened), progress (how the group stands now), client."
    ),
]


class Stage(msgspec.Struct, frozen=True):
    """One thing that happened to a message."""

    name: StageName
    at_ms: Milliseconds
    until_ms: Annotated[
        Milliseconds | None, Meta(description="null while it goes on, or where nobody knows.")
    ]
    outcome: StageOutcome
    source: StageSource
    group: Annotated[str, Meta(description="Whose branch it belongs to; empty for all.")]
    client: Annotated[str, Meta(description="Who did it: consumer, producer's address, job.")]
    attempt: Annotated[int, Meta(description="Which delivery or check; 0 where none is.")]
    detail: str
    topic: str
    queue: Annotated[int, Meta(description="Of the record at the time; -1 where there is none.")]
    offset: Annotated[Int64 | None, Meta(description="The same; null where there is none.")]


class Branch(msgspec.Struct, frozen=True):
    """The state of the message in one group."""

    group: str
    state: Annotated[
        str,
        Meta(
            description="waiting, inflight, retry_waiting, done, dead, passed (no hand-out is "
            "recorded), pulled (the group keeps its own place) or unknown."
        ),
    ]
    deliveries: int
    at_ms: Annotated[Milliseconds, Meta(description="Since when.")]


class JourneyReason(msgspec.Struct, frozen=True):
    """A reason why there could be nothing, or no hand-outs, to show."""

    code: Annotated[
        str,
        Meta(
            description="tracing_off, sampled_out, retention, kind_of_id, not_indexed, dropped, "
            "too_much, not_told (the engine records no deliveries) or unreachable."
        ),
    ]
    applies: bool
    detail: Annotated[str, Meta(description="The values that say so.")]


class Journey(msgspec.Struct, frozen=True):
    """The records of one message, in order of time; without stages it is unknown."""

    message_id: str
    topic: Annotated[str, Meta(description="The one that its producer named.")]
    stages: list[Stage]
    groups: list[Branch]
    reasons_checked: list[JourneyReason]
    complete: Annotated[
        bool, Meta(description="false: it has more than the 64 records and 100 traces read.")
    ]


class TraceStatus(msgspec.Struct, frozen=True):
    """How recording goes. Counts are of messages' events since the start."""

    sample: Annotated[
        float, Meta(description="The rate of topics that have none of their own, 0 to 1.")
    ]
    recorded: int
    sampled_out: Annotated[int, Meta(description="Left out by a topic's rate.")]
    dropped: Annotated[int, Meta(description="Lost because there was no room.")]
    waiting: Annotated[int, Meta(description="To be written within 0.2 s.")]
    records: Annotated[int, Meta(description="Trace records written for them.")]
    rows: int
    bytes: int
    kept_records: Annotated[int, Meta(description="Trace records of all time that are kept.")]
    oldest_ms: Milliseconds | None
    bad_contexts: Annotated[
        int, Meta(description="Of clients' own traces: those that could not be read.")
    ]
    refusal: Annotated[str, Meta(description="Why nothing can be written; empty if it can.")]
