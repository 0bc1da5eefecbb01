"""Replay jobs: chosen messages sent again, at a pace, with one outcome for each."""

from typing import Any

from app.api.framework.operation import API, Call, operation
from app.api.replays.shapes import (
    NewRate,
    NewReplayJob,
    NewRetry,
    Outcome,
    OutcomePage,
    OutcomeQuery,
    Replay,
    ReplayPage,
    ReplayQuery,
    offset_of,
    places_of,
    ranges_of,
    replay_out,
)
from app.api.topics.topics import actor_of
from app.security.access import READ_SERVER, Action, Kind, Needs, require_replay
from app.security.message_rights import lacks_messages
from engine.broker import NewReplay, RetryRequest

TAG = "replays"


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
    replays = call.services.replays
    require_replay(call.who, new.source, new.to, new.to_name)
    job = await replays.create(
        actor_of(call),
        NewReplay(
            source=new.source,
            to=new.to,
            to_name=new.to_name,
            name=new.name,
            places=places_of(new.messages),
            ranges=ranges_of(new.ranges),
            from_ms=new.from_ms,
            to_ms=new.to_ms,
            filter=new.filter,
            reason=new.reason,
            origin_topic=new.origin_topic,
            fresh_only=new.fresh_only,
            with_dismissed=new.with_dismissed,
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
    replays = call.services.replays
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
    replays = call.services.replays
    return replay_out(await replays.begin(actor_of(call), _checked_id(call)))


@operation(
    "POST",
    f"{API}/replays/{{id}}/retry",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP),
    body=NewRetry,
    answer=Replay,
    status=201,
    errors=(403, 404, 409),
    example="curl -X POST $URL/api/v1/replays/018bcfe56800/retry "
    """-H 'Content-Type: application/json' -d '{"dry_run": true}'""",
)
async def retry_replay(call: Call[None, NewRetry]) -> Replay:
    """Try again what failed in a job that is over: these messages, and no others.

    Makes a new job over exactly them, with the conditions of the first; the two name each other in
    `retry_of` and `retried_by`. Failed is what ended as expired, unreadable, no_origin, topic_gone,
    group_gone, not_writable or refused.
    """
    new = call.body
    replays = call.services.replays
    job = call.host.broker.replays.get(_checked_id(call))
    if new.to is not None:
        require_replay(call.who, job.source, new.to, new.to_name)
    how = RetryRequest(
        to=new.to, to_name=new.to_name, name=new.name, per_s=new.rate, dry_run=new.dry_run
    )
    return replay_out(await replays.retry(actor_of(call), job.id, how))


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
    replays = call.services.replays
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
    replays = call.services.replays
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
    replays = call.services.replays
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
    """See what became of each message of a replay job, or of those with one outcome.

    `keys` are empty without the right to read the source's messages.
    """
    query, replays = call.query, call.host.broker.replays
    job = replays.get(call.path("id"))
    may_read = not lacks_messages(call.who, job.source)
    page = replays.outcomes(
        job.id,
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
                row.keys if may_read else (),
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
    retry_replay,
    pause_replay,
    resume_replay,
    stop_replay,
    list_outcomes,
)
