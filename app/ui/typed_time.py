"""Times and lengths of time as people type them into forms. Pure."""

import re
from datetime import UTC, datetime

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
LENGTH = re.compile(r"(\d{1,12}) ?(ms|s|m|min|h|d)")
MOMENT_HELP = "UTC, like 2026-11-20T14:30."
LENGTH_HELP = "Like 500ms, 10s, 5m, 2h or 1d."


def find_length_ms(text: str) -> int | None:
    """ "10s" as 10000; None for what is no length of time."""
    found = LENGTH.fullmatch(text.strip().lower())
    return int(found[1]) * UNITS_MS[found[2]] if found else None


def length_text(value_ms: int) -> str:
    """10000 as "10s": the largest unit that divides it, readable by `find_length_ms`."""
    for unit in ("d", "h", "m", "s"):
        if value_ms and value_ms % UNITS_MS[unit] == 0:
            return f"{value_ms // UNITS_MS[unit]}{unit}"
    return f"{value_ms}ms"


def find_moment_ms(text: str) -> int | None:
    """An ISO date with time as ms since 1970, UTC unless it says otherwise; None if it is none."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at_ms = round(moment.timestamp() * 1000)
    return at_ms if at_ms > 0 else None


def moment_text(at_ms: int) -> str:
    """The form that `<input type="datetime-local">` takes, in UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
