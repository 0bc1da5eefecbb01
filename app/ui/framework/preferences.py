"""A browser's preferences in cookies: colours, refresh, zone, language, density, shortcuts.

The server reads them before it renders, so that no page flashes in the wrong colours.
"""

from dataclasses import dataclass
from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from app.ui.framework import forms, language, zones
from app.ui.framework.language import Language
from app.ui.framework.zones import UTC_ZONE, Zone

THEME_COOKIE = "kitemq_theme"
REFRESH_COOKIE = "kitemq_refresh"
ZONE_COOKIE = "kitemq_zone"
LANGUAGE_COOKIE = "kitemq_language"
DENSITY_COOKIE = "kitemq_density"
KEYS_COOKIE = "kitemq_keys"
AUTO_LANGUAGE = "auto"
OTHER_ZONE = "other"
KEEP_S = 365 * 24 * 3600
REFRESH_CHOICES_S = (0, 2, 5, 10)
REFRESH_DEFAULT_S = 5


class Theme(StrEnum):
    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"


class Density(StrEnum):
    """The row height of lists."""

    COMFORTABLE = "comfortable"
    COMPACT = "compact"


class Keys(StrEnum):
    """Whether single-letter shortcuts are on; speech input may trigger them by accident."""

    ON = "on"
    OFF = "off"


@dataclass(frozen=True)
class Preferences:
    theme: Theme = Theme.AUTO
    refresh_s: int = REFRESH_DEFAULT_S
    zone: Zone = UTC_ZONE
    language: Language = Language.ENGLISH
    density: Density = Density.COMFORTABLE
    keys: Keys = Keys.ON


def read(request: Request) -> Preferences:
    """The preferences in the request's cookies; invalid values give the default."""
    theme = request.cookies.get(THEME_COOKIE, "")
    refresh = request.cookies.get(REFRESH_COOKIE, "")
    density = request.cookies.get(DENSITY_COOKIE, "")
    keys = request.cookies.get(KEYS_COOKIE, "")
    return Preferences(
        theme=Theme(theme) if theme in set(Theme) else Theme.AUTO,
        refresh_s=next((s for s in REFRESH_CHOICES_S if str(s) == refresh), REFRESH_DEFAULT_S),
        zone=zones.parse(request.cookies.get(ZONE_COOKIE, "")) or UTC_ZONE,
        language=chosen_language(request) or language.preferred(_accepted(request)),
        density=Density(density) if density in set(Density) else Density.COMFORTABLE,
        keys=Keys(keys) if keys in set(Keys) else Keys.ON,
    )


async def speak(request: Request) -> None:
    """Set the language of this request to the browser's; English for programs."""
    is_page = request.query_params.get("format", "html") == "html"
    spoken = read(request).language if is_page else Language.ENGLISH
    await language.load(spoken)
    language.speak(spoken)


def chosen_language(request: Request) -> Language | None:
    """The language that the user chose here; None if the browser's settings decide."""
    return language.parse(request.cookies.get(LANGUAGE_COOKIE, ""))


def _accepted(request: Request) -> str:
    return request.headers.get("accept-language", "")


async def change(request: Request) -> Response:
    """POST /preferences: store the choice and redirect to the page it was made on."""
    values = await forms.read(request)
    next_path = forms.local_path(values.one("next"))
    if values.one("zone") == OTHER_ZONE:
        return forms.go(request, "/settings")
    response = forms.go(request, next_path)
    keep(response, values)
    return response


def keep(response: Response, values: forms.Posted) -> None:
    """Store the values of a form in cookies; invalid values change nothing."""
    theme, refresh = values.one("theme"), values.one("refresh")
    if theme in set(Theme):
        _keep(response, THEME_COOKIE, theme)
    if refresh in {str(choice) for choice in REFRESH_CHOICES_S}:
        _keep(response, REFRESH_COOKIE, refresh)
    if values.one("language") in {AUTO_LANGUAGE, *Language}:
        _keep(response, LANGUAGE_COOKIE, values.one("language"))
    for name, cookie, choices in (
        ("density", DENSITY_COOKIE, set(Density)),
        ("keys", KEYS_COOKIE, set(Keys)),
    ):
        if values.one(name) in choices:
            _keep(response, cookie, values.one(name))
    zone = zones.parse(zone_text(values))
    if zone is not None:
        _keep(response, ZONE_COOKIE, zone.choice)


def zone_text(values: forms.Posted) -> str:
    """The chosen zone; for the browser's own zone, the field that a script fills."""
    zone = values.one("zone")
    return f"{zones.LOCAL}:{values.one('local_zone')}" if zone == zones.LOCAL else zone


def _keep(response: Response, name: str, value: str) -> None:
    response.set_cookie(name, value, max_age=KEEP_S, path="/", samesite="lax", httponly=True)
