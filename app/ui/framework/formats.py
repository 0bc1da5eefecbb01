"""Numbers, sizes and times as people read them; pure, used as Jinja filters."""

from datetime import UTC, datetime, tzinfo

from app.ui.framework.language import N_, _, translated

SECOND_MS = 1000
BYTE_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
# (limit in seconds, divisor, unit): the first row whose limit is above the value is used.
DURATION_STEPS = (
    (120, 1, N_("%(n)s s")),
    (2 * 3600, 60, N_("%(n)s min")),
    (48 * 3600, 3600, N_("%(n)s h")),
    (float("inf"), 86400, N_("%(n)s d")),
)

# (limit in ms, divisor, unit), for measured times.
FINE_STEPS = (
    (1000, 1, N_("%(n)s ms")),
    (120_000, 1000, N_("%(n)s s")),
    (3_600_000, 60_000, N_("%(n)s min")),
    (172_800_000, 3_600_000, N_("%(n)s h")),
    (float("inf"), 86_400_000, N_("%(n)s d")),
)


def count(value: int | None) -> str:
    """1234567 as "1,234,567", a dash for what the engine cannot tell."""
    return "\N{EN DASH}" if value is None else f"{value:,}"


def size(value: int) -> str:
    """Bytes with binary units and three digits: 0 B, 512 B, 1.50 KiB, 12.3 MiB, 345 GiB."""
    if value < 1024:
        return f"{value} B"
    amount = value / 1024
    units = iter(BYTE_UNITS)
    unit = next(units)
    while amount >= 1000 and unit != BYTE_UNITS[-1]:
        amount /= 1024
        unit = next(units)
    digits = 2 if amount < 10 else 1 if amount < 100 else 0
    return f"{amount:.{digits}f} {unit}"


def rate(value: float | None) -> str:
    """Messages per second: "0", "0.2", "12.5", "1,234"; a dash for what the engine cannot tell."""
    if value is None:
        return "\N{EN DASH}"
    if value <= 0:
        return "0"
    if value < 0.05:
        return "<0.1"
    return f"{value:.1f}" if value < 100 else f"{round(value):,}"


def duration(value_ms: int) -> str:
    """A length of time in its one fitting unit: 850 ms, 12 s, 7 min, 5 h, 3 d."""
    if value_ms < SECOND_MS:
        return _("%(n)s ms", n=max(value_ms, 0))
    seconds = value_ms // SECOND_MS
    __, divisor, text = next(step for step in DURATION_STEPS if seconds < step[0])
    return translated(text) % {"n": seconds // divisor}


def say_length(value_ms: float) -> str:
    """A length of time with three digits, where the next digit matters: 1.25 s, 12.5 ms."""
    for limit, divisor, text in FINE_STEPS:
        if value_ms < limit:
            amount = value_ms / divisor
            digits = 0 if amount >= 100 or amount == int(amount) else 1 if amount >= 10 else 2
            return translated(text) % {"n": f"{amount:.{digits}f}"}
    raise AssertionError("the last limit is infinite")


def ago(at_ms: int, now_ms: int) -> str:
    """How long before `now_ms` something happened: "now", "12 s ago", "in 3 min"."""
    difference = now_ms - at_ms
    if abs(difference) < SECOND_MS:
        return _("now")
    if difference < 0:
        return _("in %(duration)s", duration=duration(-difference))
    return _("%(duration)s ago", duration=duration(difference))


def _moment(at_ms: int, zone: tzinfo = UTC) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, zone)


def iso(at_ms: int) -> str:
    """The machine's form, for `<time datetime>`: 2026-11-20T21:24:14.123Z."""
    try:
        return _moment(at_ms).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return ""


def absolute(at_ms: int, zone: tzinfo = UTC) -> str:
    """The people's form with its zone; what no calendar holds is shown as the number it is."""
    try:
        moment = _moment(at_ms, zone)
        return f"{_local(moment, at_ms)} {offset(moment)}"
    except (OverflowError, ValueError, OSError):
        return _("%(at_ms)s ms since 1970", at_ms=at_ms)


def clock(at_ms: int, now_ms: int, zone: tzinfo = UTC) -> str:
    """The time of day, with the date when that is not today's: 21:24:14.123."""
    try:
        text = _local(_moment(at_ms, zone), at_ms)
        return text[11:] if text[:10] == str(_moment(now_ms, zone).date()) else text
    except (OverflowError, ValueError, OSError):
        return _("%(at_ms)s ms since 1970", at_ms=at_ms)


def offset(moment: datetime) -> str:
    """How far its zone is from UTC then: "UTC", "UTC+01:00"."""
    text = moment.strftime("%z")
    return "UTC" if text in ("+0000", "") else f"UTC{text[:3]}:{text[3:5]}"


def _local(moment: datetime, at_ms: int) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}"
