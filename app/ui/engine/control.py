"""The switches of the running server: read-only mode and log levels."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.services.log_levels import INHERITED, LEVELS
from app.services.read_only import REASON_CHARS_MAX
from app.ui.framework import forms, pages, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.errors import Conflict, Invalid, NotFound
from kitemq.model.server import LoggerLevel

JOBS_MAX = 200  # the page says "at least" beyond it


class SwitchFields(Fields, frozen=True):
    """The form of read-only mode."""

    read_only: Annotated[Literal["on", "off"], Meta(title=N_("Read-only mode"))]
    reason: Verbatim


class LevelFields(Fields, frozen=True):
    """The form of a logger's level."""

    name: Verbatim
    level: Verbatim


@dataclass(frozen=True)
class ControlPage:
    """The context of `control.html`, with the connections and jobs that a switch affects."""

    form: Form
    level_form: Form
    loggers: list[LoggerLevel]
    levels: tuple[str, ...]
    connections: int
    jobs: int
    reason_chars_max: int = REASON_CHARS_MAX


async def show(
    request: PageRequest, *, form: Form | None = None, level_form: Form | None = None
) -> Response:
    """GET /engine/control"""
    services = request.services
    levels = services.log_levels
    has_jobs = request.console.messaging.capabilities.dead_letter_replays
    running = await services.replays.list(state="running", count_max=JOBS_MAX) if has_jobs else []
    context = ControlPage(
        form=form or typed_forms.fill({}, SwitchFields),
        level_form=level_form or typed_forms.fill({}, LevelFields),
        loggers=levels.list(),
        levels=(INHERITED, *LEVELS),
        connections=services.connections.count,
        jobs=len(running),
    )
    title = _("Read-only, log levels")
    status = max(context.form.status, context.level_form.status)
    return await pages.respond(request, "control.html", context, title=title, status=status)


async def switch(request: PageRequest) -> Response:
    """POST /engine/control/read-only"""
    form, fields = await request.read_form(SwitchFields)
    read_only, is_on = request.services.read_only, fields.read_only == "on"
    if not form.is_wrong:
        try:
            await read_only.switch(request.actor, is_on=is_on, reason=fields.reason)
        except (Invalid, Conflict) as error:
            form.blame(error)
    if form.is_wrong:
        return await show(request, form=form)
    return forms.go(request, f"/engine/control?done={'frozen' if is_on else 'thawed'}")


async def change_level(request: PageRequest) -> Response:
    """POST /engine/control/log-level"""
    form, fields = await request.read_form(LevelFields)
    levels = request.services.log_levels
    try:
        await levels.change(request.actor, fields.name, fields.level)
    except (Invalid, NotFound) as error:
        form.blame(error)
        return await show(request, level_form=form)
    return forms.go(request, "/engine/control?done=levelled")
