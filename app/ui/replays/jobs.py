"""Replay jobs: selection, result of the dry run, progress, and outcomes of messages."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.container import services_of
from app.security.message_rights import lacks_messages
from app.ui.framework import forms, pages, rights, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, InvalidField
from app.ui.messages.message import address
from engine.broker import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    NewReplay,
    OutcomeRow,
    ReplayJob,
    ReplayState,
    ReplayTo,
    RetryRequest,
)
from engine.errors import Conflict, Invalid, MessageNotFound, NotFound, Refused
from engine.message import REDRIVEN_JOB
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole
from kitemq.model.replays import MessageOutcome

PAGE_SIZE = 50
Text = Annotated[str, Meta(max_length=300)]
RATE_MAX = 1_000_000
PATIENCE_S = 0.5
RETRIES_MAX = 5
# The label of an outcome and its tone.
OUTCOMES = {
    "sent": (N_("sent"), "ok"),
    "eligible": (N_("can be sent"), "ok"),
    "filtered": (N_("not selected: excluded by a condition"), ""),
    "sent_before": (N_("not selected: already sent by another job"), ""),
    "expired": (N_("expired: the record no longer exists"), "bad"),
    "unreadable": (N_("unreadable: the record is damaged"), "bad"),
    "no_origin": (N_("no origin in the record"), "bad"),
    "topic_gone": (N_("the target topic no longer exists"), "bad"),
    "group_gone": (N_("the target group no longer exists"), "bad"),
    "not_writable": (N_("the topic does not permit writes"), "bad"),
    "refused": (N_("refused by the topic"), "bad"),
    "pending": (N_("not processed yet"), ""),
    "stopped": (N_("not processed: job stopped"), "warn"),
}
STATES = tuple(state.value for state in ReplayState)
NOTICES = {
    "begin": "job-begun",
    "pause": "job-paused",
    "resume": "job-resumed",
    "stop": "job-stopped",
}


def rate_of(text: str) -> float:
    """A typed rate in messages per second, 0 for no limit. Raises InvalidField."""
    text = text.strip()
    whole, __, part = text.partition(".")
    if is_whole(whole + part, 11) and float(text) <= RATE_MAX:
        return float(text)
    raise InvalidField(
        _(
            "The rate must be a number from 0 to %(rate_max)s; 0 means no limit.",
            rate_max=f"{RATE_MAX:,}",
        )
    )


class ListQuery(Fields, frozen=True):
    """The filter of the list of jobs."""

    state: ReplayState | None = None
    source: Text = ""
    cursor: Text = ""


class JobPageQuery(Fields, frozen=True):
    """The outcome of messages to list, and the last message of the page before."""

    outcome: str = ""
    cursor: Annotated[int, Meta(ge=0, le=99_999_999)] = -1


class RateFields(Fields, frozen=True):
    """The rate of a job."""

    rate: Annotated[float, rate_of] = 0.0


class RetryFields(Fields, frozen=True):
    """The topic that failed messages go to, if it is another one."""

    to_topic: str


class TargetFields(RateFields, frozen=True, kw_only=True):
    """Where a job sends messages, and how."""

    to: Annotated[ReplayTo, Meta(title=N_("Destination"))]
    to_group: str
    to_topic: str
    name: str
    fresh_only: bool


@dataclass(frozen=True)
class Job:
    """A job as pages show it; `group` is set if its source are a group's dead letters."""

    job: ReplayJob
    group: str
    good: int
    bad: int
    left_out: int
    share: float
    is_over: bool

    @property
    def word(self) -> str:
        """The state of the job in at most two words."""
        if self.job.state is ReplayState.FINISHED and self.job.dry_run:
            return _("dry run")
        return (
            _("dry run")
            if self.job.dry_run and not self.is_over
            else translated(self.job.state.value)
        )

    @property
    def tone(self) -> str:
        state = self.job.state
        if state is ReplayState.FINISHED and not self.job.dry_run:
            return "warn" if self.bad or not self.good else "ok"
        return "warn" if state is not ReplayState.RUNNING and not self.job.dry_run else ""


@dataclass(frozen=True)
class Jobs:
    """The context of `jobs.html`; the newest first."""

    jobs: list[Job]
    query: ListQuery
    next_cursor: str
    states: tuple[str, ...] = STATES


@dataclass(frozen=True)
class Total:
    """The number of messages with one outcome."""

    outcome: str
    text: str
    tone: str
    count: int
    share: float


