"""Replay jobs: chosen messages sent again, at a pace, with one outcome for each."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.messages import OFFSET_MAX, Filter
from app.api.operation import API, Call, operation
from app.api.topics import actor_of
from app.security.access import READ_SERVER, Action, Kind, Needs, require_replay
from app.services.replays import Replays
from engine.broker import NewReplay, ReplayJob, ReplayState, ReplayTo
from engine.errors import Invalid

TAG = "replays"
PAGE_MAX = 200

Rate = Annotated[
    float, Meta(ge=0, le=1_000_000, description="Messages a second; 0 for as fast as it goes.")
]
Time = Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="ms since 1970 UTC; 0 for no limit.")]
PageLimit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
OffsetText = Annotated[str | int, Meta(description="As a text, or a number.")]
FreshOnly = Annotated[bool, Meta(description="Leave out what another job has sent already.")]
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
    )


def offset_of(value: str | int, field: str) -> int:
    """An offset given as a text or a number; Invalid names the field."""
    text = str(value)
    if text.isdecimal() and text.isascii() and len(text) < 20 and int(text) <= OFFSET_MAX:
        return int(text)
    raise Invalid(f"{text[:40]!r} is no offset", field=field, remedy="send a whole number from 0")


def _places(places: list[Place]) -> list[tuple[int, int]]:
    return [
        (place.queue, offset_of(place.offset, f"messages[{index}].offset"))
        for index, place in enumerate(places)
    ]


def _ranges(ranges: list[Range]) -> list[tuple[int, int, int]]:
    return [
        (
            each.queue,
            offset_of(each.first, f"ranges[{index}].first"),
            offset_of(each.end, f"ranges[{index}].end"),
        )
        for index, each in enumerate(ranges)
    ]


def _checked_id(call: Call[Any, Any]) -> str:
    """The id of the job in the path, over which the one who asks has the right."""
    job = call.host.broker.replays.get(call.path("id"))
    require_replay(call.who, job.source, job.to, job.to_name)
    return job.id


@operation(
    "POST",
    f"{API}/replays",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    body=NewReplayJob,
    answer=Replay,
    status=201,
    errors=(403, 404, 409),
    example="curl -X POST $URL/api/v1/replays -H 'Content-Type: application/json' "
    """-d '{"source": "%DLQ%billing", "to": "group", "rate": 20, "dry_run": true}'""",
)
async def create_replay(call: Call[None, NewReplayJob]) -> Replay:
    """Create a replay job.

    The selection is frozen now: what arrives later is not in it. With `dry_run` every message is
    looked at and none is sent; POST /replays/{id}/begin then does the same selection in earnest.
    At most 10 million messages; each is sent at most once, whatever is killed meanwhile.
    """
    new = call.body
    replays: Replays = call.state.replays
    require_replay(call.who, new.source, new.to, new.to_name)
    job = await replays.create(
        actor_of(call),
        NewReplay(
            source=new.source,
            to=new.to,
            to_name=new.to_name,
            name=new.name,
            places=_places(new.messages),
            ranges=_ranges(new.ranges),
            from_ms=new.from_ms,
            to_ms=new.to_ms,
            filter=new.filter,
            reason=new.reason,
            origin_topic=new.origin_topic,
            fresh_only=new.fresh_only,
            per_s=new.rate,
            dry_run=new.dry_run,
        ),
    )
    return replay_out(job)


@operation(
    "GET",
    f"{API}/replays",
    tag=TAG,
    needs=READ_SERVER,
    query=ReplayQuery,
    answer=ReplayPage,
    example="curl '$URL/api/v1/replays?state=running'",
)
async def list_replays(call: Call[ReplayQuery, None]) -> ReplayPage:
    """List replay jobs, the newest first. The newest 1,000 are kept."""
    query = call.query
    found = call.host.broker.replays.list(
        source=query.source, state=query.state, after=query.cursor, count_max=query.limit
    )
    is_more = len(found) == query.limit
    return ReplayPage([replay_out(job) for job in found], found[-1].id if is_more else None)


@operation(
    "GET",
    f"{API}/replays/{{id}}",
    tag=TAG,
    needs=READ_SERVER,
    answer=Replay,
    errors=(404,),
    example="curl $URL/api/v1/replays/018bcfe56800",
)
async def get_replay(call: Call[None, None]) -> Replay:
    """Look at one replay job: how far it is, and what became of its messages."""
    return replay_out(call.host.broker.replays.get(call.path("id")))


@operation(
    "PATCH",
    f"{API}/replays/{{id}}",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    body=NewRate,
    answer=Replay,
    errors=(404, 409),
    example="curl -X PATCH $URL/api/v1/replays/018bcfe56800 -H 'Content-Type: application/json' "
    """-d '{"rate": 500}'""",
)
async def change_replay(call: Call[None, NewRate]) -> Replay:
    """Change how fast a replay job sends."""
    replays: Replays = call.state.replays
    return replay_out(await replays.change_rate(actor_of(call), _checked_id(call), call.body.rate))


@operation(
    "POST",
    f"{API}/replays/{{id}}/begin",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    answer=Replay,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/replays/018bcfe56800/begin",
)
async def begin_replay(call: Call[None, None]) -> Replay:
    """Do a dry run in earnest: the very messages that it looked at."""
    replays: Replays = call.state.replays
    return replay_out(await replays.begin(actor_of(call), _checked_id(call)))


@operation(
    "POST",
    f"{API}/replays/{{id}}/pause",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    answer=Replay,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/replays/018bcfe56800/pause",
)
async def pause_replay(call: Call[None, None]) -> Replay:
    """Pause a replay job; it stays paused over a restart."""
    replays: Replays = call.state.replays
    return replay_out(await replays.pause(actor_of(call), _checked_id(call)))


@operation(
    "POST",
    f"{API}/replays/{{id}}/resume",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    answer=Replay,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/replays/018bcfe56800/resume",
)
async def resume_replay(call: Call[None, None]) -> Replay:
    """Let a paused replay job go on, at its rate and without a burst."""
    replays: Replays = call.state.replays
    return replay_out(await replays.resume(actor_of(call), _checked_id(call)))


@operation(
    "POST",
    f"{API}/replays/{{id}}/stop",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    answer=Replay,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/replays/018bcfe56800/stop",
)
async def stop_replay(call: Call[None, None]) -> Replay:
    """End a replay job: what it has not sent it never will."""
    replays: Replays = call.state.replays
    return replay_out(await replays.stop(actor_of(call), _checked_id(call)))


@operation(
    "GET",
    f"{API}/replays/{{id}}/outcomes",
    tag=TAG,
    needs=READ_SERVER,
    query=OutcomeQuery,
    answer=OutcomePage,
    errors=(404,),
    example="curl '$URL/api/v1/replays/018bcfe56800/outcomes?outcome=topic_gone'",
)
async def list_outcomes(call: Call[OutcomeQuery, None]) -> OutcomePage:
    """See what became of each message of a replay job, or of those with one outcome."""
    query = call.query
    page = call.host.broker.replays.outcomes(
        call.path("id"),
        outcome=query.outcome,
        after=offset_of(query.cursor, "cursor") if query.cursor else -1,
        count_max=query.limit,
    )
    return OutcomePage(
        [
            Outcome(
                row.queue,
                str(row.offset),
                row.outcome,
                row.message_id,
                row.tag,
                row.keys,
                row.to_topic,
            )
            for row in page.items
        ],
        None if page.next is None else str(page.next),
    )


OPERATIONS = (
    create_replay,
    list_replays,
    get_replay,
    change_replay,
    begin_replay,
    pause_replay,
    resume_replay,
    stop_replay,
    list_outcomes,
)
