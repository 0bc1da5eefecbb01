"""Whose pages may change something: the guard against requests forged by other sites.

A browser says where a request comes from in Sec-Fetch-Site and Origin. Programs send neither and
pass; they hold no cookies that another site could ride on.
"""

from app.errors import DoorError

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
    raise DoorError(
        403,
        "cross_site",
        "this request comes from a page of another site",
        field="Origin",
        remedy="call from the server's own pages, or add the origin to allowed_origins",
    )
