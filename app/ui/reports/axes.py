"""The time axis of reports: spans of whole hours. Pure."""

from dataclasses import dataclass

from app.ui.framework.chart_axes import TimeSteps

HOUR_MS = 3_600_000
DAY_HOURS, WEEK_HOURS = 24, 168
STEPS_MAX = 120
# Hours per step of a chart: the first that needs at most STEPS_MAX steps.
STEP_HOURS = (1, 2, 3, 6, 12, DAY_HOURS, WEEK_HOURS)


@dataclass(frozen=True)
class HourSpan(TimeSteps):
    """Whole UTC hours from `from_ms` to before `to_ms`, cut into steps of `step_hours`."""

    from_ms: int
    to_ms: int
    step_hours: int

    @property
    def step_ms(self) -> int:
        return self.step_hours * HOUR_MS

    @property
    def hours(self) -> int:
        return (self.to_ms - self.from_ms) // HOUR_MS


def span_of(from_ms: int, to_ms: int, least_hours: int = 1) -> HourSpan:
    """A span with the finest steps that STEPS_MAX allows, of at least `least_hours`."""
    hours = max(1, (to_ms - from_ms) // HOUR_MS)
    fitting = (each for each in STEP_HOURS if each >= least_hours and hours <= each * STEPS_MAX)
    return HourSpan(from_ms, from_ms + hours * HOUR_MS, next(fitting, -(-hours // STEPS_MAX)))
