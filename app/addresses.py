"""Addresses of other servers as they may be shown: nothing of them that could be a secret.

An address to call often holds a password, a token in its query, or one in its path. The log, the
console, answers and the audit trail show it with `***` in their place.
"""

import logging
import re
from urllib.parse import urlsplit

HIDDEN = "***"
UNREADABLE = "an address that cannot be read"
# A part of a path that no person chose as a word: a long one with digits among its letters.
TOKEN = re.compile(r"(?=[^/]*[0-9])[A-Za-z0-9._~%+=-]{16,}\Z")
ADDRESS = re.compile(r"https?://[^\s\"'<>\\]+", re.IGNORECASE)
CLIENT_LOGGERS = ("httpx", "httpcore")


def redacted_url(url: str) -> str:
    """`url` with `***` for user and password, query values, fragment, and tokens in its path."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return UNREADABLE
    host = bracketed(parts.hostname or "")
    user = f"{HIDDEN}@" if "@" in parts.netloc else ""
    path = "/".join(HIDDEN if TOKEN.match(piece) else piece for piece in parts.path.split("/"))
    query = "&".join(map(_redacted_parameter, parts.query.split("&"))) if parts.query else ""
    address = f"{parts.scheme}://{user}{host}{port}{path}"
    address += f"?{query}" if query else ""
    return address + (f"#{HIDDEN}" if parts.fragment else "")


def bracketed(host: str) -> str:
    """A host as addresses have it: one of IPv6 in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def redacted_text(text: str) -> str:
    """`text` with every address in it as `redacted_url` shows it."""
    return ADDRESS.sub(lambda match: redacted_url(match[0]), text)


def quiet_clients() -> None:
    """Keep the HTTP client's library from writing whole addresses and headers into the log.

    It does so from the level `info` on, and its loggers take over the level of ours.
    """
    for name in CLIENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def _redacted_parameter(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={HIDDEN}" if equals else HIDDEN
