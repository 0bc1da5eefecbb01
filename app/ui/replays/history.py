"""Replay jobs in the database, including those that the engine has deleted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import Response

from app.db.rows import JobFilter, JobRow
from app.services.replay_copies import SELECTION, parse_cursor
from app.ui.framework import pages
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.replays import jobs
from app.ui.replays.jobs import STATES, ListQuery, Text, Total
from engine.errors import NotFound
from kitemq.model.conversion import convert

COPIES_MAX = 10_000


class PastQuery(ListQuery, frozen=True):
    """The filter of the history."""

    created_by: Text = ""


@dataclass(frozen=True, kw_only=True)
class PastJob(JobRow):
    """A job by its copy in the database; `is_stored` if the engine still has it."""

    group: str
    selection: Mapping[str, Any]
    totals: list[Total]
    sent: int
    bad: int
    is_stored: bool


@dataclass(frozen=True)
class PastJobs:
    """The context of `jobs_history.html`; the newest first."""

    jobs: list[PastJob]
    query: PastQuery
    next_cursor: str
    states: tuple[str, ...] = STATES
    copies_max: int = COPIES_MAX


@dataclass(frozen=True)
class PastPage:
    """The context of `job_past.html`."""

    past: PastJob


async def index(request: PageRequest) -> Response:
    """GET /jobs/history"""
    query = request.read_query(PastQuery)
    job_filter = convert(query, JobFilter, state=query.state or "")
    rows = await request.services.replay_copies.find(
        job_filter, jobs.PAGE_SIZE, parse_cursor(query.cursor)
    )
    is_more = len(rows) == jobs.PAGE_SIZE
    context = PastJobs(
        jobs=[await _past(request, row) for row in rows],
        query=query,
        next_cursor=f"{rows[-1].created_ms}-{rows[-1].id}" if is_more else "",
    )
    title = _("History of replay jobs")
    return await pages.respond(request, "jobs_history.html", context, title=title)


async def show(request: PageRequest) -> Response:
    """GET /jobs/{id}: the engine's job, or its copy in the database."""
    try:
        return await jobs.show(request)
    except NotFound:
        row = await request.services.replay_copies.get(request.path_params["id"])
        if row is None:
            raise
    past = await _past(request, row)
    title = past.name or _("Job %(id)s", id=past.id)
    return await pages.respond(request, "job_past.html", PastPage(past), title=title)


async def _past(request: PageRequest, row: JobRow) -> PastJob:
    totals: dict[str, int] = msgspec.json.decode(row.totals_json)
    counted = jobs.totals_of(totals, row.selected)
    given = msgspec.json.decode(row.selection_json)  # of an older version with less in it
    return convert(
        row,
        PastJob,
        group=jobs.group_of_source(row.source),
        selection={**dict.fromkeys(SELECTION), **given},
        totals=counted,
        sent=totals.get("sent", 0),
        bad=sum(total.count for total in counted if total.tone == "bad"),
        is_stored=await pages.exists(request.services.replays.get, row.id),
    )
