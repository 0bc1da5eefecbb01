"""Times and lengths of time as people type them into forms. Pure."""

import re
from datetime import UTC, datetime

from app.ui.framework.language import N_, _
from app.ui.framework.zones import UTC_ZONE, Zone

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
LENGTH = re.compile(r"(\d{1,12}) ?(ms|s|m|min|h|d)")
LATEST_MS = 253_402_200_000_000  # the last day of the year 9999, in any zone
LENGTH_HELP = N_("For example 500ms, 10s, 5m, 2h or 1d.")


class NoMoment(ValueError):
    """The text is no valid time; the error's text says why."""


def find_length_ms(text: str) -> int | None:
    """Parse "10s" as 10000 ms; None for an invalid length of time."""
    match = LENGTH.fullmatch(text.strip().lower())
    return int(match[1]) * UNITS_MS[match[2]] if match else None


def length_text(value_ms: int) -> str:
    """Format 10000 ms as "10s", in the largest exact unit; `find_length_ms` parses it."""
    for unit in ("d", "h", "m", "s"):
        if value_ms and value_ms % UNITS_MS[unit] == 0:
            return f"{value_ms // UNITS_MS[unit]}{unit}"
    return f"{value_ms}ms"


def moment_ms(text: str, zone: Zone = UTC_ZONE) -> int:
    """Parse an ISO date and time as ms since 1970, in `zone` unless it has an offset.

    An ambiguous time, when clocks are set back, is the earlier one. Raises NoMoment, also for a
    time that is skipped when clocks are set forward.
    """
    try:
        typed = datetime.fromisoformat(text.strip())
        moment = typed.replace(tzinfo=zone.rules) if typed.tzinfo is None else typed
        shifted = moment.astimezone(UTC).astimezone(moment.tzinfo)
        at_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        sentence = _("Invalid time. Use the format 2026-11-20T14:30, in the time zone %(zone)s.")
        raise NoMoment(sentence % {"zone": zone.name}) from None
    if shifted.replace(tzinfo=None) != moment.replace(tzinfo=None):
        raise NoMoment(
            _(
                "%(typed)s does not exist in %(zone)s because clocks are set forward. Use "
                "%(next)s.",
                zone=zone.name,
                typed=_iso(typed),
                next=_iso(shifted),
            )
        )
    if at_ms <= 0:
        raise NoMoment(_("The time is before 1970."))
    return at_ms


def moment_text(at_ms: int, zone: Zone = UTC_ZONE) -> str:
    """A time as the value of `<input type="datetime-local">`, to the second or millisecond.

    What comes after the calendar's end is the last day that it has.
    """
    moment = datetime.fromtimestamp(min(at_ms, LATEST_MS) / 1000, UTC)
    return _iso(moment.astimezone(zone.rules))


def _iso(moment: datetime) -> str:
    exact = "milliseconds" if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=exact)
