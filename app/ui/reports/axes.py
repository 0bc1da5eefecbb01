"""The axes of the reports' charts: time spans and scales of values. Pure.

Positions on the time axis are percent of the chart's width, so that a chart scales while its text
keeps its size; positions on the value axis are pixels from the top.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

HOUR_MS = 3_600_000
DAY_HOURS, WEEK_HOURS = 24, 168
STEPS_MAX = 120
# Hours per step of a chart: the first that needs at most STEPS_MAX steps.
STEP_HOURS = (1, 2, 3, 6, 12, DAY_HOURS, WEEK_HOURS)
TICKS_MAX = 8
TICK_EDGE = 4.0  # percent from either end, where a label would be cut
TICK_HOURS = (1, 2, 3, 6, 12, 24, 48, 168, 336, 672, 1344, 2688, 5376)
HEIGHT = 168  # pixels of the plot, without the labels below it


SECOND, MINUTE = 1000, 60_000
LOG_MS = (
    1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR_MS, 10 * HOUR_MS, 100 * HOUR_MS,
    1000 * HOUR_MS, 10_000 * HOUR_MS,
)  # fmt: skip
# Lengths of time whose quarters are round.
ROUND_MS = (
    1, 2, 4, 8, 20, 40, 100, 200, 400, SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 20 * SECOND,
    MINUTE, 2 * MINUTE, 4 * MINUTE, 10 * MINUTE, 20 * MINUTE, 40 * MINUTE, HOUR_MS, 2 * HOUR_MS,
    4 * HOUR_MS, 8 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS, 48 * HOUR_MS, 96 * HOUR_MS,
)  # fmt: skip


@dataclass(frozen=True)
class Tick:
    """A label at an axis; every second one is optional on narrow screens."""

    place: float
    text: str
    is_optional: bool = False


@dataclass(frozen=True)
class HourSpan:
    """Whole UTC hours from `from_ms` to before `to_ms`, cut into steps of `step_hours`.

    The last step may be shorter.
    """

    from_ms: int
    to_ms: int
    step_hours: int

    @property
    def step_ms(self) -> int:
        return self.step_hours * HOUR_MS

    @property
    def steps(self) -> int:
        return -(-(self.to_ms - self.from_ms) // self.step_ms)

    @property
    def hours(self) -> int:
        return (self.to_ms - self.from_ms) // HOUR_MS

    def index(self, at_ms: int) -> int | None:
        """The index of the step of a time; None outside of the span."""
        return (
            (at_ms - self.from_ms) // self.step_ms if self.from_ms <= at_ms < self.to_ms else None
        )

    def begin_ms(self, index: int) -> int:
        return self.from_ms + index * self.step_ms

    def end_ms(self, index: int) -> int:
        return min(self.to_ms, self.begin_ms(index) + self.step_ms)

    def place(self, at_ms: int) -> float:
        """The position of a time in percent of the width."""
        return 100 * (at_ms - self.from_ms) / (self.to_ms - self.from_ms)

    def width(self, index: int) -> float:
        return self.place(self.end_ms(index)) - self.place(self.begin_ms(index))


def span_of(from_ms: int, to_ms: int, least_hours: int = 1) -> HourSpan:
    """A span with the finest steps that STEPS_MAX allows, of at least `least_hours`."""
    hours = max(1, (to_ms - from_ms) // HOUR_MS)
    fitting = (each for each in STEP_HOURS if each >= least_hours and hours <= each * STEPS_MAX)
    return HourSpan(from_ms, from_ms + hours * HOUR_MS, next(fitting, -(-hours // STEPS_MAX)))


def time_ticks(span: HourSpan, zone: tzinfo) -> list[Tick]:
    """At most TICKS_MAX + 1 ticks, at full hours or midnights of the zone."""
    hours = next((each for each in TICK_HOURS if span.hours <= each * TICKS_MAX), TICK_HOURS[-1])
    ticks: list[Tick] = []
    for at_ms in _even_times(span, hours, zone):
        place = span.place(at_ms)
        if TICK_EDGE <= place <= 100 - TICK_EDGE:
            ticks.append(Tick(place, time_word(at_ms, hours, zone), len(ticks) % 2 == 1))
    return ticks


def time_word(at_ms: int, hours: int, zone: tzinfo) -> str:
    """The label of a tick, for ticks `hours` apart: 04:00, 11-21, 2026-11-21."""
    moment = datetime.fromtimestamp(at_ms / 1000, zone)
    if hours >= DAY_HOURS or (moment.hour == 0 and moment.minute == 0):
        return moment.strftime("%m-%d" if hours < WEEK_HOURS * 8 else "%Y-%m-%d")
    return moment.strftime("%H:%M")


def _even_times(span: HourSpan, hours: int, zone: tzinfo) -> Iterator[int]:
    """Full hours of the span that are multiples of `hours` since a midnight of the zone."""
    first = datetime.fromtimestamp(span.from_ms / 1000, zone)
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    at_ms = round(midnight.astimezone(UTC).timestamp() * 1000)
    while at_ms < span.to_ms:
        if at_ms >= span.from_ms:
            yield at_ms
        at_ms += hours * HOUR_MS


@dataclass(frozen=True)
class Scale:
    """A scale from values to pixels from the top; logarithmic from `low` if that is above 0."""

    low: float
    high: float
    height: int = HEIGHT

    def place(self, value: float) -> float:
        return round(self.height * (1 - self._share(value)), 1)

    def _share(self, value: float) -> float:
        if self.low > 0:
            value = max(value, self.low)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return value / self.high


def linear(high: float) -> Scale:
    """A scale from 0 to the next round value."""
    return Scale(0.0, _round_up(max(high, 1e-9)))


def linear_length(high: float) -> Scale:
    """A scale from 0 to the next round length of time, in ms."""
    return Scale(0.0, float(next((each for each in ROUND_MS if each >= high), _round_up(high))))


def logarithmic(low: float, high: float) -> Scale:
    """A logarithmic scale between two of LOG_MS; lengths below 1 ms count as 1 ms."""
    least = max((each for each in LOG_MS if each <= low), default=LOG_MS[0])
    above = (each for each in LOG_MS if each >= high and each > least)
    return Scale(float(least), float(next(above, _round_up(max(high, 2 * least)))))


def value_ticks(scale: Scale, say: Callable[[float], str]) -> list[Tick]:
    """Three to seven ticks, from the bottom to the top."""
    if scale.low > 0:
        values = [float(each) for each in LOG_MS if scale.low <= each <= scale.high]
    else:
        values = [scale.high * n / 4 for n in range(5)]
    return [Tick(scale.place(value), say(value), n % 2 == 1) for n, value in enumerate(values)]


def _round_up(value: float) -> float:
    """Round up to 1, 2, 4 or 8 times a power of ten, which have round quarters."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * each for each in (1, 2, 4, 8, 10) if power * each >= value * (1 - 1e-9))
