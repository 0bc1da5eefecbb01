"""Authenticates each request by its token or its session cookie.

A token comes as `Authorization: Bearer …`; over a WebSocket also as the subprotocol
`kitemq.token.…`, since scripts in browsers can set no header there. Neither token nor cookie is
accepted in a URL, because URLs end up in logs.
"""

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlsplit

from starlette.types import Scope

from app.errors import ProblemError
from app.security.access import NOBODY, Principal
from app.security.origins import COOKIE as COOKIE
from app.security.origins import SAFE_METHODS, unsaid_page
from app.security.user_directory import UserDirectory

BEARER = b"bearer "
TOKEN_PROTOCOL = b"kitemq.token."
LOGIN = "/login"
LOGIN_HEADER = "KiteMQ-Login"  # the login page's URL, when a form sent by htmx is refused
# Through a provider: to it and back; after logging out here, and out of it too.
LOGIN_BEGIN = "/login/provider"
LOGIN_BACK = "/login/callback"
LOGOUT_LEFT = "/login/left"
LOGOUT_FAR = "/login/leave-provider"
# The console sends this when a page refreshes itself, which does not keep a session alive.
POLL = b"kitemq-poll"
STREAMS = frozenset({"/tail/stream"})  # reopened by browsers themselves
# Served without a login: health, and the login page with its files.
PUBLIC_PATHS = frozenset(
    {"/healthz", "/readyz", LOGIN, LOGIN_BEGIN, LOGIN_BACK, LOGOUT_LEFT, LOGOUT_FAR}
)
PUBLIC_FOLDER = "/static/"
READ_HEADERS = frozenset(
    {b"authorization", b"cookie", b"accept", b"hx-request", b"hx-current-url"}
    | {POLL, b"sec-websocket-protocol", b"sec-fetch-site", b"origin", b"host"}
)
NEXT_CHARS_MAX = 2000


class Authenticator:
    """Authenticates requests against the user directory."""

    def __init__(self, directory: UserDirectory) -> None:
        self._directory = directory

    @property
    def is_open(self) -> bool:
        """Whether authentication is off."""
        return self._directory.is_open

    @property
    def is_unrestricted(self) -> bool:
        """Whether it is off and the server not read-only: then everybody may do everything."""
        return self._directory.is_unrestricted

    @property
    def anonymous(self) -> Principal:
        """The anonymous principal, used while authentication is off."""
        return self._directory.anonymous

    def identify(self, scope: Scope, *, is_use: bool = True) -> Principal:
        """The principal of this request; raises ProblemError if a login is needed.

        That is a 401 for programs and for htmx, with the login page's URL, and a 303 to the login
        page for browsers. Without `is_use` the request does not keep its session alive.
        """
        path = scope["path"]
        if not self._directory.is_known:
            if is_public(path):
                return NOBODY
            raise ProblemError(
                503,
                "people_unavailable",
                "the database of users does not answer",
                remedy="see the server's log about its database",
                retry_after_s=2.0,
            )
        if self._directory.is_open:
            return self._directory.anonymous
        headers = {name: value for name, value in scope["headers"] if name in READ_HEADERS}
        is_use = is_use and POLL not in headers and path not in STREAMS
        principal = self._find_principal(scope, headers, is_use=is_use)
        if principal is None and not is_public(path):
            raise _stranger(scope, headers)
        return principal or NOBODY

    def reauthenticate(self, scope: Scope) -> Principal | None:
        """The current principal of a long-running request; None if its login has ended.

        Never raises, and does not keep the session alive.
        """
        try:
            return self.identify(scope, is_use=False)
        except ProblemError:
            return None

    def _find_principal(
        self, scope: Scope, headers: Mapping[bytes, bytes], *, is_use: bool
    ) -> Principal | None:
        token = _token(headers)
        if token:
            return self._directory.principal_of_token(token)
        secret = cookie_of(headers.get(b"cookie", b""))
        principal = self._directory.principal_of_session(secret, is_use=is_use) if secret else None
        if principal is not None:
            _check_page(scope, headers)
        return principal


def is_public(path: str) -> bool:
    """Whether a path is served without a login."""
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDER)


def cookie_of(header: bytes) -> str:
    """The session's secret in a Cookie header; "" if there is none."""
    if COOKIE.encode() not in header:
        return ""
    try:
        jar = SimpleCookie(header.decode("latin-1"))
    except CookieError:
        return ""
    return jar[COOKIE].value if COOKIE in jar else ""


def _token(headers: Mapping[bytes, bytes]) -> str:
    header = headers.get(b"authorization", b"")
    if header[: len(BEARER)].lower() == BEARER:
        return header[len(BEARER) :].strip().decode("latin-1")
    for protocol in headers.get(b"sec-websocket-protocol", b"").split(b","):
        name = protocol.strip()
        if name.startswith(TOKEN_PROTOCOL):
            return name.removeprefix(TOKEN_PROTOCOL).decode("latin-1")
    return ""


def _check_page(scope: Scope, headers: Mapping[bytes, bytes]) -> None:
    """Refuse a change by cookie unless the browser names the page that it comes from.

    The middleware has already checked that the page is ours.
    """
    is_safe = scope.get("method") in SAFE_METHODS
    if is_safe or headers.get(b"origin") or headers.get(b"sec-fetch-site"):
        return
    raise unsaid_page()


def _stranger(scope: Scope, headers: Mapping[bytes, bytes]) -> ProblemError:
    error = ProblemError(
        401,
        "login_needed",
        "the server has users, and does not know who asks",
        field="Authorization",
        remedy="send a token: Authorization: Bearer …, or log in at /login",
    )
    error.headers = {"WWW-Authenticate": 'Bearer realm="KiteMQ"'}
    if scope["type"] != "http" or scope["path"].startswith("/api/"):
        return error
    if headers.get(b"hx-request") == b"true":
        login = login_path(_current(headers))
        if scope.get("method") in SAFE_METHODS:
            error.headers["HX-Redirect"] = login
        else:  # what was typed into a form stays there; the page offers the login beside it
            error.headers |= {"HX-Reswap": "none", LOGIN_HEADER: login}
    elif b"text/html" in headers.get(b"accept", b""):
        error.status_code = 303
        error.headers["Location"] = login_path(_request_path(scope))
    return error


def login_path(next_path: str) -> str:
    """The login page's URL, which leads on to `next_path`."""
    return LOGIN if next_path in ("", "/") else f"{LOGIN}?next={quote(next_path, safe='/')}"


def _request_path(scope: Scope) -> str:
    """The requested page; "" for a request that changes something."""
    if scope.get("method") not in SAFE_METHODS:
        return ""
    path = quote(scope["path"], safe="/%")
    query = scope.get("query_string", b"").decode("latin-1")
    return (f"{path}?{query}" if query else path)[:NEXT_CHARS_MAX]


def _current(headers: Mapping[bytes, bytes]) -> str:
    """The page from which htmx sent the request."""
    try:
        parts = urlsplit(headers.get(b"hx-current-url", b"").decode("latin-1"))
    except ValueError:
        return ""
    if parts.netloc.encode() != headers.get(b"host", b""):
        return ""
    return (f"{parts.path}?{parts.query}" if parts.query else parts.path)[:NEXT_CHARS_MAX]
