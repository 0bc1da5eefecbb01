"""Times and lengths of time as people type them into forms. Pure."""

import re
from datetime import UTC, datetime

from app.ui.framework.language import N_, _
from app.ui.framework.zones import UTC_ZONE, Zone

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
LENGTH = re.compile(r"(\d{1,12}) ?(ms|s|m|min|h|d)")
LENGTH_HELP = N_("Like 500ms, 10s, 5m, 2h or 1d.")


class NoMoment(ValueError):
    """What was typed is no moment; its text is a sentence that says why."""


def find_length_ms(text: str) -> int | None:
    """ "10s" as 10000; None for what is no length of time."""
    match = LENGTH.fullmatch(text.strip().lower())
    return int(match[1]) * UNITS_MS[match[2]] if match else None


def length_text(value_ms: int) -> str:
    """10000 as "10s": the largest unit that divides it, readable by `find_length_ms`."""
    for unit in ("d", "h", "m", "s"):
        if value_ms and value_ms % UNITS_MS[unit] == 0:
            return f"{value_ms // UNITS_MS[unit]}{unit}"
    return f"{value_ms}ms"


def moment_ms(text: str, zone: Zone = UTC_ZONE) -> int:
    """An ISO date with time as ms since 1970, by the clocks of `zone` unless it says otherwise.

    Where the clocks were set back it means the first of the two. Raises NoMoment, also for a time
    that the clocks leapt over.
    """
    try:
        typed = datetime.fromisoformat(text.strip())
        moment = typed.replace(tzinfo=zone.rules) if typed.tzinfo is None else typed
        shifted = moment.astimezone(UTC).astimezone(moment.tzinfo)
        at_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        sentence = _("That is no time. Write it like 2026-11-20T14:30, by the clocks of %(zone)s.")
        raise NoMoment(sentence % {"zone": zone.name}) from None
    if shifted.replace(tzinfo=None) != moment.replace(tzinfo=None):
        raise NoMoment(
            _(
                "No clock in %(zone)s shows %(typed)s: they are set forward then. Write %(next)s.",
                zone=zone.name,
                typed=_iso(typed),
                next=_iso(shifted),
            )
        )
    if at_ms <= 0:
        raise NoMoment(_("That lies before 1970."))
    return at_ms


def find_moment_ms(text: str) -> int | None:
    """The same in UTC; None for what is no moment."""
    try:
        return moment_ms(text)
    except NoMoment:
        return None


def moment_text(at_ms: int, zone: Zone = UTC_ZONE) -> str:
    """The form that `<input type="datetime-local">` takes, to the second or millisecond."""
    return _iso(datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone.rules))


def _iso(moment: datetime) -> str:
    exact = "milliseconds" if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=exact)
