"""The time zone that a browser was told to show: UTC, its own, or one by its name. Pure but for
the zone files, which Python reads once each."""

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
    """`name` is IANA's; `is_local` that it was the browser which said so."""

    name: str = UTC_NAME
    is_local: bool = False

    @property
    def rules(self) -> tzinfo:
        """What Python reckons with."""
        return _rules(self.name) or UTC

    @property
    def choice(self) -> str:
        """How the cookie keeps it."""
        return f"{LOCAL}:{self.name}" if self.is_local else self.name


UTC_ZONE = Zone()


def parse(text: str) -> Zone | None:
    """The zone in a cookie or a form; None for what no zone file is found for."""
    prefix, separator, rest = text.partition(":")
    is_local = bool(separator) and prefix == LOCAL
    name = rest if is_local else text
    return Zone(name, is_local) if _rules(name) is not None else None


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """Every zone that this machine knows, UTC first."""
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
