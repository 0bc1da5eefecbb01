"""Who asks: found out once for each request, from its token or its cookie.

A token comes as `Authorization: Bearer …`; over a WebSocket also as the subprotocol
`kitemq.token.…`, since a browser's script can set no header there. A cookie is what the login
page gave. Neither in an address: those end up in logs.
"""

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlsplit

from starlette.types import Scope

from app.errors import DoorError
from app.security.access import NOBODY, Principal
from app.security.origins import COOKIE as COOKIE
from app.security.origins import SAFE_METHODS, unsaid_page
from app.security.user_directory import UserDirectory

BEARER = b"bearer "
TOKEN_PROTOCOL = b"kitemq.token."
LOGIN = "/login"
LOGIN_HEADER = "KiteMQ-Login"  # where to log in, in the refusal of a form sent by htmx
# By way of a provider: to it, back from it; after logging out here, and out of it as well.
LOGIN_BEGIN = "/login/provider"
LOGIN_BACK = "/login/callback"
LOGOUT_LEFT = "/login/left"
LOGOUT_FAR = "/login/leave-provider"
# What the console sends along when a page asks by itself, as no sign that somebody is there.
POLL = b"kitemq-poll"
STREAMS = frozenset({"/tail/stream"})  # which a browser opens again by itself
# What anybody may ask for: whether the server lives, and what the login page is made of.
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
    """Knows people by what they show."""

    def __init__(self, directory: UserDirectory) -> None:
        self._directory = directory

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked."""
        return self._directory.is_open

    @property
    def everybody(self) -> Principal:
        """The anonymous principal, used while authentication is off."""
        return self._directory.everybody

    def identify(self, scope: Scope, *, is_use: bool = True) -> Principal:
        """Who sends this request; raises DoorError where nobody is known but has to be.

        401 for programs and for htmx, which is told where to log in; 303 to the login page for
        a person who typed an address.
        """
        path = scope["path"]
        if not self._directory.is_known:
            if is_public(path):
                return NOBODY
            raise DoorError(
                503,
                "people_unavailable",
                "the database of users does not answer",
                remedy="see the server's log about its database",
                retry_after_s=2.0,
            )
        if self._directory.is_open:
            return self._directory.everybody
        found = {name: value for name, value in scope["headers"] if name in READ_HEADERS}
        is_use = is_use and POLL not in found and path not in STREAMS
        who = self._known(scope, found, is_use=is_use)
        if who is None and not is_public(path):
            raise _stranger(scope, found)
        return who or NOBODY

    def recognise(self, scope: Scope) -> Principal | None:
        """Who sent this request, as of now; None where he may not go on. Never raises.

        That something long goes on is no use of its login.
        """
        try:
            return self.identify(scope, is_use=False)
        except DoorError:
            return None

    def _known(
        self, scope: Scope, found: Mapping[bytes, bytes], *, is_use: bool
    ) -> Principal | None:
        token = _token(found)
        if token:
            return self._directory.of_token(token)
        secret = cookie_of(found.get(b"cookie", b""))
        who = self._directory.of_session(secret, is_use=is_use) if secret else None
        if who is not None:
            _check_page(scope, found)
        return who


def is_public(path: str) -> bool:
    """Whether anybody may ask for it."""
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDER)


def cookie_of(header: bytes) -> str:
    """The session's secret among a browser's cookies; "" where there is none."""
    if COOKIE.encode() not in header:
        return ""
    try:
        jar = SimpleCookie(header.decode("latin-1"))
    except CookieError:
        return ""
    return jar[COOKIE].value if COOKIE in jar else ""


def _token(found: Mapping[bytes, bytes]) -> str:
    header = found.get(b"authorization", b"")
    if header[: len(BEARER)].lower() == BEARER:
        return header[len(BEARER) :].strip().decode("latin-1")
    for offered in found.get(b"sec-websocket-protocol", b"").split(b","):
        name = offered.strip()
        if name.startswith(TOKEN_PROTOCOL):
            return name.removeprefix(TOKEN_PROTOCOL).decode("latin-1")
    return ""


def _check_page(scope: Scope, found: Mapping[bytes, bytes]) -> None:
    """A cookie changes something only where the browser says which page asks.

    Whether that page is ours, the gate has looked at already.
    """
    is_safe = scope.get("method") in SAFE_METHODS
    if is_safe or found.get(b"origin") or found.get(b"sec-fetch-site"):
        return
    raise unsaid_page()


def _stranger(scope: Scope, found: Mapping[bytes, bytes]) -> DoorError:
    error = DoorError(
        401,
        "login_needed",
        "the server has users, and does not know who asks",
        field="Authorization",
        remedy="send a token: Authorization: Bearer …, or log in at /login",
    )
    error.headers = {"WWW-Authenticate": 'Bearer realm="KiteMQ"'}
    if scope["type"] != "http" or scope["path"].startswith("/api/"):
        return error
    if found.get(b"hx-request") == b"true":
        login = login_path(_current(found))
        if scope.get("method") in SAFE_METHODS:
            error.headers["HX-Redirect"] = login
        else:  # what was typed into a form stays there; the page offers the login beside it
            error.headers |= {"HX-Reswap": "none", LOGIN_HEADER: login}
    elif b"text/html" in found.get(b"accept", b""):
        error.status_code = 303
        error.headers["Location"] = login_path(_asked(scope))
    return error


def login_path(then: str) -> str:
    """The login page's address, which leads on to `then`."""
    return LOGIN if then in ("", "/") else f"{LOGIN}?next={quote(then, safe='/')}"


def _asked(scope: Scope) -> str:
    """The page that was asked for; where something was to be changed, the overview."""
    if scope.get("method") not in SAFE_METHODS:
        return ""
    path = quote(scope["path"], safe="/%")
    query = scope.get("query_string", b"").decode("latin-1")
    return (f"{path}?{query}" if query else path)[:NEXT_CHARS_MAX]


def _current(found: Mapping[bytes, bytes]) -> str:
    """The page in whose window htmx asks."""
    try:
        parts = urlsplit(found.get(b"hx-current-url", b"").decode("latin-1"))
    except ValueError:
        return ""
    if parts.netloc.encode() != found.get(b"host", b""):
        return ""
    return (f"{parts.path}?{parts.query}" if parts.query else parts.path)[:NEXT_CHARS_MAX]
