"""Replay jobs: chosen messages sent again, at a pace, with one outcome for each."""

from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Cursor, Limit, NumberCursor, cursor_after
from app.security.access import READ_SERVER, Action, Kind, Needs, require_replay
from app.security.message_rights import lacks_messages
from engine.broker import NewReplay, RetryRequest
from kitemq.model.conversion import convert
from kitemq.model.replays import (
    MessageOutcome,
    NewReplayJob,
    NewReplayRetry,
    OutcomePage,
    Replay,
    ReplayPage,
    ReplayRate,
)

operations = Operations("replays", id="018bcfe56800")
ADMINISTER_GROUPS = Needs(Action.ADMINISTER, Kind.GROUP)


class ReplayQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of jobs."""

    source: Annotated[str, Meta(description="Over this topic only.")] = ""
    state: Annotated[str, Meta(description="running, paused, stopped or finished.")] = ""
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


class OutcomeQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of outcomes."""

    outcome: Annotated[str, Meta(description="This one only; empty for all.")] = ""
    limit: Limit = PAGE_DEFAULT
    cursor: NumberCursor = ""


async def _checked_id(call: Call[Any, Any]) -> str:
    """The id of the job in the path, to which the caller has the right."""
    job = await call.services.replays.get(call.path("id"))
    require_replay(call.who, job.source, job.to, job.to_name)
    return job.id


@operations.post(
    "/replays",
    needs=ADMINISTER_GROUPS,
    status=201,
    errors=(403, 404, 409),
    example_body='{"source": "%DLQ%billing", "to": "group", "rate": 20, "dry_run": true}',
)
async def create_replay(call: Call[None, NewReplayJob]) -> Replay:
    """Create a replay job.

    The selection is frozen now: what arrives later is not in it. With `dry_run` every message is
    looked at and none is sent; POST /replays/{id}/begin then does the same selection in earnest.
    At most 10 million messages; each is sent at most once, whatever is killed meanwhile.
    """
    body = call.body
    order = convert(
        body,
        NewReplay,
        places=[(each.queue, int(each.offset)) for each in body.messages],
        ranges=[(each.queue, int(each.first), int(each.end)) for each in body.ranges],
    )
    require_replay(call.who, order.source, order.to, order.to_name)
    return convert(await call.services.replays.create(call.actor, order), Replay)


@operations.get("/replays", needs=READ_SERVER, example="?state=running")
async def list_replays(call: Call[ReplayQuery, None]) -> ReplayPage:
    """List replay jobs, the newest first. The newest 1,000 are kept."""
    query = call.query
    jobs = await call.services.replays.list(
        source=query.source, state=query.state, after=query.cursor, count_max=query.limit
    )
    next_cursor = cursor_after(jobs, query.limit, attrgetter("id"))
    return ReplayPage([convert(job, Replay) for job in jobs], next_cursor)


@operations.get("/replays/{id}", needs=READ_SERVER)
async def get_replay(call: Call[None, None]) -> Replay:
    """Look at one replay job: how far it is, and what became of its messages."""
    return convert(await call.services.replays.get(call.path("id")), Replay)


@operations.patch(
    "/replays/{id}", needs=ADMINISTER_GROUPS, errors=(409,), example_body='{"rate": 500}'
)
async def change_replay(call: Call[None, ReplayRate]) -> Replay:
    """Change how fast a replay job sends."""
    job_id, rate = await _checked_id(call), call.body.rate
    return convert(await call.services.replays.change_rate(call.actor, job_id, rate), Replay)


@operations.post("/replays/{id}/begin", needs=ADMINISTER_GROUPS, errors=(409,))
async def begin_replay(call: Call[None, None]) -> Replay:
    """Do a dry run in earnest: the very messages that it looked at."""
    job = await call.services.replays.begin(call.actor, await _checked_id(call))
    return convert(job, Replay)


@operations.post(
    "/replays/{id}/retry",
    needs=ADMINISTER_GROUPS,
    status=201,
    errors=(403, 409),
    example_body='{"dry_run": true}',
)
async def retry_replay(call: Call[None, NewReplayRetry]) -> Replay:
    """Try again what failed in a job that is over: these messages, and no others.

    Makes a new job over exactly them, with the conditions of the first; the two name each other in
    `retry_of` and `retried_by`. Failed is what ended as expired, unreadable, no_origin, topic_gone,
    group_gone, not_writable or refused.
    """
    body = call.body
    job = await call.services.replays.get(await _checked_id(call))
    if body.to is not None:
        require_replay(call.who, job.source, body.to, body.to_name)
    how = convert(body, RetryRequest)
    return convert(await call.services.replays.retry(call.actor, job.id, how), Replay)


@operations.post("/replays/{id}/pause", needs=ADMINISTER_GROUPS, errors=(409,))
async def pause_replay(call: Call[None, None]) -> Replay:
    """Pause a replay job; it stays paused over a restart."""
    job = await call.services.replays.pause(call.actor, await _checked_id(call))
    return convert(job, Replay)


@operations.post("/replays/{id}/resume", needs=ADMINISTER_GROUPS, errors=(409,))
async def resume_replay(call: Call[None, None]) -> Replay:
    """Let a paused replay job go on, at its rate and without a burst."""
    job = await call.services.replays.resume(call.actor, await _checked_id(call))
    return convert(job, Replay)


@operations.post("/replays/{id}/stop", needs=ADMINISTER_GROUPS, errors=(409,))
async def stop_replay(call: Call[None, None]) -> Replay:
    """End a replay job: its unsent messages are never sent."""
    job = await call.services.replays.stop(call.actor, await _checked_id(call))
    return convert(job, Replay)


@operations.get("/replays/{id}/outcomes", needs=READ_SERVER, example="?outcome=topic_gone")
async def list_outcomes(call: Call[OutcomeQuery, None]) -> OutcomePage:
    """List the outcomes of a replay job's messages, or those with one outcome.

    `keys` are empty without the right to read the source's messages.
    """
    query, replays = call.query, call.services.replays
    job = await replays.get(call.path("id"))
    hidden = {"keys": ()} if lacks_messages(call.who, job.source) else {}
    page = await replays.outcomes(
        job.id,
        outcome=query.outcome,
        after=int(query.cursor) if query.cursor else -1,
        count_max=query.limit,
    )
    return OutcomePage(
        [convert(row, MessageOutcome, **hidden) for row in page.items],
        None if page.next is None else str(page.next),
    )
