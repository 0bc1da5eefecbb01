"""Logging in and out: the one page that is open to everybody."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.errors import DoorError
from app.security.access import who_of
from app.security.accounts import Accounts, Browser, By
from app.security.doorman import COOKIE, LOGIN, cookie_of
from app.ui import forms, pages
from app.ui.console import address_of, client_of
from app.ui.forms import Form
from engine.errors import Busy

FIELDS = ("name", "password", "next")


@dataclass(frozen=True)
class Login:
    """The context of `login.html`."""

    form: Form
    is_open: bool


def accounts_of(request: Request) -> Accounts:
    """The audited changes of people."""
    accounts: Accounts = request.app.state.accounts
    return accounts


def by_of(request: Request) -> By:
    """Who changes people, for the trail."""
    return By(client_of(request), request.headers.get("x-request-id", ""))


def browser_of(request: Request) -> Browser:
    """Where a login comes from."""
    cookies = request.headers.get("cookie", "").encode("latin-1")
    return Browser(address_of(request), request.headers.get("user-agent", ""), cookie_of(cookies))


async def show(request: Request) -> Response:
    """GET /login"""
    then = forms.local_path(request.query_params.get("next", "/"))
    return await _page(request, Form({"name": "", "password": "", "next": then}))


async def log_in(request: Request) -> Response:
    """POST /login: where one wanted to go, or the form with what is wrong."""
    form = forms.fill(await forms.read(request), FIELDS)
    form.values["next"] = forms.local_path(form.values["next"])
    password, form.values["password"] = form.values["password"], ""
    if accounts_of(request).people.is_open:
        return forms.go(request, form.values["next"])
    try:
        return await logged_in(request, form.values["name"], password, form.values["next"])
    except (DoorError, Busy) as error:
        form.error = f"{str(error.detail).capitalize()}; {error.remedy}."
        status = error.status_code if isinstance(error, DoorError) else 503
        response = await _page(request, form, status)
        if error.retry_after_s:
            response.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
        return response


async def logged_in(request: Request, name: str, password: str, then: str) -> Response:
    """Log in with a new session, and go on to `then`; raises as `Accounts.log_in`."""
    accounts = accounts_of(request)
    secret, expires_ms = await accounts.log_in(name, password, browser_of(request))
    response = forms.go(request, then)
    seconds = max(1, (expires_ms - pages.console_of(request).now_ms()) // 1000)
    _set_cookie(request, response, secret, seconds)
    return response


async def log_out(request: Request) -> Response:
    """POST /logout"""
    who = who_of(request.scope)
    if who.session_id:
        await accounts_of(request).log_out(by_of(request), who.session_id)
    response = forms.go(request, LOGIN)
    _set_cookie(request, response, "", 0)
    return response


def _set_cookie(request: Request, response: Response, secret: str, seconds: int) -> None:
    # Behind a proxy that ends TLS, only the page's own origin says that it was https.
    origin = request.headers.get("origin", "")
    is_secure = request.url.scheme == "https" or origin.startswith("https://")
    response.set_cookie(
        COOKIE, secret, max_age=seconds, path="/", samesite="lax", httponly=True, secure=is_secure
    )


async def _page(request: Request, form: Form, status: int = 200) -> Response:
    context = Login(form=form, is_open=accounts_of(request).people.is_open)
    return await pages.respond(request, "login.html", context, title="Log in", status=status)
