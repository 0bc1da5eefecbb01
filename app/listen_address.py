"""The text of a setting that says where a port listens: `auto`, `off`, `HOST:PORT` or `PORT`."""

import re
from ipaddress import ip_address

AUTO = "auto"
OFF = "off"
ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:]+):)?(?P<port>[0-9]{1,5})\Z")


def is_listen(text: str) -> bool:
    """Whether a text says where to listen."""
    return text in (AUTO, OFF) or host_and_port(text, "") is not None


def is_advertised(text: str) -> bool:
    """Whether a text is an address that clients can be told: `HOST:PORT`."""
    return ":" in text and host_and_port(text, "") is not None


def host_and_port(text: str, host: str) -> tuple[str, int] | None:
    """Host and port of `HOST:PORT`, or of `PORT` at `host`; None for any other text."""
    match = ADDRESS.match(text)
    if match is None or int(match["port"]) > 65535:
        return None
    return match["host"] or host, int(match["port"])


def listen_text(text: str) -> str:
    """The text itself where it says a port to listen on, else ""."""
    return "" if host_and_port(text, "") is None else text


def reached_at(text: str, peer: str) -> str:
    """`HOST:PORT` of what listens at `text`, for those who know its machine as `peer`.

    Of a port at every address, or of one that names none, the host is the peer's.
    """
    address = host_and_port(text, "")
    if address is None:
        return ""
    host, port = address
    if not host or _is_unspecified(host):
        host = f"[{peer}]" if ":" in peer else peer
    return f"{host}:{port}"


def _is_unspecified(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_unspecified
    except ValueError:  # a name
        return False


def parse(text: str, host: str, auto_port: int) -> tuple[str, int] | None:
    """Host and port of a text that was checked; None for `off`.

    `host` is that of the HTTP server, `auto_port` what `auto` stands for.
    """
    if text == OFF:
        return None
    if text == AUTO:
        return host, auto_port
    address = host_and_port(text, host)
    assert address is not None, "the settings were checked"
    return address
