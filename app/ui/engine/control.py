"""The switches of the running server: read-only mode and log levels."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.services.log_levels import INHERITED, LEVELS
from app.services.read_only import REASON_CHARS_MAX, ReadOnlyState
from app.ui.framework import forms, pages
from app.ui.framework.console import actor_of
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from engine.errors import Conflict, Invalid, NotFound
from kitemq.model.server import LoggerLevel

SWITCH_FIELDS = ("read_only", "reason")
JOBS_MAX = 200  # the page says "at least" beyond it
LEVEL_FIELDS = ("name", "level")


@dataclass(frozen=True)
class ControlPage:
    """The context of `control.html`, with the connections and jobs that a switch affects."""

    state: ReadOnlyState
    form: Form
    level_form: Form
    loggers: list[LoggerLevel]
    levels: tuple[str, ...]
    connections: int
    jobs: int
    reason_chars_max: int = REASON_CHARS_MAX


async def show(request: Request) -> Response:
    """GET /engine/control"""
    return await _page(request)


async def switch(request: Request) -> Response:
    """POST /engine/control/read-only"""
    form = forms.fill(await forms.read(request), SWITCH_FIELDS)
    is_on = form.choice("read_only", _("The switch"), ("on", "off")) == "on"
    read_only, reason = services_of(request.scope).read_only, form.values["reason"]
    if not form.is_wrong:
        try:
            await read_only.switch(actor_of(request), is_on=is_on, reason=reason)
        except (Invalid, Conflict) as error:
            form.blame(error)
    if form.is_wrong:
        return await _page(request, form=form)
    return forms.go(request, f"/engine/control?done={'frozen' if is_on else 'thawed'}")


async def change_level(request: Request) -> Response:
    """POST /engine/control/log-level"""
    form = forms.fill(await forms.read(request), LEVEL_FIELDS)
    levels = services_of(request.scope).log_levels
    try:
        await levels.change(actor_of(request), form.values["name"], form.values["level"])
    except (Invalid, NotFound) as error:
        form.blame(error)
        return await _page(request, level_form=form)
    return forms.go(request, "/engine/control?done=levelled")


async def _page(
    request: Request, *, form: Form | None = None, level_form: Form | None = None
) -> Response:
    services, broker = services_of(request.scope), pages.console_of(request).broker
    levels = services.log_levels
    jobs = len(broker.replays.list(state="running", count_max=JOBS_MAX))
    form = form or Form({"read_only": "", "reason": ""})
    level_form = level_form or Form({"name": "", "level": ""})
    status = max(form.status, level_form.status)
    context = ControlPage(
        state=services.read_only.state,
        form=form,
        level_form=level_form,
        loggers=levels.list(),
        levels=(INHERITED, *LEVELS),
        connections=services.connections.count,
        jobs=jobs,
    )
    title = _("Read-only, log levels")
    return await pages.respond(request, "control.html", context, title=title, status=status)