class OutcomeLine(MessageOutcome, frozen=True):
    """The outcome of one message in words."""

    text: str
    tone: str
    to_group: str


@dataclass(frozen=True)
class JobLink:
    """A link to another job, by its name if it has one."""

    id: str
    text: str


@dataclass(frozen=True)
class JobPage:
    """The context of `job.html`."""

    view: Job
    totals: list[Total]
    outcome: str
    rows: list[OutcomeLine]
    next_cursor: str
    is_first: bool
    form: Form
    retry_of: JobLink | None
    retried_by: list[JobLink]


async def index(request: PageRequest) -> Response:
    """GET /jobs"""
    query = request.read_query(ListQuery)
    page = await request.services.replays.list(
        source=query.source, state=query.state or "", after=query.cursor, count_max=PAGE_SIZE
    )
    context = Jobs(
        jobs=[job_of(job) for job in page],
        query=query,
        next_cursor=page[-1].id if len(page) == PAGE_SIZE else "",
    )
    title, is_live = _("Replay jobs"), not query.cursor
    return await pages.respond(request, "jobs.html", context, title=title, is_live=is_live)


def group_of_source(topic: str) -> str:
    """The group whose dead letters a job reads; "" for another source."""
    return topic.removeprefix(DEAD_LETTER_PREFIX) if topic.startswith("%") else ""


def job_of(job: ReplayJob) -> Job:
    """A job with the totals of its page."""
    by_tone = {"ok": 0, "bad": 0, "": 0, "warn": 0}
    for outcome, count in job.totals.items():
        by_tone[OUTCOMES[outcome][1]] += count
    return Job(
        job=job,
        group=group_of_source(job.source),
        good=by_tone["ok"],
        bad=by_tone["bad"],
        left_out=job.totals.get("filtered", 0) + job.totals.get("sent_before", 0),
        share=job.examined / job.selected if job.selected else 1.0,
        is_over=job.state in (ReplayState.STOPPED, ReplayState.FINISHED),
    )


async def show(request: PageRequest) -> Response:
    """GET /jobs/{id} of a job in the engine; raises NotFound."""
    job = await request.services.replays.get(request.path_params["id"])
    return await _page(request, _form_of(job))


async def _page(request: PageRequest, form: Form) -> Response:
    replays = request.services.replays
    job = await replays.get(request.path_params["id"])
    query = request.read_query(JobPageQuery)
    outcome, after = query.outcome if query.outcome in OUTCOMES else "", query.cursor
    page = await replays.outcomes(job.id, outcome=outcome, after=after, count_max=PAGE_SIZE)
    job_view = job_of(job)
    may_read = not lacks_messages(request.who, job.source)
    context = JobPage(
        view=job_view,
        totals=totals_of(job.totals, job.selected),
        outcome=outcome,
        rows=[_outcome(row, may_read=may_read) for row in page.items],
        next_cursor="" if page.next is None else str(page.next),
        is_first=after < 0,
        form=form,
        retry_of=await _link(request, job.retry_of) if job.retry_of else None,
        retried_by=[await _link(request, each) for each in job.retried_by[-RETRIES_MAX:]],
    )
    return await pages.respond(
        request,
        "job.html",
        context,
        title=job.name or _("Job %(id)s", id=job.id),
        is_live=not job_view.is_over and after < 0,
    )


def totals_of(totals: Mapping[str, int], selected: int) -> list[Total]:
    """The number of messages by outcome, with their shares of the selection."""
    return [
        Total(name, *_outcome_label(name), count, count / max(1, selected))
        for name, count in totals.items()
    ]


def _outcome_label(outcome: str) -> tuple[str, str]:
    text, tone = OUTCOMES[outcome]
    return translated(text), tone


async def _link(request: PageRequest, job_id: str) -> JobLink:
    """A link to a job, which may be deleted."""
    try:
        name = (await request.services.replays.get(job_id)).name
    except NotFound:
        name = ""
    return JobLink(job_id, name or job_id)


def _outcome(row: OutcomeRow, *, may_read: bool) -> OutcomeLine:
    group = row.to_topic.removeprefix(RETRY_PREFIX) if row.to_topic.startswith("%") else ""
    text, tone = _outcome_label(row.outcome)
    keys = row.keys if may_read else ()
    return convert(row, OutcomeLine, text=text, tone=tone, keys=keys, to_group=group)


def _form_of(job: ReplayJob) -> Form:
    rate = f"{job.rate:.6f}".rstrip("0").rstrip(".")
    return Form({"rate": rate, "to_topic": ""})


