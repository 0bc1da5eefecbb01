"""Parsing of durations and times as people write them."""

import re
from datetime import datetime

from kitemq.errors import Invalid
from kitemq.model.numbers import is_whole

LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str, field: str) -> int:
    """`90`, `90s`, `1.5m`, `2h`, `1d` or `250ms`; seconds where no unit is given. Else Invalid."""
    match = LENGTH.fullmatch(text.strip())
    if match is None or len(text) > 20:
        raise Invalid(f"{text!r} is no length of time", field=field, remedy="as in 90s, 5m or 2h")
    return round(float(match[1]) * UNITS_MS[match[2] or "s"])


def time_ms(text: str, field: str) -> int:
    """A moment as ms since 1970 UTC: those, or a date and time as in ISO 8601.

    Without a zone it is this machine's time. Invalid for anything else.
    """
    if is_whole(text, 16):
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise Invalid(
            f"{text!r} is no date and time",
            field=field,
            remedy="as in 2026-01-31T09:00Z, or ms since 1970",
        ) from None
