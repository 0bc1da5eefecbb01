"""Traces: what happened to one message, and how the recording of it goes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.security.access import READ_SERVER
from engine import broker as engine
from kitemq.model.values import Milliseconds

TAG = "traces"

Name = Annotated[
    str,
    Meta(
        description="produce, refused, delay, transaction, check, store, wait, delivery, "
        "retry_wait, dead_letter, replay, request, reply; what clients tell themselves: "
        "client_send, client_consume, client_transaction, client_recall."
    ),
]
Outcome = Annotated[
    str,
    Meta(
        description="How it ended (stored, delivered, acked, failed, expired, dead, returned, "
        "pulled, released, recalled, committed …), or that it goes on: waiting, inflight. passed: "
        "the group went past it without a hand-out; unknown: its end is not recorded. late: a "
        "reply that nobody waited for any more."
    ),
]
Source = Annotated[
    str,
    Meta(
        description="Who says so: log (a record of the message), trace (recorded when it "
        "happened), progress (how the group stands now), client."
    ),
]


class Stage(msgspec.Struct):
    """One thing that happened to a message."""

    name: Name
    at_ms: Milliseconds
    until_ms: Annotated[
        Milliseconds | None, Meta(description="null while it goes on, or where nobody knows.")
    ]
    outcome: Outcome
    source: Source
    group: Annotated[str, Meta(description="Whose branch it belongs to; empty for all.")]
    client: Annotated[str, Meta(description="Who did it: consumer, producer's address, job.")]
    attempt: Annotated[int, Meta(description="Which delivery or check; 0 where none is.")]
    detail: str
    topic: str
    queue: Annotated[int, Meta(description="Of the record at the time; -1 where there is none.")]
    offset: Annotated[str | None, Meta(description="The same; null where there is none.")]


class Branch(msgspec.Struct):
    """How the message stands with one group."""

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


class Reason(msgspec.Struct):
    """A reason why there could be nothing, or no hand-outs, to show."""

    code: Annotated[
        str,
        Meta(
            description="tracing_off, sampled_out, retention, kind_of_id, not_indexed, dropped or "
            "too_much."
        ),
    ]
    applies: bool
    detail: Annotated[str, Meta(description="The values that say so.")]


class Journey(msgspec.Struct):
    """What is known of one message, in order of time; without stages nothing is."""

    message_id: str
    topic: Annotated[str, Meta(description="The one that its producer named.")]
    stages: list[Stage]
    groups: list[Branch]
    reasons_checked: list[Reason]
    complete: Annotated[
        bool, Meta(description="false: it has more than the 64 records and 100 traces read.")
    ]


class TraceStatus(msgspec.Struct):
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


def _stage_out(stage: engine.Stage) -> Stage:
    fields = msgspec.structs.asdict(stage)
    fields["offset"] = str(stage.offset) if stage.offset >= 0 else None
    return Stage(**fields)


@operation(
    "GET",
    f"{API}/messages/{{id}}/journey",
    tag=TAG,
    needs=READ_SERVER,
    answer=Journey,
    errors=(422,),
    example="curl $URL/api/v1/messages/7F00000100001F900000000000000000/journey",
)
async def get_journey(call: Call[None, None]) -> Journey:
    """Tell what happened to a message.

    Takes a message id or an offset id. Stages come from the message's records in the log, from
    what was traced, from the groups' progress and from traces that clients send themselves. Where
    nothing is found `stages` is empty and `reasons_checked` says why that can be.
    """
    journeys = call.services.journeys
    journey = await journeys.find(call.path("id"))
    return Journey(
        journey.message_id,
        journey.topic,
        [_stage_out(stage) for stage in journey.stages],
        [Branch(**msgspec.structs.asdict(branch)) for branch in journey.groups],
        [Reason(**msgspec.structs.asdict(reason)) for reason in journey.reasons_checked],
        journey.is_complete,
    )


@operation(
    "GET",
    f"{API}/traces/status",
    tag=TAG,
    needs=READ_SERVER,
    answer=TraceStatus,
    example="curl $URL/api/v1/traces/status",
)
async def trace_status(call: Call[None, None]) -> TraceStatus:
    """Tell how the recording of traces goes."""
    return TraceStatus(**msgspec.structs.asdict(call.host.broker.traces.status()))


OPERATIONS = (get_journey, trace_status)
