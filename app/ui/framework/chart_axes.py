"""The axes of charts: steps of time, ticks, and scales. Pure.

Places on the time axis are percent of the width, so that a chart fits every window and its text
keeps its size; places on the value axis are pixels from the top.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

SECOND_MS, MINUTE_MS, HOUR_MS = 1000, 60_000, 3_600_000
DAY_MS, WEEK_MS = 24 * HOUR_MS, 168 * HOUR_MS
TICKS_MAX = 8
TICK_EDGE = 4.0  # percent from either end, where a label would be cut
TICKS_MS = (
    SECOND_MS, 2 * SECOND_MS, 5 * SECOND_MS, 10 * SECOND_MS, 15 * SECOND_MS, 30 * SECOND_MS,
    MINUTE_MS, 2 * MINUTE_MS, 5 * MINUTE_MS, 10 * MINUTE_MS, 15 * MINUTE_MS, 30 * MINUTE_MS,
    *(each * HOUR_MS for each in (1, 2, 3, 6, 12, 24, 48, 168, 336, 672, 1344, 2688, 5376)),
)  # fmt: skip
HEIGHT = 168  # pixels of the plot, without the labels below it

LOG_MS = (
    1, 10, 100, SECOND_MS, 10 * SECOND_MS, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 10 * HOUR_MS,
    100 * HOUR_MS, 1000 * HOUR_MS, 10_000 * HOUR_MS,
)  # fmt: skip
# Lengths of time whose quarters are round.
ROUND_MS = (
    1, 2, 4, 8, 20, 40, 100, 200, 400, SECOND_MS, 2 * SECOND_MS, 4 * SECOND_MS, 8 * SECOND_MS,
    20 * SECOND_MS, MINUTE_MS, 2 * MINUTE_MS, 4 * MINUTE_MS, 10 * MINUTE_MS, 20 * MINUTE_MS,
    40 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, 4 * HOUR_MS, 8 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS,
    48 * HOUR_MS, 96 * HOUR_MS,
)  # fmt: skip


@dataclass(frozen=True)
class Tick:
    """A label at an axis; every second one is optional on narrow screens."""

    place: float
    text: str
    is_optional: bool = False


class TimeSteps:
    """The time from `from_ms` to before `to_ms`, cut into steps; the last step may be shorter."""

    from_ms: int
    to_ms: int

    @property
    def step_ms(self) -> int:
        raise NotImplementedError

    @property
    def steps(self) -> int:
        return -(-(self.to_ms - self.from_ms) // self.step_ms)

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


@dataclass(frozen=True)
class EvenSteps(TimeSteps):
    """Steps of `length_ms` each."""

    from_ms: int
    to_ms: int
    length_ms: int

    @property
    def step_ms(self) -> int:
        return self.length_ms


def time_ticks(span: TimeSteps, zone: tzinfo) -> list[Tick]:
    """At most TICKS_MAX + 1 ticks, at round times of the zone."""
    length_ms = span.to_ms - span.from_ms
    every_ms = next((each for each in TICKS_MS if length_ms <= each * TICKS_MAX), TICKS_MS[-1])
    ticks: list[Tick] = []
    for at_ms in _even_times(span, every_ms, zone):
        place = span.place(at_ms)
        if TICK_EDGE <= place <= 100 - TICK_EDGE:
            ticks.append(Tick(place, time_word(at_ms, every_ms, zone), len(ticks) % 2 == 1))
    return ticks


def time_word(at_ms: int, every_ms: int, zone: tzinfo) -> str:
    """The label of a tick, for ticks `every_ms` apart: 04:00:30, 04:00, 11-21, 2026-11-21."""
    moment = datetime.fromtimestamp(at_ms / 1000, zone)
    if every_ms < MINUTE_MS:
        return moment.strftime("%H:%M:%S")
    if every_ms >= DAY_MS or (moment.hour == 0 and moment.minute == 0):
        return moment.strftime("%m-%d" if every_ms < WEEK_MS * 8 else "%Y-%m-%d")
    return moment.strftime("%H:%M")


def _even_times(span: TimeSteps, every_ms: int, zone: tzinfo) -> Iterator[int]:
    """Times of the span that are multiples of `every_ms` since a midnight of the zone."""
    first = datetime.fromtimestamp(span.from_ms / 1000, zone)
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    at_ms = round(midnight.astimezone(UTC).timestamp() * 1000)
    at_ms += max(0, -(-(span.from_ms - at_ms) // every_ms)) * every_ms
    yield from range(at_ms, span.to_ms, every_ms)


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
