"""Replay jobs in the database, including those that the engine has deleted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.rows import JobFilter, JobRow
from app.services.replay_copies import SELECTION, parse_cursor
from app.ui.framework import pages, typed_forms
from app.ui.framework.language import _
from app.ui.replays import jobs
from app.ui.replays.jobs import STATES, ListQuery, Text, Total
from engine.broker import DEAD_LETTER_PREFIX
from engine.errors import NotFound
from kitemq.model.conversion import convert

COPIES_MAX = 10_000


class PastQuery(ListQuery, frozen=True):
    """The filter of the history."""

    created_by: Text = ""


@dataclass(frozen=True)
class PastJob:
    """A job by its copy in the database; `is_stored` if the engine still has it."""

    id: str
    name: str
    source: str
    group: str
    to: str
    to_name: str
    selection: Mapping[str, Any]
    dry_run: bool
    state: str
    selected: int
    totals: list[Total]
    sent: int
    bad: int
    created_ms: int
    created_by: str
    ended_ms: int | None
    last_error: str
    is_stored: bool


@dataclass(frozen=True)
class PastJobs:
    """The context of `jobs_history.html`; the newest first."""

    jobs: list[PastJob]
    state: str
    source: str
    created_by: str
    next_cursor: str
    is_first: bool
    states: tuple[str, ...] = STATES
    copies_max: int = COPIES_MAX


@dataclass(frozen=True)
class PastPage:
    """The context of `job_past.html`."""

    past: PastJob


async def index(request: Request) -> Response:
    """GET /jobs/history"""
    query = typed_forms.query(request.query_params, PastQuery)
    state = query.state or ""
    job_filter = JobFilter(source=query.source, state=state, created_by=query.created_by)
    rows = await services_of(request.scope).replay_copies.find(
        job_filter, jobs.PAGE_SIZE, parse_cursor(query.cursor)
    )
    is_more = len(rows) == jobs.PAGE_SIZE
    context = PastJobs(
        jobs=[_past(request, row) for row in rows],
        state=state,
        source=query.source,
        created_by=query.created_by,
        next_cursor=f"{rows[-1].created_ms}-{rows[-1].id}" if is_more else "",
        is_first=not query.cursor,
    )
    title = _("History of replay jobs")
    return await pages.respond(request, "jobs_history.html", context, title=title)


async def show(request: Request) -> Response:
    """GET /jobs/{id}: the engine's job, or its copy in the database."""
    try:
        return await jobs.show(request)
    except NotFound:
        row = await services_of(request.scope).replay_copies.get(request.path_params["id"])
        if row is None:
            raise
    past = _past(request, row)
    title = past.name or _("Job %(id)s", id=past.id)
    return await pages.respond(request, "job_past.html", PastPage(past), title=title)


def _past(request: Request, row: JobRow) -> PastJob:
    totals: dict[str, int] = msgspec.json.decode(row.totals_json)
    counted = jobs.totals_of(totals, row.selected)
    given = msgspec.json.decode(row.selection_json)  # of an older version with less in it
    source = row.source
    return convert(
        row,
        PastJob,
        group=source.removeprefix(DEAD_LETTER_PREFIX) if source.startswith("%") else "",
        to=row.target,
        to_name=row.target_name,
        selection={**dict.fromkeys(SELECTION), **given},
        totals=counted,
        sent=totals.get("sent", 0),
        bad=sum(total.count for total in counted if total.tone == "bad"),
        is_stored=pages.exists(pages.console_of(request).broker.replays.get, row.id),
    )
