"""The rules of time zones by their IANA names. Python reads each zone file once."""

import re
from datetime import UTC, tzinfo
from functools import lru_cache

UTC_NAME = "UTC"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,2}\Z")
NAME_CHARS_MAX = 64


@lru_cache(maxsize=256)
def zone_rules(name: str) -> tzinfo | None:
    """The rules of a zone; None for one without a zone file."""
    if name == UTC_NAME:
        return UTC
    if len(name) > NAME_CHARS_MAX or not NAME.match(name):
        return None
    import zoneinfo  # loads a table of build settings, which most servers do without

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return None
