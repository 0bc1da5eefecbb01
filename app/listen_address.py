"""The text of a setting that says where a port listens: `auto`, `off`, `HOST:PORT` or `PORT`."""

import re

AUTO = "auto"
OFF = "off"
ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:]+):)?(?P<port>[0-9]{1,5})\Z")


def is_listen(text: str) -> bool:
    """Whether a text says where to listen."""
    return text in (AUTO, OFF) or _is_address(text)


def is_advertised(text: str) -> bool:
    """Whether a text is an address that clients can be told: `HOST:PORT`."""
    return ":" in text and _is_address(text)


def parse(text: str, host: str, auto_port: int) -> tuple[str, int] | None:
    """Host and port of a text that was checked; None for `off`.

    `host` is that of the HTTP server, `auto_port` what `auto` stands for.
    """
    if text == OFF:
        return None
    if text == AUTO:
        return host, auto_port
    match = ADDRESS.match(text)
    assert match is not None, "the settings were checked"
    return match["host"] or host, int(match["port"])


def _is_address(text: str) -> bool:
    match = ADDRESS.match(text)
    return match is not None and int(match["port"]) <= 65535
