"""Checks the Host header against DNS rebinding.

A page of another site can make its own name resolve to 127.0.0.1; the browser then sends that name
as the Host. A request is answered only if the Host is one of this server's names.
"""

from collections.abc import Iterable
from functools import lru_cache

from app.addresses import bracketed
from app.errors import ProblemError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@lru_cache(maxsize=256)
def host_name(value: str) -> str:
    """The name in a Host header, lower case, without its port: "[::1]:8080" gives "[::1]"."""
    value = value.strip().lower()
    if value.startswith("["):
        return value[: value.find("]") + 1]
    return value.partition(":")[0]


def our_names(host: str, allowed: Iterable[str]) -> frozenset[str]:
    """The names under which this server answers: loopback, where it listens, `allowed`."""
    return LOOPBACK_NAMES | {host_name(bracketed(host))} | {host_name(name) for name in allowed}


def check_host(host: bytes, names: frozenset[str]) -> None:
    """Raise a 400 if no Host was sent, a 421 if it is not in `names`."""
    if not host:
        raise ProblemError(400, "host_missing", "the request has no Host header", field="Host")
    name = host_name(host.decode("latin-1"))
    if name not in names:
        raise ProblemError(
            421,
            "host_not_allowed",
            f"this server does not answer as {name!r}",
            field="Host",
            remedy="use one of its own names, or add this one to the setting allowed_hosts",
        )
