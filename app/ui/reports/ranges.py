"""The range of a report and the range to compare it with, from its query.

    ?range=week&against=before&topic=orders
    ?range=own&from=2026-11-20T00:00&to=2026-11-21T00:00&against=own&other=2026-11-13T00:00

Times are in the zone `zone`, by default UTC, and are rounded down to the hour. Errors are reported
at their fields; the report is then of the last day. The range of one hour is the last whole one;
longer ones end with the current hour.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.db.report_periods import begin_of, number_of
from app.ui.framework import typed_time
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.zones import Zone
from app.ui.reports.axes import DAY_HOURS, HOUR_MS, WEEK_HOURS, HourSpan, span_of
from kitemq.model.reports import Coarse

OWN = "own"
HOUR = "hour"
RANGES = (
    (HOUR, N_("1 h"), 1),
    ("6h", N_("6 h"), 6),
    ("day", N_("24 h"), DAY_HOURS),
    ("week", N_("7 days"), WEEK_HOURS),
    ("month", N_("4 weeks"), 4 * WEEK_HOURS),
    ("quarter", N_("13 weeks"), 13 * WEEK_HOURS),
    ("year", N_("52 weeks"), 52 * WEEK_HOURS),
)
AGAINST = (
    ("", N_("none")),
    ("before", N_("previous range")),
    ("week", N_("one week earlier")),
    (OWN, N_("same length, starting at…")),
)
HOURS = {name: hours for name, __, hours in RANGES}
BEGIN_MS_MAX = 221_845_392_000_000  # the year 9000: the end is one that the calendar has, too
HOURS_MAX = 3 * 366 * DAY_HOURS  # of a custom range


# Maps the length of a range in hours to the minimum hours of a step.
LeastHours = Callable[[int], int]


def _any(hours: int) -> int:
    return 1


@dataclass(frozen=True)
class RangeChoice:
    """The ranges, and the form with its values."""

    span: HourSpan
    before: HourSpan | None
    name: str
    form: Form = field(default_factory=lambda: Form({}))


def read(
    values: Mapping[str, str], now_ms: int, display_zone: Zone, least_hours: LeastHours = _any
) -> RangeChoice:
    """Parse the ranges of a query; times that are typed make it a custom range."""
    form = Form({name: values.get(name, "") for name in ("from", "to", "against", "other")})
    name = values.get("range", "day")
    span = None
    if name == OWN or form.values["from"] or form.values["to"]:
        name = OWN
        span = _own(form, values.get("zone", ""), display_zone, least_hours)
    if span is None:
        name = name if name in HOURS else "day"
        end_ms = _next_hour(now_ms - HOUR_MS if name == HOUR else now_ms)
        span = span_of(end_ms - HOURS[name] * HOUR_MS, end_ms, least_hours(HOURS[name]))
    return RangeChoice(span, _before(form, span, values.get("zone", ""), display_zone), name, form)


def _own(
    form: Form, zone_name: str, display_zone: Zone, least_hours: LeastHours
) -> HourSpan | None:
    from_ms = _hour_ms(form, "from", zone_name, display_zone)
    to_ms = form.moment("to", zone_name, display_zone)
    if from_ms is None or to_ms is None:
        return None
    to_ms = _next_hour(to_ms - 1)
    if not 0 < to_ms - from_ms <= HOURS_MAX * HOUR_MS:
        form.refuse("to", _("The end must be later than the start, by at most three years."))
        return None
    return span_of(from_ms, to_ms, least_hours((to_ms - from_ms) // HOUR_MS))


def _hour_ms(form: Form, name: str, zone_name: str, display_zone: Zone) -> int | None:
    """The hour of the time that a range begins with; an error at the field, and None, for none."""
    at_ms = form.moment(name, zone_name, display_zone)
    if at_ms is None or at_ms <= BEGIN_MS_MAX:
        return None if at_ms is None else at_ms - at_ms % HOUR_MS
    form.refuse(name, _("The range must begin before the year 9000."))
    return None


def _before(form: Form, span: HourSpan, zone_name: str, display_zone: Zone) -> HourSpan | None:
    """The range to compare with, of the same length and steps."""
    against = form.values["against"]
    length_ms = span.to_ms - span.from_ms
    if against == "before":
        from_ms = span.from_ms - length_ms
    elif against == "week":
        from_ms = span.from_ms - WEEK_HOURS * HOUR_MS
    elif against == OWN:
        other_ms = _hour_ms(form, "other", zone_name, display_zone)
        if other_ms is None:
            return None
        from_ms = other_ms
    else:
        return None
    return HourSpan(from_ms, from_ms + length_ms, span.step_hours)


def coarsened(choice: RangeChoice, coarse: Sequence[Coarse]) -> RangeChoice:
    """The ranges in whole days or four weeks, if figures are only kept by those.

    Both ranges then begin with such a period, in UTC, and keep equal lengths.
    """
    span = choice.span
    step_hours = _multiple(span.step_hours, _length(span.from_ms, coarse))
    begin_ms = _period_ms(span.from_ms, coarse)
    before = choice.before
    if before is not None:
        step_hours = _multiple(step_hours, _length(before.from_ms, coarse))
        back_ms = span.from_ms - before.from_ms
        if back_ms == span.to_ms - span.from_ms:  # directly before, with the new length
            back_ms = span.to_ms - begin_ms
        from_ms = _period_ms(begin_ms - back_ms, coarse)
        before = HourSpan(from_ms, from_ms + span.to_ms - begin_ms, step_hours)
    whole = HourSpan(begin_ms, span.to_ms, step_hours)
    return replace(choice, span=whole, before=before)


def _multiple(step_hours: int, length: int) -> int:
    """The hours rounded up to whole periods."""
    return -(-step_hours // length) * length


def _length(at_ms: int, coarse: Sequence[Coarse]) -> int:
    """The length in hours of the periods that the figures of a time are kept by."""
    lengths = (each.hours for each in coarse if at_ms < number_of(each.before) * HOUR_MS)
    return max(lengths, default=1)


def _period_ms(at_ms: int, coarse: Sequence[Coarse]) -> int:
    """The beginning of the period of a time."""
    return begin_of(at_ms // HOUR_MS, _length(at_ms, coarse)) * HOUR_MS


def _next_hour(at_ms: int) -> int:
    return at_ms - at_ms % HOUR_MS + HOUR_MS


def texts(span: HourSpan, zone: Zone) -> tuple[str, str]:
    """The ends of a span as values of form fields."""
    return typed_time.moment_text(span.from_ms, zone), typed_time.moment_text(span.to_ms, zone)
