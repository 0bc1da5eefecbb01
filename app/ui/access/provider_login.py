"""Login by an OpenID Connect provider: the redirect to it, the callback, and logout.

The way there is a link and no form: the pages' policy lets forms lead to this server only.
"""

from dataclasses import dataclass

from starlette.responses import RedirectResponse, Response

from app.errors import ProblemError
from app.security.authenticator import LOGIN, LOGOUT_FAR
from app.security.oidc.login import LoginCallback
from app.ui.access import login
from app.ui.access.login import LEFT_COOKIE, set_way_cookie
from app.ui.framework import forms, pages
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest

STATE_COOKIE = "kitemq_trip"
VALUE_CHARS_MAX = 4096  # of one part of the provider's answer
ANSWERS = ("state", "code", "iss", "error", "error_description")
HEADLINES = {
    "oidc_state": N_("Login failed"),
    "oidc_unreachable": N_("The provider is not responding"),
    "oidc_busy": N_("Not right now"),
    "oidc_denied": N_("Login refused by the provider"),
    "oidc_token": N_("The provider's response was not accepted"),
    "oidc_off": N_("No provider configured"),
}
NOT_LET_IN = N_("You are logged in at the provider, but have no access here")


@dataclass(frozen=True)
class Left:
    """The context of `login_left.html`."""

    provider: str
    far: str  # the address that logs out of the provider; "" if it has none


async def begin(request: PageRequest) -> Response:
    """GET /login/provider?next=…: redirect to the provider, with a cookie for the callback."""
    then = forms.local_path(request.query_params.get("next", "/"))
    try:
        provider = request.services.provider_login
        address, cookie = await provider.begin(then, base_of(request))
    except ProblemError as error:
        return await _refused(request, error, then)
    response = RedirectResponse(address, status_code=303, headers={"Cache-Control": "no-store"})
    set_way_cookie(request, response, STATE_COOKIE, cookie)
    return response


async def back(request: PageRequest) -> Response:
    """GET /login/callback: log in and open the requested page, or say why that failed."""
    query = {
        name: request.query_params[name][:VALUE_CHARS_MAX]
        for name in ANSWERS
        if name in request.query_params
    }
    callback = LoginCallback(query, request.cookies.get(STATE_COOKIE, ""), base_of(request))
    try:
        session = await request.services.provider_login.finish(callback, login.browser_of(request))
    except ProblemError as error:
        response = await _refused(request, error, "/")
    else:
        response = login.with_session(
            request,
            RedirectResponse(forms.local_path(session.next_path), status_code=303),
            session.secret,
            session.expires_ms,
        )
    set_way_cookie(request, response, STATE_COOKIE, "")
    response.headers["Cache-Control"] = "no-store"
    return response


async def logged_out(request: PageRequest) -> Response:
    """GET /login/left: the page after logout, with a link to log out of the provider too."""
    provider = request.services.provider_login
    far = LOGOUT_FAR if request.cookies.get(LEFT_COOKIE) and provider.has_logout else ""
    context = Left(provider=request.services.settings.oidc_name, far=far)
    return await pages.respond(request, "login_left.html", context, title=_("Logged out"))


async def leave_far(request: PageRequest) -> Response:
    """GET /login/leave-provider: redirect to the provider's logout page."""
    cookie = request.cookies.get(LEFT_COOKIE, "")
    try:
        address = await request.services.provider_login.logout_url(cookie, base_of(request))
    except ProblemError as error:
        return await _refused(request, error, "/")
    response = RedirectResponse(address or LOGIN, status_code=303)
    set_way_cookie(request, response, LEFT_COOKIE, "")
    return response


async def _refused(request: PageRequest, error: ProblemError, then: str) -> Response:
    failure = login.LoginFailure(
        headline=translated(HEADLINES.get(error.code, NOT_LET_IN)),
        detail=f"{str(error.detail)[:1].upper()}{str(error.detail)[1:]}.",
        remedy=f"{error.remedy[:1].upper()}{error.remedy[1:]}.",
        code=error.code,
    )
    response = await login.page(request, then=then, failure=failure, status=error.status_code)
    return login.say_when(response, error)


def base_of(request: PageRequest) -> str:
    return str(request.base_url).rstrip("/")
