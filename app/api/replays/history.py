"""Replay jobs from the database: also those that the engine has forgotten."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.security.access import READ_SERVER
from app.services.replay_copies import parse_cursor
from engine.errors import Invalid
from kitemq.model.values import Milliseconds

TAG = "replays"
TIME_MAX = 2**63 - 1

Time = Annotated[int | None, Meta(description="ms since 1970 UTC.")]


class ReplayHistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs are listed; all that is given has to fit."""

    source: Annotated[str, Meta(description="Over this topic only.")] = ""
    state: Annotated[str, Meta(description="running, paused, stopped or finished.")] = ""
    created_by: Annotated[str, Meta(description="Who ordered it, as the audit trail has it.")] = ""
    from_ms: Time = None
    to_ms: Annotated[int | None, Meta(description="Created before.")] = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, Meta(description="`next_cursor` of the page before.")] = ""


class PastReplay(msgspec.Struct):
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


class PastReplayPage(msgspec.Struct):
    """Jobs, the newest first."""

    items: list[PastReplay]
    next_cursor: str | None


def _out(row: Any) -> PastReplay:
    return PastReplay(
        row.id,
        row.name,
        row.source,
        row.target,
        row.target_name,
        msgspec.json.decode(row.selection_json),
        row.per_s,
        row.dry_run,
        row.state,
        row.selected,
        row.examined,
        msgspec.json.decode(row.totals_json),
        row.created_ms,
        row.created_by,
        row.ended_ms,
        row.last_error,
    )


def _checked_time(value: int | None, field: str) -> int | None:
    if value is not None and not 0 <= value <= TIME_MAX:
        raise Invalid(f"{value} is no time", field=field, remedy="send ms since 1970 UTC")
    return value


@operation(
    "GET",
    f"{API}/replay-history",
    tag=TAG,
    needs=READ_SERVER,
    query=ReplayHistoryQuery,
    answer=PastReplayPage,
    example="curl '$URL/api/v1/replay-history?created_by=ann&state=finished'",
)
async def list_replay_history(call: Call[ReplayHistoryQuery, None]) -> PastReplayPage:
    """List the newest 10,000 replay jobs, also those that the engine no longer keeps.

    These are copies in the database, at most seconds behind; a job that the engine still has is
    exact under /replays, with the outcome of each message.
    """
    from app.db.replay_store import JobFilter  # with SQLAlchemy, which is not needed at the start

    query = call.query
    copies = call.services.replay_copies
    wanted = JobFilter(
        source=query.source,
        state=query.state,
        created_by=query.created_by,
        from_ms=_checked_time(query.from_ms, "from_ms"),
        to_ms=_checked_time(query.to_ms, "to_ms"),
    )
    rows = await copies.find(wanted, query.limit, parse_cursor(query.cursor))
    is_more = len(rows) == query.limit
    last = f"{rows[-1].created_ms}-{rows[-1].id}" if is_more else None
    return PastReplayPage([_out(row) for row in rows], last)


OPERATIONS = (list_replay_history,)
