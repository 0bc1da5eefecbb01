"""What this browser prefers, on one page: colours, refreshing, and any time zone by its name."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.ui import formats, forms, pages, preferences, zones
from app.ui.forms import Form

FIELDS = ("theme", "refresh", "zone", "local_zone")
THEMES = (("auto", "As the system"), ("light", "Light"), ("dark", "Dark"))
REFRESHES = tuple(
    (str(seconds), f"every {seconds} s" if seconds else "only when asked")
    for seconds in preferences.REFRESH_CHOICES_S
)


@dataclass(frozen=True)
class SettingsPage:
    """The context of `settings.html`."""

    form: Form
    example: str
    zones: tuple[str, ...]
    themes: tuple[tuple[str, str], ...] = THEMES
    refreshes: tuple[tuple[str, str], ...] = REFRESHES


async def show(request: Request) -> Response:
    """GET /settings"""
    chosen = preferences.read(request)
    zone = zones.LOCAL if chosen.zone.is_local else chosen.zone.name
    values = (chosen.theme.value, str(chosen.refresh_s), zone, "")
    return await _page(request, Form(dict(zip(FIELDS, values, strict=True))), 200)


async def change(request: Request) -> Response:
    """POST /settings: kept in cookies; a zone that nobody knows is refused at its field."""
    posted = await forms.read(request)
    form = forms.fill(posted, FIELDS)
    form.values["zone"] = form.values["zone"].strip()
    console = pages.console_of(request)
    text = preferences.zone_text(posted)
    if await console.render(lambda: zones.parse(text)) is None:
        form.refuse("zone", "No zone has this name; choose one from the list, UTC, or local.")
        return await _page(request, form, 422)
    response = forms.go(request, "/settings?done=changed")
    preferences.keep(response, posted)
    return response


async def _page(request: Request, form: Form, status: int) -> Response:
    console = pages.console_of(request)
    zone = preferences.read(request).zone
    known = await console.render(zones.names)
    example = formats.absolute(console.now_ms(), zone.rules)
    context = SettingsPage(form, example, known)
    return await pages.respond(
        request,
        "settings.html",
        context,
        title="Settings",
        section="settings",
        status=status,
    )
