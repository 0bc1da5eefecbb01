"""What is said of replay jobs over REST: requests, a job as it stands, outcomes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.messages.messages import OFFSET_MAX, Filter
from engine.broker import ReplayJob, ReplayState, ReplayTo
from engine.errors import Invalid

PAGE_MAX = 200

Rate = Annotated[
    float, Meta(ge=0, le=1_000_000, description="Messages a second; 0 for as fast as it goes.")
]
Time = Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="ms since 1970 UTC; 0 for no limit.")]
PageLimit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
OffsetText = Annotated[str | int, Meta(description="As a text, or a number.")]
FreshOnly = Annotated[bool, Meta(description="Leave out what another job has sent already.")]
WithDismissed = Annotated[
    bool, Meta(description="Also dismissed dead letters, which else only `offsets` bring in.")
]
DryRun = Annotated[bool, Meta(description="Look at every message and send none.")]
Reason = Annotated[
    str, Meta(description="Only dead letters with this reason: attempts_exhausted, rejected …")
]
OriginTopic = Annotated[str, Meta(description="Only what was first sent to this topic.")]


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """A message of the source."""

    queue: Annotated[int, Meta(ge=0, le=65535)]
    offset: OffsetText


class Range(msgspec.Struct, forbid_unknown_fields=True):
    """Messages of the source from offset `first` on and before `end`."""

    queue: Annotated[int, Meta(ge=0, le=65535)]
    first: OffsetText
    end: OffsetText


class NewReplayJob(msgspec.Struct, forbid_unknown_fields=True):
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
    name: Annotated[str, Meta(max_length=200, description="For people.")] = ""
    messages: Annotated[list[Place], Meta(max_length=10_000)] = []
    ranges: Annotated[list[Range], Meta(max_length=1024)] = []
    from_ms: Time = 0
    to_ms: Time = 0
    filter: Filter = "*"
    reason: Reason = ""
    origin_topic: OriginTopic = ""
    fresh_only: FreshOnly = False
    with_dismissed: WithDismissed = False
    rate: Rate = 100.0
    dry_run: DryRun = False


class NewRetry(msgspec.Struct, forbid_unknown_fields=True):
    """How what failed is tried again; without `to` to where it was to go before."""

    to: ReplayTo | None = None
    to_name: Annotated[str, Meta(description="The topic or group, with `to`.")] = ""
    name: Annotated[str, Meta(max_length=200, description="For people.")] = ""
    rate: Rate = 100.0
    dry_run: DryRun = False


class NewRate(msgspec.Struct, forbid_unknown_fields=True):
    """What changes of a job."""

    rate: Rate


class Replay(msgspec.Struct):
    """A replay job as it stands. The numbers in `totals` add up to `selected`."""

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


class ReplayQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs are listed."""

    source: Annotated[str, Meta(description="Over this topic only.")] = ""
    state: Annotated[str, Meta(description="running, paused, stopped or finished.")] = ""
    limit: PageLimit = 50
    cursor: Annotated[str, Meta(description="`next_cursor` of the page before.")] = ""


class ReplayPage(msgspec.Struct):
    """Jobs, the newest first."""

    items: list[Replay]
    next_cursor: str | None


class OutcomeQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which outcomes are listed."""

    outcome: Annotated[str, Meta(description="This one only; empty for all.")] = ""
    limit: PageLimit = 50
    cursor: Annotated[str, Meta(description="`next_cursor` of the page before.")] = ""


class Outcome(msgspec.Struct):
    """What became of one message; its copy has the same message id."""

    queue: int
    offset: str
    outcome: str
    message_id: Annotated[str, Meta(description="Empty where the record can no longer be read.")]
    tag: str
    keys: tuple[str, ...]
    to_topic: str


class OutcomePage(msgspec.Struct):
    """Outcomes in the order of the selection; may be short although there is a next page."""

    items: list[Outcome]
    next_cursor: str | None


def replay_out(job: ReplayJob) -> Replay:
    """A job as the API shows it."""
    return Replay(
        job.id,
        job.name,
        job.source,
        job.to,
        job.to_name,
        job.filter,
        job.reason,
        job.origin_topic,
        job.fresh_only,
        job.per_s,
        job.dry_run,
        job.state,
        job.selected,
        job.examined,
        job.totals,
        job.created_ms,
        job.created_by,
        job.ended_ms or None,
        job.waiting,
        job.last_error,
        job.seconds_left,
        job.failed,
        job.retry_of,
        job.retried_by,
    )


def offset_of(value: str | int, field: str) -> int:
    """An offset given as a text or a number; Invalid names the field."""
    text = str(value)
    if text.isdecimal() and text.isascii() and len(text) < 20 and int(text) <= OFFSET_MAX:
        return int(text)
    raise Invalid(f"{text[:40]!r} is no offset", field=field, remedy="send a whole number from 0")


def places_of(places: list[Place]) -> list[tuple[int, int]]:
    return [
        (place.queue, offset_of(place.offset, f"messages[{index}].offset"))
        for index, place in enumerate(places)
    ]


def ranges_of(ranges: list[Range]) -> list[tuple[int, int, int]]:
    return [
        (
            each.queue,
            offset_of(each.first, f"ranges[{index}].first"),
            offset_of(each.end, f"ranges[{index}].end"),
        )
        for index, each in enumerate(ranges)
    ]
