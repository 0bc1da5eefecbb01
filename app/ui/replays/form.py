"""The form of a replay job over any topic: selection, target and rate; creates a dry run."""

from dataclasses import dataclass

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.ui.dead_letters.resend import TARGETS
from app.ui.framework import forms, pages, preferences, rights
from app.ui.framework.forms import Form, Posted
from app.ui.framework.language import N_, _
from app.ui.replays import jobs
from engine.broker import NewReplay
from engine.errors import Forbidden, Invalid, NotFound
from kitemq.model.numbers import is_whole

FIELDS = (
    "source", "by", "from", "until", "ranges", "filter", "to", "to_group", "to_topic", "rate",
    "name", "fresh_only",
)  # fmt: skip
ENGINE_NAMES = {"from_ms": "from", "to_ms": "until", "topic": "source"}
WAYS = (
    ("all", N_("all that is there now")),
    ("time", N_("what was stored in a time")),
    ("offsets", N_("ranges of offsets")),
)
RANGES_MAX = 1024
TEXT_MAX = 300


@dataclass(frozen=True)
class NewJob:
    """The context of `job_new.html`."""

    form: Form
    ways: tuple[tuple[str, str], ...] = WAYS
    targets: tuple[tuple[str, str], ...] = TARGETS


async def show(request: Request) -> Response:
    """GET /create/job: the form, filled in from the query."""
    values = dict.fromkeys(FIELDS, "") | {"by": "all", "to": "topic", "rate": "100"}
    for name in ("source", "by", "ranges", "filter"):
        values[name] = request.query_params.get(name, values[name])[:TEXT_MAX]
    if values["by"] not in [value for value, __ in WAYS]:
        values["by"] = "all"
    return await _page(request, Form(values))


async def _page(request: Request, form: Form, status: int = 200) -> Response:
    return await pages.respond(
        request, "job_new.html", NewJob(form), title=_("Replay messages"), section="jobs",
        status=status,
    )  # fmt: skip


async def create(request: Request) -> Response:
    """POST /jobs: create a dry run; its page has the next step."""
    posted = await forms.read(request)
    form = forms.fill(posted, FIELDS)
    new = _read(request, posted, form)
    if form.is_wrong:
        return await _page(request, form, 422)
    rights.require_resend(request, new.source, new.to, new.to_name)
    try:
        job = await services_of(request.scope).replays.create(jobs.actor_of(request), new)
    except (Invalid, NotFound, Forbidden) as error:
        is_target = new.to_name and repr(new.to_name) in error.detail
        target = {"to_name": f"to_{new.to}"} | ({"topic": "to_topic"} if is_target else {})
        form.blame(error, ENGINE_NAMES | target)
        return await _page(request, form, 422)
    await jobs.settle(request, job.id)
    return forms.go(request, f"/jobs/{job.id}")


def _read(request: Request, posted: Posted, form: Form) -> NewReplay:
    """The job in the form; errors are reported at their fields."""
    values = form.values
    if not values["source"].strip():
        form.refuse("source", _("Name the topic."))
    by = form.choice("by", _("Which messages"), tuple(value for value, __ in WAYS))
    from_ms, to_ms = _times(request, posted, form) if by == "time" else (0, 0)
    return replace(
        jobs.new_job(form, values["source"].strip()),
        ranges=_ranges(form) if by == "offsets" else (),
        from_ms=from_ms,
        to_ms=to_ms,
        filter=values["filter"].strip() or "*",
    )


def _times(request: Request, posted: Posted, form: Form) -> tuple[int, int]:
    """The first time and the end in ms, 0 for no limit; at least one is required."""
    zone = preferences.read(request).zone
    times = [
        (form.moment(name, posted.one("zone"), zone) or 0) if form.values[name].strip() else 0
        for name in ("from", "until")
    ]
    if not any(times):
        form.refuse("from", _("Say from when, or until when, or both."))
    return times[0], times[1]


def _ranges(form: Form) -> list[tuple[int, int, int]]:
    """Queue, first offset and end of each line; errors are reported at the field."""
    lines = form.values["ranges"].split()
    ranges: list[tuple[int, int, int]] = []
    for line in lines[:RANGES_MAX]:
        parts = line.split(":")
        if len(parts) != 3 or not all(is_whole(p) for p in parts):
            form.refuse("ranges", _("%(line)s is no range: write 0:100:200.", line=repr(line[:40])))
            return []
        ranges.append((int(parts[0]), int(parts[1]), int(parts[2])))
    if not ranges:
        form.refuse("ranges", _("Give one range on each line, as in 0:100:200."))
    if len(lines) > RANGES_MAX:
        form.refuse("ranges", _("At most %(most)s ranges.", most=f"{RANGES_MAX:,}"))
    return ranges
