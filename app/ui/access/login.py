"""The login page, the only page that needs no session, and logging out."""

from dataclasses import dataclass
from typing import Annotated

from starlette.responses import Response

from app.errors import ProblemError
from app.security.accounts import Browser
from app.security.authenticator import COOKIE, LOGIN, LOGIN_BEGIN, LOGOUT_LEFT, cookie_of
from app.security.oidc.login_state import LIFETIME_S
from app.ui.framework import forms, pages
from app.ui.framework.console import address_of
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.errors import Busy

LEFT_COOKIE = "kitemq_left"  # leads to the provider's own logout


class LoginFields(Fields, frozen=True):
    """The form; `next` is the page to open after the login."""

    name: Verbatim
    password: Verbatim
    next: Annotated[str, forms.local_path]


@dataclass(frozen=True)
class LoginFailure:
    """The reason why a provider's user was refused, and the next step."""

    headline: str
    detail: str
    remedy: str
    code: str


@dataclass(frozen=True)
class Login:
    """The context of `login.html`."""

    form: Form
    is_open: bool
    has_password: bool  # whether any user has a password
    provider: str  # what the button calls the OpenID Connect provider; "" where there is none
    begin: str  # where that button leads
    failure: LoginFailure | None = None


def browser_of(request: PageRequest) -> Browser:
    """The browser and address that a login comes from."""
    cookies = request.headers.get("cookie", "").encode("latin-1")
    return Browser(address_of(request), request.headers.get("user-agent", ""), cookie_of(cookies))


async def show(request: PageRequest) -> Response:
    """GET /login"""
    then = forms.local_path(request.query_params.get("next", "/"))
    return await page(request, then=then)


async def log_in(request: PageRequest) -> Response:
    """POST /login: redirect to the requested page, or show the form with its errors."""
    form, fields = await request.read_form(LoginFields, bytes_max=forms.LOGIN_BYTES_MAX)
    form.values |= {"next": fields.next, "password": ""}
    if request.services.accounts.directory.is_open:
        return forms.go(request, fields.next)
    try:
        return await logged_in(request, fields.name, fields.password, fields.next)
    except (ProblemError, Busy) as error:
        form.error = f"{str(error.detail).capitalize()}; {error.remedy}."
        status = error.status_code if isinstance(error, ProblemError) else 503
        return say_when(await page(request, form, status=status), error)


async def logged_in(request: PageRequest, name: str, password: str, then: str) -> Response:
    """Log in with a new session, and go on to `then`; raises as `Accounts.log_in`."""
    accounts = request.services.accounts
    secret, expires_ms = await accounts.log_in(name, password, browser_of(request))
    return with_session(request, forms.go(request, then), secret, expires_ms)


async def log_out(request: PageRequest) -> Response:
    """POST /logout"""
    who = request.who
    user = request.services.accounts.directory.user(who.name)
    if who.session_id:
        await request.services.accounts.log_out(request.actor, who.session_id)
    if user is not None and user.issuer is not None:
        response = forms.go(request, LOGOUT_LEFT)
        cookie = request.services.provider_login.logout_cookie(browser_of(request).session)
        set_way_cookie(request, response, LEFT_COOKIE, cookie)
    else:
        response = forms.go(request, LOGIN)
    _set_cookie(request, response, "", 0)
    return response


def with_session(
    request: PageRequest, response: Response, secret: str, expires_ms: int
) -> Response:
    """`response` with the cookie of a new session."""
    seconds = max(1, (expires_ms - request.console.now_ms()) // 1000)
    _set_cookie(request, response, secret, seconds)
    return response


def is_secure(request: PageRequest) -> bool:
    """Whether the browser speaks https, and so keeps a cookie for https only.

    Behind a proxy that ends TLS, only the page's own origin or the setting says so.
    """
    settings = request.services.settings
    addresses = (request.url.scheme, request.headers.get("origin", ""), settings.public_url)
    return any(text.startswith("https") for text in addresses)


def _set_cookie(request: PageRequest, response: Response, secret: str, seconds: int) -> None:
    # Lax, since the provider leads back from another site.
    response.set_cookie(
        COOKIE, secret, seconds, path="/", samesite="lax", httponly=True, secure=is_secure(request)
    )


def set_way_cookie(request: PageRequest, response: Response, name: str, value: str) -> None:
    """Set a cookie for the minutes of a provider login; an empty value deletes it."""
    seconds, secure = LIFETIME_S if value else 0, is_secure(request)
    response.set_cookie(
        name, value, seconds, path=LOGIN, samesite="lax", httponly=True, secure=secure
    )


def say_when(response: Response, error: ProblemError | Busy) -> Response:
    """`response` with the time after which to try again, if the error names one."""
    if error.retry_after_s:
        response.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return response


def _begin_path(then: str) -> str:
    """The address of the button that leads to the provider, and in the end to `then`."""
    return LOGIN_BEGIN if then in ("", "/") else f"{LOGIN_BEGIN}?next={forms.quoted(then)}"


async def page(
    request: PageRequest,
    form: Form | None = None,
    *,
    then: str = "/",
    failure: LoginFailure | None = None,
    status: int = 200,
) -> Response:
    """The login page with its error; `then` is the page to open after the login."""
    form = form or Form({"name": "", "password": "", "next": then})
    settings = request.services.settings
    context = Login(
        form=form,
        is_open=request.services.accounts.directory.is_open,
        has_password=settings.password_login,
        provider=settings.oidc_name if settings.has_oidc else "",
        begin=_begin_path(form.values["next"]),
        failure=failure,
    )
    return await pages.respond(request, "login.html", context, title=_("Log in"), status=status)