async def _require_right(request: PageRequest, job_id: str) -> None:
    job = await request.services.replays.get(job_id)
    rights.require_resend(request, job.source, job.to, job.to_name)


async def act(request: PageRequest) -> Response:
    """POST /jobs/{id}/{action}: start, pause, resume or stop the job."""
    job_id = request.path_params["id"]
    action = request.url.path.rpartition("/")[2]
    await forms.read(request)
    await _require_right(request, job_id)
    replays, actor = request.services.replays, request.actor
    acts = {
        "begin": replays.begin,
        "pause": replays.pause,
        "resume": replays.resume,
        "stop": replays.stop,
    }
    try:
        job = await acts[action](actor, job_id)
    except Conflict as error:
        form = _form_of(await request.services.replays.get(job_id))
        form.blame(error)
        return await _page(request, form)
    if action in ("begin", "resume"):
        await settle(request, job.id)
    return forms.go(request, f"/jobs/{job_id}?done={NOTICES[action]}")


async def retry(request: PageRequest) -> Response:
    """POST /jobs/{id}/retry: create a dry run over the failed messages."""
    job_id = request.path_params["id"]
    form, fields = await request.read_form(RetryFields)
    to_topic = fields.to_topic
    await _require_right(request, job_id)
    job = await request.services.replays.get(job_id)
    form.values["rate"] = _form_of(job).values["rate"]
    to = ReplayTo.TOPIC if to_topic else None
    how = RetryRequest(to=to, to_name=to_topic, name=job.name, rate=job.rate, dry_run=True)
    if to_topic:
        rights.require_resend(request, job.source, ReplayTo.TOPIC, to_topic)
    try:
        new = await request.services.replays.retry(request.actor, job_id, how)
    except (Invalid, NotFound, Refused) as error:
        form.blame(error, {"to_name": "to_topic", "topic": "to_topic"})
        return await _page(request, form)
    return await settled(request, new.id)


async def change_rate(request: PageRequest) -> Response:
    """POST /jobs/{id}/rate"""
    job_id = request.path_params["id"]
    form, fields = await request.read_form(RateFields)
    form.values["to_topic"] = ""
    if form.is_wrong:
        return await _page(request, form)
    await _require_right(request, job_id)
    try:
        await request.services.replays.change_rate(request.actor, job_id, fields.rate)
    except (Invalid, Conflict) as error:
        form.blame(error)
        return await _page(request, form)
    return forms.go(request, f"/jobs/{job_id}?done=changed")


def new_job(form: Form, source: str) -> NewReplay:
    """Create a dry run over `source` from the form; errors are reported at their fields."""
    fields = typed_forms.parse(form, TargetFields)
    field = {ReplayTo.GROUP: "to_group", ReplayTo.TOPIC: "to_topic"}.get(fields.to, "")
    to_name = form.values[field] if field else ""
    if field and not to_name:
        form.refuse(field, _("Enter a name."))
    return convert(fields, NewReplay, source=source, to_name=to_name, dry_run=True)


async def settle(request: Request, job_id: str) -> None:
    """Wait a moment for a small job, so that its page shows the result at once."""
    replays = services_of(request.scope).replays
    end_s = asyncio.get_running_loop().time() + PATIENCE_S
    while (await replays.get(job_id)).state is ReplayState.RUNNING:
        if asyncio.get_running_loop().time() >= end_s:
            return
        await asyncio.sleep(0.02)


async def settled(request: Request, job_id: str) -> Response:
    """Redirect to a new job once it has settled."""
    await settle(request, job_id)
    return forms.go(request, f"/jobs/{job_id}")


async def copy(request: PageRequest) -> Response:
    """GET /jobs/{id}/copies/{message}: redirect to the record that the job wrote."""
    job_id, message_id = request.path_params["id"], request.path_params["message"]
    job = await request.services.replays.get(job_id)
    for record in await request.services.search.by_id(message_id):
        # A copy that became a dead letter again also names the job, but is not the copy itself.
        is_source = record.topic.startswith(DEAD_LETTER_PREFIX)
        if record.properties.get(REDRIVEN_JOB) == job.id and not is_source:
            place = address(record.topic, record.queue, record.offset)
            return RedirectResponse(place, status_code=302)
    raise MessageNotFound(
        _(
            "the copy of message %(message_id)s written by job %(id)s was not found",
            message_id=message_id,
            id=job.id,
        ),
        field="message",
        remedy=_("it may have expired, or may not be indexed yet"),
    )
