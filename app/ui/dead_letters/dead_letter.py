"""The page of one dead letter: reason, traced attempts, body, and replay jobs."""

from dataclasses import dataclass, field

import msgspec
from starlette.responses import Response

from app.administration import FIGURES_UNKNOWN
from app.capabilities import lack_of
from app.security.message_rights import missing_right, require_message, visible
from app.services.bodies import decompress
from app.ui.bodies.bodies import Body
from app.ui.dead_letters.copies import CopyOutcome, outcome_of
from app.ui.dead_letters.resend import offset_of
from app.ui.framework import pages
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.journeys import words as journey_words
from app.ui.messages.message import Property, body_file, body_of, properties_of
from app.ui.replays.jobs import Job, job_of
from engine.broker import DeadLetter
from engine.errors import EngineError, NotFound
from engine.message import StoredMessage

# The stages of a journey that the page lists, with their labels.
STAGES = {
    "delivery": N_("delivered"),
    "retry_wait": N_("waited to be retried"),
    "dead_letter": N_("became a dead letter"),
    "replay": N_("resent"),
}


@dataclass(frozen=True)
class Step:
    """One stage of the message in this group."""

    word: str
    attempt: int
    at_ms: int
    until_ms: int | None
    outcome: str
    client: str
    detail: str
    is_dead: bool  # the stage that made it a dead letter


@dataclass(frozen=True)
class LetterPage:
    """The context of `dlq_letter.html`; `why_no_steps` is the reason for empty steps."""

    group: str
    is_gone: bool
    letter: DeadLetter = field(repr=False)  # its text would be as large as the body
    message: StoredMessage = field(repr=False)  # concealed if the user may not read it
    has_origin: bool
    properties: list[Property]
    body: Body
    unread: str  # the missing right that conceals body, keys and properties
    jobs: list[Job]
    forgotten: list[str]
    copy: CopyOutcome | None
    steps: list[Step]
    why_no_steps: str
    min_offset: int
    max_offset: int
    unknown: str  # why the letters around it are, "" where they are known


async def show(request: PageRequest) -> Response:
    """GET /dlq/{group}/{offset}"""
    console = request.console
    group = request.path_params["group"]
    letter = await console.administration.dead_letters.get(group, offset_of(request))
    steps, why = await _steps(request, group, letter)
    await decompress([letter.message])
    context = await _context(request, letter, steps, why)
    title = _("Dead letter %(offset)s of %(group)s", offset=letter.offset, group=group)
    return await pages.respond(request, "dlq_letter.html", context, title=title)


async def download(request: PageRequest) -> Response:
    """GET /dlq/{group}/{offset}/raw: the body's bytes as a file."""
    console = request.console
    group = request.path_params["group"]
    letter = await console.administration.dead_letters.get(group, offset_of(request))
    require_message(request.who, letter.message)
    return await body_file(letter.message, f"{group}-dead-{letter.offset}.bin")


async def _context(
    request: PageRequest, letter: DeadLetter, steps: list[Step], why_no_steps: str
) -> LetterPage:
    console, group = request.console, request.path_params["group"]
    message = visible(request.who, letter.message)
    jobs, forgotten = await _jobs(request, letter.redriven_by)
    low, end, unknown = letter.offset, letter.offset + 1, ""
    try:
        low, end = await console.administration.dead_letters.bounds(group)
    except FIGURES_UNKNOWN as error:
        unknown = error.detail
    return LetterPage(
        group=group,
        is_gone=not await pages.exists(console.administration.group, group),
        letter=msgspec.structs.replace(letter, message=message),
        message=message,
        has_origin=await pages.exists(console.administration.topic, letter.origin_topic),
        properties=properties_of(message),
        body=body_of(request, message),
        unread=missing_right(message),
        jobs=jobs,
        forgotten=forgotten,
        copy=await outcome_of(request, group, letter) if letter.redriven_by else None,
        steps=steps,
        why_no_steps=why_no_steps,
        min_offset=low,
        max_offset=end,
        unknown=unknown,
    )


async def _jobs(request: PageRequest, ids: list[str]) -> tuple[list[Job], list[str]]:
    """The jobs that resent the dead letter, and the ids of jobs that are deleted."""
    jobs: list[Job] = []
    forgotten: list[str] = []
    for job_id in ids:
        try:
            jobs.append(job_of(await request.services.replays.get(job_id)))
        except NotFound:
            forgotten.append(job_id)
    return jobs, forgotten


async def _steps(request: PageRequest, group: str, letter: DeadLetter) -> tuple[list[Step], str]:
    """The traced stages of the message in this group, oldest first, or the reason for none."""
    if absent := lack_of(request.console.messaging.capabilities, "journeys"):
        return [], absent
    try:
        journey = await request.services.journeys.find(letter.message.message_id)
    except EngineError as error:
        return [], error.detail
    steps = [
        Step(
            word=translated(STAGES[stage.name]),
            attempt=stage.attempt,
            at_ms=stage.at_ms,
            until_ms=stage.until_ms,
            outcome=translated(stage.outcome.replace("_", " ")),
            client=stage.client,
            detail=journey_words.detail(stage),
            is_dead=stage.name == "dead_letter",
        )
        for stage in journey.stages
        if stage.name in STAGES and stage.group in (group, "")
    ]
    applying = [reason.detail for reason in journey.reasons_checked if reason.applies]
    has_delivery = any(step.word == translated(STAGES["delivery"]) for step in steps)
    why = "" if has_delivery else "; ".join(applying) or _("nothing was traced of its deliveries")
    return steps, why
