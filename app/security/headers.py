"""Headers that every answer carries: what a browser may load, show and tell.

Pages get them all; data gets those that matter to data, because each header costs a microsecond.
"""

from collections.abc import Iterable

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
# A browser that was here over https comes back over nothing else for a year.
STAY_SECURE: tuple[Header, ...] = ((b"strict-transport-security", b"max-age=31536000"),)
DATA_TYPES = frozenset({b"application/json", b"application/problem+json"})


def secured(headers: Iterable[Header], extra: tuple[Header, ...] = ()) -> list[Header]:
    """The headers of an answer with those that its kind must carry, and `extra`."""
    given = list(headers)
    is_data = bool(given) and given[0][0] == b"content-type" and given[0][1] in DATA_TYPES
    return [*given, *(DATA_HEADERS if is_data else PAGE_HEADERS), *extra]
