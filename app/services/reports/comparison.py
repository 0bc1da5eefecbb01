"""Figures of a range beside those of another one: how much they changed, and whether for the worse.

Both ranges have the same length. A change of less than 10 % is neither worse nor better, and counts
are neither where one range has figures of other hours than the other.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from app.db.report_rows import ResultFilter
from engine import report_hours
from engine.errors import Invalid
from kitemq.model.reports import ChangeVerdict, FigureChange

WEEK_HOURS = 7 * 24
NOTABLE = 0.1  # two buckets of a histogram
REMEDY = "before, week, or the first hour of the other range, as in 2026-11-13T00"
# Sums that get better when they fall, by table; the others are neither.
FEWER = {
    "failures": ("messages", "counted"),
    "outcomes": ("retried", "failed", "expired", "dead", "unfinished"),
}
LATENCY_FIGURES = ("p50", "p95", "p99", "mean", "most")


class Better(StrEnum):
    """The direction in which a value gets better."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = ""


def change_of(new: float, old: float, better: Better) -> FigureChange:
    """The change from `old`; from 0 it has no ratio."""
    verdict = ChangeVerdict.NONE
    if better is not Better.NEITHER and abs(new - old) >= max(NOTABLE * abs(old), 1e-12):
        is_worse = (new > old) is (better is Better.LOWER)
        verdict = ChangeVerdict.WORSE if is_worse else ChangeVerdict.BETTER
    return FigureChange(new / old - 1 if old else None, verdict)


def changes(
    now: Mapping[str, float | None],
    before: Mapping[str, float | None],
    better: Mapping[str, Better],
) -> dict[str, FigureChange]:
    """By name, of the values that are known in both ranges."""
    pairs = {name: (value, before.get(name)) for name, value in now.items()}
    return {
        name: change_of(new, old, better.get(name, Better.NEITHER))
        for name, (new, old) in pairs.items()
        if new is not None and old is not None
    }


def earlier(criteria: ResultFilter, by: Sequence[str], against: str) -> ResultFilter:
    """The same filter over the range to compare with, for rows `by` some columns.

    Invalid names what is missing, and rows by time: those of two ranges have nothing in common.
    """
    for name in by:
        if name in ("hour", "day"):
            raise Invalid(
                f"rows by {name} cannot be compared", field="by", remedy="leave it out, or against"
            )
    for field in ("first", "last"):
        hour = getattr(criteria, field)
        if not hour:
            raise Invalid(
                "only a range with both ends is compared", field=field, remedy="give first and last"
            )
        if not report_hours.is_hour(hour):
            text = f"{hour[:40]!r} is no hour"
            raise Invalid(text, field=field, remedy="in UTC, as in 2026-11-21T03")
    first, last = (report_hours.begin_ms(hour) for hour in (criteria.first, criteria.last))
    hours = (last - first) // report_hours.HOUR_MS + 1
    if hours < 1:
        raise Invalid("the range ends before it begins", field="last", remedy="give a later hour")
    back = {"before": hours, "week": WEEK_HOURS}.get(against)
    try:
        begin = (
            report_hours.moved(criteria.first, -back) if back else report_hours.moved(against, 0)
        )
        end = report_hours.moved(begin, hours - 1)
    except ValueError:
        text = f"{against[:40]!r} names no range to compare with"
        raise Invalid(text, field="against", remedy=REMEDY) from None
    return ResultFilter(first=begin, last=end, equal=criteria.equal)
