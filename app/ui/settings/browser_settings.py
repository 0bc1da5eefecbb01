"""The page of this browser's preferences: colours, refresh, time zone, and language."""

from dataclasses import dataclass

from starlette.responses import Response

from app.ui.framework import formats, forms, pages, preferences, zones
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, Language, _
from app.ui.framework.page_request import PageRequest

FIELDS = ("theme", "refresh", "zone", "local_zone", "language", "density", "keys")
THEMES = (("auto", N_("System")), ("light", N_("Light")), ("dark", N_("Dark")))
DENSITIES = (("comfortable", N_("Comfortable")), ("compact", N_("Compact")))
KEYS = (("on", N_("On")), ("off", N_("Off: only Ctrl K and Esc")))
LANGUAGES = (
    (preferences.AUTO_LANGUAGE, N_("Browser default")),
    *((language.value, language.own_name) for language in Language),
)


@dataclass(frozen=True)
class SettingsPage:
    """The context of `settings.html`."""

    form: Form
    example: str
    zones: tuple[str, ...]
    refreshes: tuple[tuple[str, str], ...]
    themes: tuple[tuple[str, str], ...] = THEMES
    languages: tuple[tuple[str, str], ...] = LANGUAGES
    densities: tuple[tuple[str, str], ...] = DENSITIES
    keys: tuple[tuple[str, str], ...] = KEYS


async def show(request: PageRequest) -> Response:
    """GET /settings"""
    current = preferences.read(request)
    zone = zones.LOCAL if current.zone.is_local else current.zone.name
    language = preferences.chosen_language(request) or preferences.AUTO_LANGUAGE
    refresh, density = str(current.refresh_s), current.density.value
    values = (current.theme.value, refresh, zone, "", language, density, current.keys.value)
    return await _page(request, Form(dict(zip(FIELDS, values, strict=True))))


async def change(request: PageRequest) -> Response:
    """POST /settings: store the preferences in cookies; an unknown zone is an error."""
    posted = await forms.read(request)
    form = forms.fill(posted, FIELDS)
    form.values["zone"] = form.values["zone"].strip()
    console = request.console
    text = preferences.zone_text(posted)
    if await console.render(lambda: zones.parse(text)) is None:
        form.refuse("zone", _("Unknown time zone; choose one from the list, UTC, or local."))
        return await _page(request, form)
    response = forms.go(request, "/settings?done=changed")
    preferences.keep(response, posted)
    return response


async def _page(request: PageRequest, form: Form) -> Response:
    console = request.console
    zone = request.zone
    zone_names = await console.render(zones.names)
    example = formats.absolute(console.now_ms(), zone.rules)
    context = SettingsPage(form, example, zone_names, _refreshes())
    return await pages.respond(request, "settings.html", context, title=_("Settings"))


def _refreshes() -> tuple[tuple[str, str], ...]:
    return tuple(
        (str(s), _("every %(seconds)s s", seconds=s) if s else _("manually"))
        for s in preferences.REFRESH_CHOICES_S
    )
