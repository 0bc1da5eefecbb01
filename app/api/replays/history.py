"""Replay jobs from the database: also those that the engine has forgotten."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Cursor, Limit
from app.db.rows import JobFilter, JobRow
from app.security.access import READ_SERVER
from app.services.replay_copies import parse_cursor
from kitemq.model.conversion import convert
from kitemq.model.replays import PastReplay, PastReplayPage
from kitemq.model.values import OFFSET_MAX

operations = Operations("replays")

Time = Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="ms since 1970 UTC.")]


class ReplayHistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of jobs; all given ones have to match."""

    source: Annotated[str, Meta(description="Over this topic only.")] = ""
    state: Annotated[str, Meta(description="running, paused, stopped or finished.")] = ""
    created_by: Annotated[str, Meta(description="Who ordered it, as the audit trail has it.")] = ""
    from_ms: Time | None = None
    to_ms: Annotated[Time, Meta(description="Created before.")] | None = None
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


@operations.get("/replay-history", needs=READ_SERVER, example="?created_by=ann&state=finished")
async def list_replay_history(call: Call[ReplayHistoryQuery, None]) -> PastReplayPage:
    """List the newest 10,000 replay jobs, also those that the engine no longer keeps.

    These are copies in the database, at most seconds behind; a job that the engine still has is
    exact under /replays, with the outcome of each message.
    """
    query = call.query
    copies = call.services.replay_copies
    choice = convert(query, JobFilter)
    rows = await copies.find(choice, query.limit, parse_cursor(query.cursor))
    is_more = len(rows) == query.limit
    last = f"{rows[-1].created_ms}-{rows[-1].id}" if is_more else None
    return PastReplayPage([_past(row) for row in rows], last)


def _past(row: JobRow) -> PastReplay:
    return convert(
        row,
        PastReplay,
        to=row.target,
        to_name=row.target_name,
        rate=row.per_s,
        selection=msgspec.json.decode(row.selection_json),
        totals=msgspec.json.decode(row.totals_json),
    )
