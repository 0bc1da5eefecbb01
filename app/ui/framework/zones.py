"""The time zone of a browser's pages: UTC, the browser's own, or one by its name.

Pure, except that Python reads each zone file once.
"""

import zoneinfo
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import lru_cache

from app.zone_rules import UTC_NAME, zone_rules

LOCAL = "local"


@dataclass(frozen=True)
class Zone:
    """A time zone by its IANA name; `is_local` if the browser reported it."""

    name: str = UTC_NAME
    is_local: bool = False

    @property
    def rules(self) -> tzinfo:
        """The zone as `tzinfo`."""
        return zone_rules(self.name) or UTC

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
    return Zone(name, is_local) if zone_rules(name) is not None else None


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """All zones that this machine knows, UTC first."""
    zone_names = {name for name in zoneinfo.available_timezones() if "/" in name}
    places = sorted(name for name in zone_names if not name.startswith(("Etc/", "SystemV/")))
    return (UTC_NAME, *places)
