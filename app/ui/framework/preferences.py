"""A browser's preferences in cookies: colours, refresh, zone, language, density, shortcuts.

The server reads them before it renders, so that no page flashes in the wrong colours.
"""

from enum import StrEnum
from typing import Annotated, Literal, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from app.ui.framework import forms, language, typed_forms, zones
from app.ui.framework.language import Language
from app.ui.framework.typed_forms import Fields, InvalidField
from app.ui.framework.zones import UTC_ZONE, Zone

COOKIE = "kitemq_"  # before the name of the choice
AUTO_LANGUAGE = "auto"
OTHER_ZONE = "other"
KEEP_S = 365 * 24 * 3600
Refresh = Literal[0, 2, 5, 10]
REFRESH_CHOICES_S: tuple[int, ...] = get_args(Refresh)


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


class Guide(StrEnum):
    """Whether the overview of a server without topics shows "Getting started"."""

    OPEN = "open"
    CLOSED = "closed"


def _zone(text: str) -> Zone:
    zone = zones.parse(text)
    if zone is None:
        raise InvalidField(text)
    return zone


class Preferences(Fields, frozen=True):
    """The choices in cookies; an invalid one has its default."""

    theme: Theme = Theme.AUTO
    refresh_s: Refresh = msgspec.field(default=5, name="refresh")
    zone: Annotated[Zone, _zone] = UTC_ZONE
    language: Language = Language.ENGLISH
    density: Density = Density.COMFORTABLE
    keys: Keys = Keys.ON
    guide: Guide = Guide.OPEN


def read(request: Request) -> Preferences:
    """The preferences in the request's cookies."""
    values = {name.removeprefix(COOKIE): text for name, text in request.cookies.items()}
    spoken = chosen_language(request) or language.preferred(
        request.headers.get("accept-language", "")
    )
    return msgspec.structs.replace(typed_forms.query(values, Preferences), language=spoken)


async def speak(request: Request) -> None:
    """Set the language of this request to the browser's; English for programs."""
    is_page = request.query_params.get("format", "html") == "html"
    spoken = read(request).language if is_page else Language.ENGLISH
    await language.load(spoken)
    language.speak(spoken)


def chosen_language(request: Request) -> Language | None:
    """The language that the user chose here; None if the browser's settings decide."""
    return language.parse(request.cookies.get(f"{COOKIE}language", ""))


CHOICES: dict[str, set[str]] = {
    "theme": set(Theme),
    "refresh": set(map(str, REFRESH_CHOICES_S)),
    "language": {AUTO_LANGUAGE, *Language},
    "density": set(Density),
    "keys": set(Keys),
    "guide": set(Guide),
}


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
    for name, choices in CHOICES.items():
        if values.one(name) in choices:
            _keep(response, name, values.one(name))
    zone = zones.parse(zone_text(values))
    if zone is not None:
        _keep(response, "zone", zone.choice)


def zone_text(values: forms.Posted) -> str:
    """The chosen zone; for the browser's own zone, the field that a script fills."""
    zone = values.one("zone")
    return f"{zones.LOCAL}:{values.one('local_zone')}" if zone == zones.LOCAL else zone


def _keep(response: Response, name: str, value: str) -> None:
    response.set_cookie(
        f"{COOKIE}{name}", value, max_age=KEEP_S, path="/", samesite="lax", httponly=True
    )
