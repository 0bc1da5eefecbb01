"""What a browser was told to prefer: colours and how often pages refresh; kept in two cookies.

The server reads them before it renders, so that a page never shows in the wrong colours first.
"""

from dataclasses import dataclass
from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from app.ui import forms

THEME_COOKIE = "kitemq_theme"
REFRESH_COOKIE = "kitemq_refresh"
KEEP_S = 365 * 24 * 3600
REFRESH_CHOICES_S = (0, 2, 5, 10)
REFRESH_DEFAULT_S = 5


class Theme(StrEnum):
    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True)
class Preferences:
    theme: Theme = Theme.AUTO
    refresh_s: int = REFRESH_DEFAULT_S


def read(request: Request) -> Preferences:
    """The preferences in the request's cookies; what is not understood is the default."""
    theme = request.cookies.get(THEME_COOKIE, "")
    refresh = request.cookies.get(REFRESH_COOKIE, "")
    return Preferences(
        theme=Theme(theme) if theme in set(Theme) else Theme.AUTO,
        refresh_s=next((s for s in REFRESH_CHOICES_S if str(s) == refresh), REFRESH_DEFAULT_S),
    )


async def change(request: Request) -> Response:
    """POST /preferences: keep what was chosen and go back to where it was chosen."""
    values = await forms.read(request)
    response = forms.go(request, forms.local_path(values.one("next")))
    theme, refresh = values.one("theme"), values.one("refresh")
    if theme in set(Theme):
        _keep(response, THEME_COOKIE, theme)
    if refresh in {str(choice) for choice in REFRESH_CHOICES_S}:
        _keep(response, REFRESH_COOKIE, refresh)
    return response


def _keep(response: Response, name: str, value: str) -> None:
    response.set_cookie(name, value, max_age=KEEP_S, path="/", samesite="lax", httponly=True)
