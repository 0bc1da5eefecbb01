"""The form of a replay job over any topic: selection, target and rate; creates a dry run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import asdict, replace
from starlette.responses import Response

from app.ui.dead_letters.resend import TARGETS
from app.ui.framework import pages, rights, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, InvalidField, Moment
from app.ui.framework.zones import Zone
from app.ui.replays import jobs
from engine.broker import NewReplay
from engine.errors import Forbidden, Invalid, NotFound
from kitemq.model.numbers import is_whole

ENGINE_NAMES = {"from_ms": "from", "to_ms": "until", "topic": "source"}
WAYS = (
    ("all", N_("all current messages")),
    ("time", N_("stored in a time range")),
    ("offsets", N_("offset ranges")),
)
RANGES_MAX = 1024
Range = tuple[int, int, int]


class JobQuery(Fields, frozen=True):
    """What a link fills the form with."""

    source: jobs.Text = ""
    by: Literal["all", "time", "offsets"] = "all"
    ranges: jobs.Text = ""
    filter: jobs.Text = ""


class NewJobFields(jobs.TargetFields, frozen=True, kw_only=True, rename={"from_": "from"}):
    """The form; the times and the ranges have structs of their own."""

    source: str
    by: Annotated[Literal["all", "time", "offsets"], Meta(title=N_("Messages"))]
    from_: str
    until: str
    zone: str
    ranges: str
    filter: str


class TimeFields(Fields, frozen=True, rename={"from_ms": "from", "until_ms": "until"}):
    """What was stored in a time."""

    from_ms: Moment | None
    until_ms: Moment | None


def ranges_of(text: str) -> list[Range]:
    """Queue, first offset and end of each line. Raises InvalidField."""
    lines = text.split()
    ranges: list[Range] = []
    for line in lines[:RANGES_MAX]:
        parts = line.split(":")
        if len(parts) != 3 or not all(is_whole(p) for p in parts):
            raise InvalidField(
                _("%(line)s is not a range. Use the format 0:100:200.", line=repr(line[:40]))
            )
        ranges.append((int(parts[0]), int(parts[1]), int(parts[2])))
    if not ranges:
        raise InvalidField(_("Enter one range per line, for example 0:100:200."))
    if len(lines) > RANGES_MAX:
        raise InvalidField(_("Up to %(most)s ranges.", most=f"{RANGES_MAX:,}"))
    return ranges


class RangeFields(Fields, frozen=True):
    """Ranges of offsets."""

    ranges: Annotated[Sequence[Range], ranges_of] = ()


@dataclass(frozen=True)
class NewJob:
    """The context of `job_new.html`."""

    form: Form
    ways: tuple[tuple[str, str], ...] = WAYS
    targets: tuple[tuple[str, str], ...] = TARGETS


async def show(request: PageRequest) -> Response:
    """GET /create/job: the form, filled in from the query."""
    query = asdict(request.read_query(JobQuery))
    form = typed_forms.fill({"to": "topic", "rate": "100", **query}, NewJobFields)
    return await _page(request, form)


async def _page(request: PageRequest, form: Form) -> Response:
    title = _("Replay messages")
    return await pages.respond(request, "job_new.html", NewJob(form), title=title, section="jobs")


async def create(request: PageRequest) -> Response:
    """POST /jobs: create a dry run; its page has the next step."""
    form, fields = await request.read_form(NewJobFields)
    new = _new_job(form, fields, request.zone)
    if form.is_wrong:
        return await _page(request, form)
    rights.require_resend(request, new.source, new.to, new.to_name)
    try:
        job = await request.services.replays.create(request.actor, new)
    except (Invalid, NotFound, Forbidden) as error:
        is_target = new.to_name and repr(new.to_name) in error.detail
        target = {"to_name": f"to_{new.to}"} | ({"topic": "to_topic"} if is_target else {})
        form.blame(error, ENGINE_NAMES | target)
        return await _page(request, form)
    return await jobs.settled(request, job.id)


def _new_job(form: Form, fields: NewJobFields, zone: Zone) -> NewReplay:
    """The job in the form; errors are reported at their fields."""
    if not fields.source:
        form.refuse("source", _("Enter the topic."))
    new = replace(jobs.new_job(form, fields.source), filter=fields.filter or "*")
    if fields.by == "offsets":
        return replace(new, ranges=typed_forms.parse(form, RangeFields).ranges)
    if fields.by == "time":
        times = typed_forms.parse(form, TimeFields, zone)
        if times.from_ms is None and times.until_ms is None:
            form.refuse("from", _("Enter a start, an end, or both."))
        return replace(new, from_ms=times.from_ms or 0, to_ms=times.until_ms or 0)
    return new
