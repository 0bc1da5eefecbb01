"""Protection against cross-site request forgery.

A browser names the origin of a request in Sec-Fetch-Site and Origin. Programs send neither and
pass, as they hold no cookies that another site could use.
"""

from collections.abc import Iterable

from app.errors import ProblemError

COOKIE = "kitemq_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SAME_SITE = frozenset({b"", b"same-origin", b"none"})


def check_origin(origin: bytes, fetch_site: bytes, host: bytes, allowed: frozenset[bytes]) -> None:
    """Raise a 403 unless the request comes from our own pages, an allowed origin or a program."""
    if not origin and fetch_site in SAME_SITE:
        return
    origin = origin.lower()
    if origin in allowed:
        return
    # Behind a proxy that ends TLS the scheme differs, the name and port do not.
    is_own = not origin or origin.partition(b"://")[2] == host.lower()
    if is_own and fetch_site in SAME_SITE:
        return
    raise ProblemError(
        403,
        "cross_site",
        "this request comes from a page of another site",
        field="Origin",
        remedy="call from the server's own pages, or add the origin to allowed_origins",
    )


def check_own_page(headers: Iterable[tuple[bytes, bytes]], allowed: Iterable[str]) -> None:
    """Raise a 403 unless a GET that changes something comes from our own pages.

    The rules are those of the middleware for other methods: our own page, an allowed origin or a
    program. A cookie without Origin and Sec-Fetch-Site is refused.
    """
    values = dict(headers)
    origin, fetch_site = values.get(b"origin", b""), values.get(b"sec-fetch-site", b"")
    origins = frozenset(each.lower().rstrip("/").encode() for each in allowed)
    check_origin(origin, fetch_site, values.get(b"host", b""), origins)
    if COOKIE.encode() in values.get(b"cookie", b"") and not (origin or fetch_site):
        raise unsaid_page()


def unsaid_page() -> ProblemError:
    """The error for a request with a cookie that does not name its page."""
    return ProblemError(
        403,
        "cross_site",
        "a request with a cookie does not say which page it comes from",
        field="Origin",
        remedy="use a browser of this decade, or a token instead of the cookie",
    )
