"""The time zone of a browser's pages: UTC, the browser's own, or one by its name.

Pure, except that Python reads each zone file once.
"""

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import lru_cache

UTC_NAME = "UTC"
LOCAL = "local"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,2}\Z")
NAME_CHARS_MAX = 64


@dataclass(frozen=True)
class Zone:
    """A time zone by its IANA name; `is_local` if the browser reported it."""

    name: str = UTC_NAME
    is_local: bool = False

    @property
    def rules(self) -> tzinfo:
        """The zone as `tzinfo`."""
        return _rules(self.name) or UTC

    @property
    def choice(self) -> str:
        """The value of the cookie."""
        return f"{LOCAL}:{self.name}" if self.is_local else self.name


UTC_ZONE = Zone()


def parse(text: str) -> Zone | None:
    """The zone in a cookie or a form; None for a zone without a zone file."""
    prefix, separator, rest = text.partition(":")
    is_local = bool(separator) and prefix == LOCAL
    name = rest if is_local else text
    return Zone(name, is_local) if _rules(name) is not None else None


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """All zones that this machine knows, UTC first."""
    zone_names = {name for name in zoneinfo.available_timezones() if "/" in name}
    places = sorted(name for name in zone_names if not name.startswith(("Etc/", "SystemV/")))
    return (UTC_NAME, *places)


@lru_cache(maxsize=256)
def _rules(name: str) -> tzinfo | None:
    if name == UTC_NAME:
        return UTC
    if len(name) > NAME_CHARS_MAX or not NAME.match(name):
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return None
