"""Security headers of every answer.

Pages get all of them; data gets only those that matter for it, as each costs a microsecond.
"""

from collections.abc import Iterable

from app.security.hosts import LOOPBACK_NAMES, host_name

PAGE_POLICY = (
    b"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    b"form-action 'self'; frame-ancestors 'none'"
)
DATA_POLICY = b"default-src 'none'; frame-ancestors 'none'"

Header = tuple[bytes, bytes]

PAGE_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", PAGE_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
DATA_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", DATA_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# For a year, a browser uses nothing but https for this server.
STAY_SECURE: tuple[Header, ...] = ((b"strict-transport-security", b"max-age=31536000"),)
DATA_TYPES = frozenset({b"application/json", b"application/problem+json"})


def secured(headers: Iterable[Header], extra: tuple[Header, ...] = ()) -> list[Header]:
    """The headers of an answer with the security headers of its kind, and `extra`."""
    listed = list(headers)
    is_data = bool(listed) and listed[0][0] == b"content-type" and listed[0][1] in DATA_TYPES
    return [*listed, *(DATA_HEADERS if is_data else PAGE_HEADERS), *extra]


def stay_secure(host: bytes) -> tuple[Header, ...]:
    """The further headers of an answer over TLS to a request for `host`.

    None on localhost, where they would affect ports of other programs.
    """
    return () if host_name(host.decode("latin-1")) in LOOPBACK_NAMES else STAY_SECURE
