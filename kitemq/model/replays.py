"""Replay jobs: what they are to send, how they stand, and what became of each message."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kitemq.model.messages import Filter
from kitemq.model.values import OFFSET_MAX, Int64, Milliseconds, OffsetText

Rate = Annotated[
    float, Meta(ge=0, le=1_000_000, description="Messages a second; 0 for as fast as it goes.")
]
TimeLimit = Annotated[
    int, Meta(ge=0, le=OFFSET_MAX, description="ms since 1970 UTC; 0 for no limit.")
]
FreshOnly = Annotated[bool, Meta(description="Leave out what another job has sent already.")]
WithDismissed = Annotated[
    bool, Meta(description="Also dismissed dead letters, which else only `offsets` bring in.")
]
DryRun = Annotated[bool, Meta(description="Look at every message and send none.")]
Reason = Annotated[
    str, Meta(description="Only dead letters with this reason: attempts_exhausted, rejected …")
]
OriginTopic = Annotated[str, Meta(description="Only what was first sent to this topic.")]
ErrorClass = Annotated[
    str,
    Meta(max_length=1024, description="Only what died of an error of this class: KeyError …"),
]
ErrorText = Annotated[
    str,
    Meta(
        max_length=1024,
        description="Only what died of this error, its main line; with a * behind, what begins so.",
    ),
]
LastClient = Annotated[str, Meta(max_length=1024, description="Only what this client had last.")]
Failures = Annotated[int | None, Meta(description="Only what failed so often; null for any.")]
JobName = Annotated[str, Meta(max_length=200, description="For people.")]
QueueNumber = Annotated[int, Meta(ge=0, le=65535)]


class ReplayTo(StrEnum):
    """The target of a job's messages."""

    ORIGIN = "origin"  # the topic each was first sent to: every group gets it
    GROUP = "group"  # one group's retry topic: only that group gets it
    TOPIC = "topic"  # a topic that the job names


class ReplayState(StrEnum):
    """The state of a job; FINISHED and STOPPED are final."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"


class MessagePlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of the source."""

    queue: QueueNumber
    offset: OffsetText


class MessageRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages of the source from offset `first` on and before `end`."""

    queue: QueueNumber
    first: OffsetText
    end: OffsetText


class NewReplayJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job to be created: which messages, where to, how fast.

    Give `messages`, or `ranges`, or a time; with none of them all of the source is chosen.
    """

    source: Annotated[str, Meta(description="A topic; `%DLQ%` and a group are its dead letters.")]
    to: Annotated[
        ReplayTo,
        Meta(
            description="origin: the topic each was first sent to; group: one group alone; "
            "topic: a topic."
        ),
    ]
    to_name: Annotated[
        str, Meta(description="The topic or group; a group's own dead letters need none.")
    ] = ""
    name: JobName = ""
    messages: Annotated[list[MessagePlace], Meta(max_length=10_000)] = []
    ranges: Annotated[list[MessageRange], Meta(max_length=1024)] = []
    from_ms: TimeLimit = 0
    to_ms: TimeLimit = 0
    filter: Filter = "*"
    reason: Reason = ""
    origin_topic: OriginTopic = ""
    error_class: ErrorClass = ""
    error: ErrorText = ""
    client: LastClient = ""
    failures: Failures = None
    dead_letter_state: Annotated[
        Literal["open", "resent", "dismissed"] | None,
        Meta(description="Only dead letters in this state when their turn comes."),
    ] = None
    fresh_only: FreshOnly = False
    with_dismissed: WithDismissed = False
    rate: Rate = 100.0
    dry_run: DryRun = False


class NewReplayRetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A retry of the failed messages; without `to`, to their original target."""

    to: ReplayTo | None = None
    to_name: Annotated[str, Meta(description="The topic or group, with `to`.")] = ""
    name: JobName = ""
    rate: Rate = 100.0
    dry_run: DryRun = False


class ReplayRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a job."""

    rate: Rate


class Replay(msgspec.Struct, frozen=True):
    """A replay job as it stands. The numbers in `totals` add up to `selected`."""

    id: str
    name: str
    source: str
    to: ReplayTo
    to_name: str
    filter: str
    reason: str
    origin_topic: str
    error_class: str
    error: str
    client: str
    failures: int | None
    dead_letter_state: Annotated[str, Meta(description="open, resent, dismissed, or empty.")]
    fresh_only: bool
    rate: float
    dry_run: bool
    state: ReplayState
    selected: Annotated[int, Meta(description="Messages chosen, fixed when it was created.")]
    examined: Annotated[int, Meta(description="How many of them it has dealt with.")]
    totals: Annotated[
        dict[str, int],
        Meta(
            description="Messages by outcome: sent, eligible (in a dry run), filtered, sent_before,"
            " expired, unreadable, no_origin, topic_gone, group_gone, not_writable, refused,"
            " pending, stopped."
        ),
    ]
    created_ms: int
    created_by: str
    ended_ms: int | None
    waiting: Annotated[str, Meta(description="Why nothing goes on although it runs.")]
    last_error: Annotated[str, Meta(description="Why a message was refused last.")]
    seconds_left: Annotated[float | None, Meta(description="At its rate, at best.")]
    failed: Annotated[int, Meta(description="How many should have been sent and could not be.")]
    retry_of: Annotated[str, Meta(description="The job in which these messages failed; or empty.")]
    retried_by: Annotated[
        tuple[str, ...], Meta(description="Jobs over what failed in this one, oldest first.")
    ]


class ReplayPage(msgspec.Struct, frozen=True):
    """Jobs, the newest first."""

    items: list[Replay]
    next_cursor: str | None


class MessageOutcome(msgspec.Struct, frozen=True):
    """The outcome of one message; its copy has the same message id."""

    queue: int
    offset: Int64
    outcome: str
    message_id: Annotated[str, Meta(description="Empty where the record can no longer be read.")]
    tag: str
    keys: tuple[str, ...]
    to_topic: str


class OutcomePage(msgspec.Struct, frozen=True):
    """Outcomes in the order of the selection; may be short although there is a next page."""

    items: list[MessageOutcome]
    next_cursor: str | None


class PastReplay(msgspec.Struct, frozen=True):
    """A replay job as the database has it. The numbers in `totals` add up to `selected`."""

    id: str
    name: str
    source: str
    to: str
    to_name: str
    selection: dict[str, Any]
    rate: float
    dry_run: bool
    state: str
    selected: int
    examined: int
    totals: dict[str, int]
    created_ms: Milliseconds
    created_by: str
    ended_ms: int | None
    last_error: str


class PastReplayPage(msgspec.Struct, frozen=True):
    """Jobs, the newest first."""

    items: list[PastReplay]
    next_cursor: str | None
